"""What every test shares."""

import signal

from hypothesis import settings

# A shared CI machine may stall for longer than any deadline that would be worth setting.
settings.register_profile("orbitmq", deadline=None, max_examples=100)
settings.load_profile("orbitmq")

# What is started in the background ignores SIGINT, and so would the programs that tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

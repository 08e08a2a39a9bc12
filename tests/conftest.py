"""What every test shares."""

import atexit
import os
import shutil
import signal
import tempfile

from hypothesis import settings

# A shared CI machine may stall for longer than any deadline that would be worth setting.
settings.register_profile("orbitmq", deadline=None, max_examples=100)
settings.load_profile("orbitmq")

# What is started in the background ignores SIGINT, and so would the programs that tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Servers that tests start, and kill, leave their pid files with each other, not with the user's.
if "ORBITMQ_RUN_DIR" not in os.environ:
    os.environ["ORBITMQ_RUN_DIR"] = tempfile.mkdtemp(prefix="orbitmq-run-")
    atexit.register(shutil.rmtree, os.environ["ORBITMQ_RUN_DIR"], ignore_errors=True)

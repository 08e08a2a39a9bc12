"""What every test shares."""

from hypothesis import settings

# A shared CI machine may stall for longer than any deadline that would be worth setting.
settings.register_profile("orbitmq", deadline=None, max_examples=100)
settings.load_profile("orbitmq")

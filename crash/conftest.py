"""The seed of the run: printed at its head, set by ORBITMQ_CRASH_SEED to run it again."""

from __future__ import annotations

import os
import random

import pytest

SEED = int(os.environ.get("ORBITMQ_CRASH_SEED") or random.SystemRandom().randrange(1 << 31))


def pytest_report_header(config: pytest.Config) -> str:
    return f"crash seed: {SEED} (ORBITMQ_CRASH_SEED={SEED} runs the same choices again)"


@pytest.fixture(scope="session")
def crash_seed() -> int:
    return SEED

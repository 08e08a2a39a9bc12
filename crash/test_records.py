"""The suites' own record decoder handles all remains of a power cut, and ends in one way."""

from __future__ import annotations

import contextlib
import random
from pathlib import Path

import pytest

from compat.records import decode, log_records
from crash.messages import MessageMaker
from orbitmq._native import Store, StoreOptions


def test_torn_or_damaged_records_are_value_errors(tmp_path: Path, crash_seed: int) -> None:
    maker = MessageMaker(crash_seed, (("Orders", 2),), largest_body=300)
    with Store.open(tmp_path, StoreOptions(commit_log_file_size=64 << 10), create=True) as store:
        store.append_many([maker.make(number).new_message() for number in range(20)], now_ms=1)
    chooser = random.Random(crash_seed)
    for record, data in log_records(tmp_path):
        with pytest.raises(ValueError, match="no record here"):
            decode(memoryview(data[: chooser.randrange(record.size)]))
        # Torn at each byte: the rest was never written, or is something else.
        for at in range(8, record.size):
            for rest in (bytes(record.size - at), chooser.randbytes(record.size - at)):
                with contextlib.suppress(ValueError):
                    assert decode(memoryview(data[:at] + rest)).size == record.size

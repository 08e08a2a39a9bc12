"""The garbage collector skips the modules a worker has imported, also in its first task."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import gc
from orbitmq.spark.worker import FREEZES, settle_in

settle_in()
first = gc.get_freeze_count()
import decimal, email.message, http.client, xml.dom.minidom
settle_in()
second = gc.get_freeze_count()
for _ in range(FREEZES):
    settle_in()
most = gc.get_freeze_count()
kept = [[] for _ in range(10_000)]
settle_in()
print(0 < first < second <= most, gc.get_freeze_count() == most)
"""


def test_imported_modules_are_frozen_and_garbage_is_not() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == ["True", "True"]

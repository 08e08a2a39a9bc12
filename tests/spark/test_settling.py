"""The garbage collector skips the modules a worker has imported, also in its first task."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import gc
from orbitmq.spark.worker import FREEZES, tune_worker

tune_worker()
first = gc.get_freeze_count()
import decimal, email.message, http.client, xml.dom.minidom
tune_worker()
second = gc.get_freeze_count()
for _ in range(FREEZES):
    tune_worker()
most = gc.get_freeze_count()
kept = [[] for _ in range(10_000)]
tune_worker()
print(0 < first < second <= most, gc.get_freeze_count() == most)
"""


def test_imported_modules_are_frozen_and_garbage_is_not() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == ["True", "True"]

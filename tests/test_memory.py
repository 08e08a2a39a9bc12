"""Freed memory stays with the process that will want it again."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import resource
from orbitmq.memory import keep_freed_memory

def faults() -> int:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        blocks = [bytes(4 << 20) for _ in range(4)]
        for block in blocks:
            bytearray(block)
        del blocks
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

assert keep_freed_memory()
faults()
print(faults())
"""


def test_blocks_of_megabytes_are_used_again() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True
    )
    pages_touched = 20 * 8 * (4 << 20) // 4096
    assert int(done.stdout) < pages_touched // 20

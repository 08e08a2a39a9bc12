"""A worker whose reader has left ends silently; other failures are printed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

# A process whose main module has the name of Spark's daemon, and prints like it.
PROGRAM = """
import sys, traceback
from importlib.machinery import ModuleSpec
from orbitmq.spark.early_ends import end_quietly

main = sys.modules["__main__"]
main.__spec__ = ModuleSpec({name!r}, None)
end_quietly()
end_quietly()
try:
    raise {error}
except BaseException:
    traceback.print_exc()
print(traceback.format_exc() == "NoneType: None\\n")
"""


@pytest.mark.parametrize(
    ("name", "error", "printed"),
    [
        ("pyspark.daemon", "BrokenPipeError(32)", False),
        ("pyspark.daemon", "ConnectionResetError(104)", False),
        ("pyspark.daemon", "ValueError('a mistake')", True),
        ("another.module", "BrokenPipeError(32)", True),
    ],
)
def test_only_the_traceback_of_a_closed_reader_is_suppressed(
    tmp_path: Path, name: str, error: str, printed: bool
) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.format(name=name, error=error))
    done = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "True\n"
    assert ("Traceback" in done.stderr) is printed
    assert (error.partition("(")[0] in done.stderr) is printed

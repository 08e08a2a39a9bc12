"""A driver to be killed: runs an archive pipeline on a session that is already started.

Run as a program of its own, ``python -m tests.spark.archive_driver '{"file": …}'``; see `Archiving`
for the keys. When it is told to go it does what ``orbitmq pipeline run`` does.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from orbitmq.spark.pipelines import Report, load, run
from orbitmq.spark.pipelines.progress import BatchProgress
from orbitmq.spark.session import session
from tests.spark.relay_driver import QUICK_START


@dataclass(kw_only=True)
class Archiving:
    """Work of the driver."""

    file: str
    once: bool = False
    """True to end when all present messages have been archived."""
    module: str = "tests.spark.archive_driver"

    def as_json(self) -> str:
        """Return the text that `main` takes."""
        return json.dumps(asdict(self))


class Speaking:
    """A display that prints each batch and each failure."""

    def progress(self, progress: BatchProgress) -> None:
        """Print the number of rows of a batch."""
        print(json.dumps({"rows": progress.rows}), flush=True)

    def say(self, text: str) -> None:
        """Ignore the line: the tests read files."""

    def report(self, report: Report) -> None:
        """Ignore the report: the tests read files."""

    def failed(self, text: str) -> None:
        """Write the failure to the log."""
        print(text, file=sys.stderr, flush=True)


def main(text: str) -> None:
    """Wait for the start signal, then run the pipeline until it ends or is killed."""
    archiving = Archiving(**json.loads(text))
    spark = session("archive", master="local[2]", settings=QUICK_START)
    spark.sparkContext.setLogLevel("OFF")
    print(json.dumps({"stands_by": True}), flush=True)
    if not sys.stdin.readline():
        return
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    print(json.dumps({"jvm": jvm.java.lang.ProcessHandle.current().pid()}), flush=True)
    code = run(load(Path(archiving.file), {}), spark, Speaking(), once=archiving.once)
    print(json.dumps({"ended": int(code)}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])

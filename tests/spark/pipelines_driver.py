"""A driver that runs several pipeline files on one session.

Run as a program of its own, ``python -m tests.spark.pipelines_driver '{"files": …}'``; see `Files`
for the keys. It says how each of them ended, and what its report found; last, which bodies a store
directory has.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path

from orbitmq.spark import read_store
from orbitmq.spark.pipelines import Report, load, run
from orbitmq.spark.pipelines.progress import BatchProgress
from orbitmq.spark.session import session
from tests.spark.relay_driver import QUICK_START


@dataclass(kw_only=True)
class Files:
    """Work of the driver."""

    files: list[str]
    store: str
    master: str
    name_server: str
    settings: dict[str, str] = field(default_factory=dict)
    module: str = "tests.spark.pipelines_driver"

    def as_json(self) -> str:
        """Return the text that `main` takes."""
        return json.dumps(asdict(self))


class Remembering:
    """A display that records findings and failures."""

    def __init__(self) -> None:
        self.facts: dict[str, object] = {}
        self.failures: list[str] = []

    def progress(self, progress: BatchProgress) -> None:
        """Ignore progress: the tests read the results."""

    def say(self, text: str) -> None:
        """Ignore the line."""

    def report(self, report: Report) -> None:
        """Record the findings."""
        self.facts |= report.facts

    def failed(self, text: str) -> None:
        """Record the failure."""
        self.failures.append(text)


def main(text: str) -> None:
    """Run all files."""
    given = Files(**json.loads(text))
    spark = session("pipelines", master=given.master, settings=QUICK_START | given.settings)
    spark.sparkContext.setLogLevel("OFF")
    for file in map(Path, given.files):
        display = Remembering()
        loaded = load(file, {"NAMESRV_ADDR": given.name_server})
        code = run(loaded, spark, display, once=True)
        ended = {"code": int(code), "facts": display.facts, "failures": display.failures}
        print(json.dumps({file.stem: ended}), flush=True)
    bodies = read_store(spark, given.store, columns=["body"], splits=3).collect()
    print(json.dumps({"stored": [row.body.decode() for row in bodies]}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])

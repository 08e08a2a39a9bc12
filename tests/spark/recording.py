"""A display for pipelines under test, and the wish to stop them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from orbitmq.spark.pipelines import Report, Workspace
from orbitmq.spark.pipelines.progress import BatchProgress

__all__ = ["Recorder", "stop_after"]


class Recorder:
    """Keeps what it is shown."""

    def __init__(self) -> None:
        self.batches: list[BatchProgress] = []
        self.said: list[str] = []
        self.reports: list[Report] = []
        self.failures: list[str] = []
        self.batch_came = threading.Event()

    def progress(self, progress: BatchProgress) -> None:
        """Keep a batch."""
        self.batches.append(progress)
        if progress.rows:
            self.batch_came.set()

    def say(self, text: str) -> None:
        """Keep a line."""
        self.said.append(text)

    def report(self, report: Report) -> None:
        """Keep a report."""
        self.reports.append(report)

    def failed(self, text: str) -> None:
        """Keep a failure."""
        self.failures.append(text)


@contextmanager
def stop_after(event: threading.Event, workspace: Workspace) -> Iterator[None]:
    """Wish for an end as soon as something has happened."""

    def wait() -> None:
        event.wait(60)
        workspace.stopping.set()

    thread = threading.Thread(target=wait)
    thread.start()
    try:
        yield
    finally:
        thread.join()

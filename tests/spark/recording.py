"""A recording display for pipelines under test, and a way to stop them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from orbitmq.spark.pipelines import Report, Workspace
from orbitmq.spark.pipelines.progress import BatchProgress

__all__ = ["Recorder", "stop_after"]


class Recorder:
    """Records everything shown."""

    def __init__(self) -> None:
        self.batches: list[BatchProgress] = []
        self.said: list[str] = []
        self.reports: list[Report] = []
        self.failures: list[str] = []
        self.batch_came = threading.Event()

    def progress(self, progress: BatchProgress) -> None:
        """Record a batch."""
        self.batches.append(progress)
        if progress.rows:
            self.batch_came.set()

    def say(self, text: str) -> None:
        """Record a line."""
        self.said.append(text)

    def report(self, report: Report) -> None:
        """Record a report."""
        self.reports.append(report)

    def failed(self, text: str) -> None:
        """Record a failure."""
        self.failures.append(text)


@contextmanager
def stop_after(event: threading.Event, workspace: Workspace) -> Iterator[None]:
    """Request a stop as soon as an event has happened."""

    def wait() -> None:
        event.wait(60)
        workspace.stopping.set()

    thread = threading.Thread(target=wait)
    thread.start()
    try:
        yield
    finally:
        thread.join()

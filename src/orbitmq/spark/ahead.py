"""The next batch is made while Spark takes the last one.

Theory of operation. A worker makes a batch and writes it to the JVM, which takes as long as the JVM
needs to read it: the buffers between them are small, a batch is megabytes. Making lets go of the
GIL, and so does writing; with a thread for the one they go on side by side, and a task waits for
neither its broker nor the JVM while it could work. There is one batch ahead, no more, so memory
stays bounded. Batches of a store directory, where there is no broker, are made no faster so.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

__all__ = ["ahead"]

T = TypeVar("T")


def ahead(batches: Iterator[T]) -> Generator[T, None, None]:
    """Return the same batches, each made while whoever asks has the one before.

    Whoever stops asking waits until the one that is being made is done, so that nobody uses what
    they are made of at the same time.
    """
    with ThreadPoolExecutor(1, "orbitmq-ahead") as thread:
        upcoming = thread.submit(next, batches, None)
        while (batch := upcoming.result()) is not None:
            upcoming = thread.submit(next, batches, None)
            yield batch

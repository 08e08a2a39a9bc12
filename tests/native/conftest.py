"""Stores with files so small that a test crosses their ends."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from orbitmq import Store, StoreOptions


@pytest.fixture
def small() -> StoreOptions:
    return StoreOptions(
        commit_log_file_size=16 * 1024,
        consume_queue_file_size=50 * 20,
        index_slots=97,
        index_entries=500,
    )


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def reopen(root: Path, small: StoreOptions) -> Iterator[Callable[[], Store]]:
    """Opens the store in `root`; one that is still open is closed first, the last at the end."""
    current: list[Store] = []

    def again() -> Store:
        while current:
            current.pop().close()
        current.append(Store.open(root, small, create=True))
        return current[0]

    yield again
    while current:
        current.pop().close()


@pytest.fixture
def store(reopen: Callable[[], Store]) -> Store:
    return reopen()

"""Store directories made for the tests: known messages, small files, and seeded faults."""

from __future__ import annotations

from pathlib import Path

from orbitmq import NewMessage, Store, StoreOptions

T0 = 1_700_000_000_000
STEP_MS = 10_000
HOST = ("10.1.2.3", 10911)
LOG_FILE_SIZE = 64 << 10
COUNT = 300
"""Number of messages in the store that tests share."""
INDEX_SLOTS = 40


def open_small(path: Path) -> Store:
    """Open a store with files so small that a few dozen messages fill several."""
    options = StoreOptions(
        commit_log_file_size=LOG_FILE_SIZE,
        consume_queue_file_size=20 * 64,
        index_slots=INDEX_SLOTS,
        index_entries=4000,
    )
    return Store.open(path, options, create=True)


def message(number: int) -> NewMessage:
    """Message `number`: topic `even` or `odd`, one of two queues, tags, keys, a property."""
    return NewMessage(
        "even" if number % 2 == 0 else "odd",
        body(number),
        queue_id=number // 2 % 2,
        born_timestamp=T0 + number * STEP_MS - 5,
        born_host=("10.9.8.7", 4000 + number % 1000),
        store_host=HOST,
        properties={
            "TAGS": f"tag{number % 3}",
            "KEYS": f"k{number} ten{number % 10}",
            "UNIQ_KEY": f"U{number}",
            "shop": "Zürich ☕",
        },
    )


def body(number: int) -> bytes:
    """Return the body of message `number`."""
    return f"message {number} ".encode() * (1 + number % 50)


def fill(path: Path, count: int) -> Path:
    """Make a store of `count` messages and close it in order."""
    with open_small(path) as store:
        for number in range(count):
            store.append(message(number), now_ms=T0 + number * STEP_MS)
    return path


def log_files(path: Path) -> list[Path]:
    """Return the files of the log, oldest first."""
    return sorted((path / "commitlog").iterdir())


def overwrite(file: Path, at: int, data: bytes) -> None:
    """Overwrite some bytes of a file."""
    with file.open("r+b") as opened:
        opened.seek(at)
        opened.write(data)


def find_in_log(path: Path, text: bytes) -> tuple[Path, int]:
    """Return the log file that contains some bytes, and their position in it."""
    for file in log_files(path):
        at = file.read_bytes().find(text)
        if at >= 0:
            return file, at
    raise AssertionError(f"{text!r} is not in the log")


def flip_byte_of(path: Path, number: int) -> None:
    """Damage the body of message `number`."""
    file, at = find_in_log(path, f"message {number} ".encode())
    overwrite(file, at, b"M")

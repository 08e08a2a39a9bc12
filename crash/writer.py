"""The process that is killed: appends under sync flush and reports what is durable.

    python -m crash.writer '{"root": ..., "seed": ..., "first": ..., ...}'

Each line on standard output reports one append call whose messages all lie below the flushed
watermark, that is, what a broker would have acknowledged:

    <number of the first message> <store time> <physical offset> <size> <queue offset> [...]

with the last three repeated for each message of the call. The process never ends by itself. A line
is one `write` to a pipe, so a kill leaves a line whole or absent.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from crash.messages import MessageMaker
from orbitmq._native import Store, StoreOptions

FLUSH_TIMEOUT_MS = 10_000
SWING_MESSAGES = 150


@dataclass(frozen=True)
class WriterSettings:
    root: str
    seed: int
    first: int
    topics: tuple[tuple[str, int], ...]
    largest_body: int
    options: dict[str, Any]
    # Store times: 0 is the wall clock; otherwise message n is stored at epoch_ms + n * tick_ms, so
    # that a short round covers hours and checkpoints fall between files.
    epoch_ms: int = 0
    tick_ms: int = 0
    # The clock is this far ahead for every second stretch of messages, and is set back in between.
    swing_ms: int = 0

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> WriterSettings:
        fields = json.loads(text)
        fields["topics"] = tuple((topic, queues) for topic, queues in fields["topics"])
        return WriterSettings(**fields)

    @property
    def maker(self) -> MessageMaker:
        return MessageMaker(self.seed, self.topics, self.largest_body)

    def store_time_ms(self, number: int) -> int:
        if not self.epoch_ms:
            return int(time.time() * 1000)
        swing_ms = self.swing_ms if number // SWING_MESSAGES % 2 else 0
        return self.epoch_ms + number * self.tick_ms + swing_ms


@dataclass(frozen=True)
class Acknowledged:
    number: int
    store_timestamp: int
    physical_offset: int
    size: int
    queue_offset: int

    @property
    def end(self) -> int:
        return self.physical_offset + self.size


def parse_report(line: bytes) -> list[Acknowledged]:
    number, store_timestamp, *places = map(int, line.split())
    return [
        Acknowledged(number + i, store_timestamp, *places[3 * i : 3 * i + 3])
        for i in range(len(places) // 3)
    ]


def write_forever(settings: WriterSettings) -> None:
    store = Store.open(settings.root, StoreOptions(flush="sync", **settings.options), create=True)
    maker = settings.maker
    number = settings.first
    while True:
        count = maker.batch_size(number)
        now_ms = settings.store_time_ms(number)
        messages = [maker.make(number + i).new_message() for i in range(count)]
        places = store.append_many(messages, now_ms=now_ms, atomic=maker.is_atomic(number))
        if not store.wait_flushed(places[-1].end, FLUSH_TIMEOUT_MS):
            sys.exit("the flushed watermark does not move")
        words: list[int] = [number, now_ms]
        for place in places:
            words += place.physical_offset, place.size, place.queue_offset
        os.write(1, (" ".join(map(str, words)) + "\n").encode())
        number += count


def main(arguments: Sequence[str]) -> None:
    write_forever(WriterSettings.from_json(arguments[0]))


if __name__ == "__main__":
    main(sys.argv[1:])

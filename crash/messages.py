"""Messages that depend only on a seed and a number.

Writer and verifier live in different processes and one of them is killed; neither needs to tell the
other what a message looked like, only its number.
"""

from __future__ import annotations

import functools
import random
from dataclasses import dataclass

from orbitmq._native import NewMessage

TAGS = ("TagA", "TagB", "Aa", "BB", "标签", "")
STORE_HOST = ("127.0.0.1", 10911)
BORN_HOSTS = (("127.0.0.1", 50001), ("10.1.2.3", 50002), ("2001:db8::7", 50003))


@dataclass(frozen=True)
class Content:
    number: int
    topic: str
    queue_id: int
    body: bytes
    unique_key: str
    keys: tuple[str, ...]
    tags: str
    flag: int
    born_timestamp: int
    born_host: tuple[str, int]

    def new_message(self) -> NewMessage:
        properties = {"UNIQ_KEY": self.unique_key, "CLUSTER": "compat"}
        if self.keys:
            properties["KEYS"] = " ".join(self.keys)
        if self.tags:
            properties["TAGS"] = self.tags
        return NewMessage(
            self.topic,
            self.body,
            queue_id=self.queue_id,
            flag=self.flag,
            born_timestamp=self.born_timestamp,
            born_host=self.born_host,
            store_host=STORE_HOST,
            properties=properties,
        )


@dataclass(frozen=True)
class MessageMaker:
    """Makes message `number` of the run `seed` for topics given with their queue counts."""

    seed: int
    topics: tuple[tuple[str, int], ...]
    largest_body: int = 2_000

    @functools.cache  # noqa: B019  a verifier asks for all of them again after every round
    def make(self, number: int) -> Content:
        chooser = random.Random(self.seed * 1_000_003 + number)
        topic, queues = chooser.choice(self.topics)
        size = (
            chooser.randrange(1, 120)
            if chooser.random() < 0.8
            else chooser.randrange(1, self.largest_body)
        )
        keys = [f"order-{self.seed}-{number}"] if chooser.random() < 0.8 else []
        if chooser.random() < 0.3:
            keys.append(f"客户-{chooser.randrange(1_000)}")
        return Content(
            number=number,
            topic=topic,
            queue_id=chooser.randrange(queues),
            body=chooser.randbytes(size),
            unique_key=f"7F0000010001{self.seed & 0xFFFFFFFF:08X}{number:012X}",
            keys=tuple(keys),
            tags=chooser.choice(TAGS),
            flag=chooser.getrandbits(31),
            born_timestamp=1_700_000_000_000 + number,
            born_host=chooser.choice(BORN_HOSTS),
        )

    def batch_size(self, number: int) -> int:
        """Return the number of messages, from this one on, that are appended in one call."""
        return random.Random(self.seed * 31 + number).choice((1, 1, 2, 5, 12))

    def is_atomic(self, number: int) -> bool:
        """True if that call is a batch: contiguous in one file, stored whole or not at all."""
        return random.Random(self.seed * 37 + number).random() < 0.3

"""The state of the brokers known to a twin session, and the choices it makes from it.

All chances come from one seeded generator. The world learns from the Java side's answers which
messages there are, so that later requests ask for things that exist as well as for things that do
not.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from compat.twin.sides import Request
from orbitmq._native import Command
from orbitmq.protocol.codes import RequestCode

T = TypeVar("T")

BROKER, CLUSTER = "twin", "twins"

# name: (read queues, write queues, permission, filter type)
CREATED = {
    "Orders": (4, 4, 6, "SINGLE_TAG"),
    "Single": (1, 1, 6, "SINGLE_TAG"),
    "Shrunk": (2, 4, 6, "SINGLE_TAG"),
    "Grown": (6, 3, 6, "SINGLE_TAG"),
    "ReadOnly": (2, 2, 4, "SINGLE_TAG"),
    "WriteOnly": (2, 2, 2, "SINGLE_TAG"),
    "ManyTags": (2, 2, 6, "MULTI_TAG"),
}
AUTO_CREATED = ["Auto1", "Auto2", "Auto-3", "Auto|4", "Auto%5", "AUTO_6"]
PASSING = ["Passing1", "Passing2"]
"""Topics that are created and deleted."""
BAD_TOPICS = ["", " ", "a b", "t\u00f6pic", "x" * 128, "semi;colon", "slash/", "dot.dot"]
FORBIDDEN = [
    *("SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC"),
    *("TRANS_CHECK_MAX_TIME_TOPIC", "SELF_TEST_TOPIC", "OFFSET_MOVED_EVENT"),
]
OWN = ["TBW102", BROKER, CLUSTER, f"{CLUSTER}_REPLY_TOPIC", "BenchmarkTest", "rmq_sys_thing"]
UNKNOWN = ["NoSuchTopic", "NeverHeardOf"]
GROUPS = ["readers", "writers", "others", "g-4", "CID_RMQ_SYS_x"]
ANCIENTS = "ancients"
"""A group of one member that is too old for most requests. Alone: which members of a group get a
push before an old one is met depends on the order of a hash map."""
CLIENT_IDS = ["127.0.0.1@one", "127.0.0.1@two", "127.0.0.1@three"]
VERSIONS = [28, 61, 62, 120, 121, 317, 400, 407, 500, 9999]
OLD_VERSIONS = [0, 1, 7, 15, 16, 27]
LANGUAGES = ["JAVA", "CPP", "GO", "PYTHON", "OTHER"]


@dataclass
class Sent:
    physical_offset: int
    topic: str
    queue_id: int
    queue_offset: int
    size_hint: int
    keys: list[str] = field(default_factory=list)


class World:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.sent: list[Sent] = []
        self.ends: dict[tuple[str, int], int] = {}
        self.moments: list[int] = []
        """Times at which nothing was being stored: every message is before or after them."""
        self.quiet_moments: list[int] = []
        """Such times followed by a whole second without puts: the index counts in seconds."""

    # ---- Choices

    def one(self, values: Sequence[T]) -> T:
        return self.rng.choice(values)

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def number(self, low: int, high: int) -> int:
        return self.rng.randint(low, high)

    def topic(self, *, mostly_known: bool = True) -> str:
        if mostly_known and not self.chance(0.08):
            return self.one([*CREATED, *AUTO_CREATED, "Orders", "Single"])
        return self.one([*UNKNOWN, *PASSING, *OWN, *FORBIDDEN, *BAD_TOPICS, "%RETRY%readers"])

    def read_queues(self, topic: str) -> int:
        return CREATED[topic][0] if topic in CREATED else 4

    def write_queues(self, topic: str) -> int:
        return CREATED[topic][1] if topic in CREATED else 4

    def queue(self, topic: str) -> int:
        if self.chance(0.04):
            return self.one([-1, -2, 99, 2**31 - 1])
        return self.number(0, max(self.read_queues(topic), self.write_queues(topic)) - 1)

    def offset(self, topic: str, queue_id: int) -> int:
        end = self.ends.get((topic, queue_id), 0)
        return self.one(
            [0, 0, end, end + 1, end + 1000, -1, self.number(0, max(end, 1)), max(end - 3, 0)]
        )

    def keeps_offsets(self, topic: str) -> bool:
        """Return True if a topic exists and stays: our broker drops offsets with their topic."""
        return topic in CREATED or (topic in AUTO_CREATED and topic in self.topics_sent_to)

    @property
    def topics_sent_to(self) -> set[str]:
        return {topic for topic, _ in self.ends}

    def physical_offset(self) -> int:
        if self.sent and not self.chance(0.15):
            return self.one(self.sent).physical_offset
        # None in the middle of a record: Java's broker takes what is there for a length.
        return self.one([-1, 0, 2**40, 2**62])

    def moment(self) -> int:
        return self.one([0, 1, -1, 10**13, *self.moments, *self.moments])

    def quiet_moment(self) -> int:
        return self.one([0, 1, -1, 10**13, *self.quiet_moments, *self.quiet_moments])

    def key(self) -> str:
        return f"k{self.number(0, 60)}"

    def connection(self) -> int:
        return self.number(0, 2)

    # ---- Learning from answers

    def learn(self, request: Request, answer: Command | None) -> None:
        """Record the messages that an answer of the Java side names as stored."""
        if answer is None or answer.get_ext("msgId") is None:
            return
        names = ("b", "e") if request.code != RequestCode.SEND_MESSAGE else ("topic", "queueId")
        topic = (request.ext or {}).get(names[0], "")
        queue_id = int(answer.get_ext("queueId") or 0)
        first = int(answer.get_ext("queueOffset") or 0)
        for number, offset_id in enumerate((answer.get_ext("msgId") or "").split(",")):
            place = int(offset_id[-16:], 16)
            self.sent.append(Sent(place, topic, queue_id, first + number, len(request.body)))
            self.ends[topic, queue_id] = max(
                self.ends.get((topic, queue_id), 0), first + number + 1
            )

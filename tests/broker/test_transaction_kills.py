"""``kill -9`` in every state of a transaction: decisions hold, undecided messages are checked.

A broker kills itself between two appends (`transaction_victim`); another one starts on its
directory. Its producer then answers every check with the same decision, until nothing is asked any
more. A broker that dies between a message and the note that its half is over delivers it again, as
RocketMQ does: at least once is promised, and exactly once where the end was noted.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from orbitmq.protocol.codes import RequestCode
from orbitmq.protocol.names import (
    TRANS_CHECK_MAX_TIME_TOPIC,
    TRANS_HALF_TOPIC,
    TRANS_OP_HALF_TOPIC,
)
from orbitmq.testing import LocalCluster

from .conftest import Wire, broker_address
from .test_transactions import (
    COMMIT,
    ROLLBACK,
    SETTINGS,
    begin,
    bodies,
    end,
    hear_of_producer,
)

pytestmark = pytest.mark.counted

ROUNDS = 6
"""More rounds than the maximum of checks."""


@contextmanager
def victim(data: Path, topic: str, moment: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.broker.transaction_victim", str(data), topic, moment],
        cwd=Path(__file__).parents[2],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def arm(process: subprocess.Popen[str], what: str) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{what}\n")
    process.stdin.flush()
    assert process.stdout.readline() == "armed\n"


def connected(process: subprocess.Popen[str]) -> Wire:
    assert process.stdout is not None
    return Wire(process.stdout.readline().strip())


class Survivor:
    """A broker on the remaining files, and a producer that answers its checks."""

    def __init__(self, cluster: LocalCluster) -> None:
        (self._broker,) = cluster.brokers.values()
        self._cluster = cluster
        self.wire = Wire(broker_address(cluster))
        hear_of_producer(self.wire)

    def settle(self, decision: str) -> int:
        """Answer every check; return their number once no more come."""
        checks = 0
        for _ in range(ROUNDS):
            before = self._broker.clock()
            while self._broker.clock() == before:
                time.sleep(0.0005)
            self._cluster.run(self._broker.transaction_check.round())
            # Notices arrive before the answer to a later request.
            assert self.wire.ask(RequestCode.GET_MAX_OFFSET, {"topic": "t", "queueId": "0"}).ext
            for asked in self.wire.pushed:
                checks += 1
                half = (asked.ext or {}) | {"producerGroup": "p", "fromTransactionCheck": "true"}
                assert end(self.wire, half, decision).code == 0
            is_quiet = not self.wire.pushed
            self.wire.pushed.clear()
            if is_quiet:
                return checks
        raise AssertionError("it is asked about again and again")

    def count(self, topic: str) -> int:
        return len(self._broker.store.read(topic, 0, 0, max_messages=1000).records())


@contextmanager
def survivor(data: Path) -> Iterator[Survivor]:
    with LocalCluster(data=data, settings=SETTINGS) as cluster:
        made = Survivor(cluster)
        yield made
        made.wire.close()


@pytest.mark.parametrize(
    ("decision", "topic", "moment", "seen", "is_asked"),
    [
        (COMMIT, "t", "before", 1, True),
        (COMMIT, TRANS_OP_HALF_TOPIC, "before", 2, True),
        (COMMIT, TRANS_OP_HALF_TOPIC, "after", 1, False),
        (ROLLBACK, TRANS_OP_HALF_TOPIC, "before", 0, True),
        (ROLLBACK, TRANS_OP_HALF_TOPIC, "after", 0, False),
    ],
    ids=["commit-begun", "committed-not-noted", "committed", "rollback-begun", "rolled-back"],
)
def test_a_decision_holds_or_is_asked_again_when_killed_during_the_end(
    tmp_path: Path, decision: str, topic: str, moment: str, seen: int, is_asked: bool
) -> None:
    with victim(tmp_path, topic, moment) as process:
        wire = connected(process)
        acknowledged = begin(wire, b"earlier")
        assert end(wire, acknowledged, decision).code == 0
        half = begin(wire, b"pay")
        arm(process, "end")
        wire.post(RequestCode.END_TRANSACTION, half | {"commitOrRollback": decision})
        assert process.wait(60) == -9
        wire.close()
    with survivor(tmp_path) as after:
        assert after.settle(decision) == (1 if is_asked else 0)
        assert bodies(after.wire) == [b"earlier"] * (decision == COMMIT) + [b"pay"] * seen


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_half_message_is_whole_or_absent_when_killed_during_the_send(
    tmp_path: Path, moment: str
) -> None:
    """The send is unacknowledged: the message may be absent, and is checked if it is stored."""
    with victim(tmp_path, TRANS_HALF_TOPIC, moment) as process:
        wire = connected(process)
        wire.send("t", b"plain")
        arm(process, "end")
        with pytest.raises((AssertionError, ConnectionError)):
            begin(wire, b"pay")
        assert process.wait(60) == -9
        wire.close()
    with survivor(tmp_path) as after:
        assert after.settle(COMMIT) == (1 if moment == "after" else 0)
        assert bodies(after.wire) == ([b"pay"] if moment == "after" else [])
        assert bodies(after.wire, queue="0") == [b"plain"]


@pytest.mark.parametrize("decision", [COMMIT, ROLLBACK], ids=["commit", "rollback"])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_transaction_is_decided_once_when_killed_during_a_check(
    tmp_path: Path, moment: str, decision: str
) -> None:
    with victim(tmp_path, TRANS_HALF_TOPIC, moment) as process:
        wire = connected(process)
        hear_of_producer(wire)
        begin(wire, b"pay")
        arm(process, "round")
        assert process.wait(60) == -9
        wire.close()
    with survivor(tmp_path) as after:
        # With a copy, both offsets are checked again; the decisions are about one message.
        checks = after.settle(decision)
        assert checks == (1 if moment == "before" else 2)
        assert bodies(after.wire) == [b"pay"] * (decision == COMMIT)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_message_is_never_delivered_when_killed_during_its_discard(
    tmp_path: Path, moment: str
) -> None:
    with victim(tmp_path, TRANS_CHECK_MAX_TIME_TOPIC, moment) as process:
        wire = connected(process)
        begin(wire, b"lost")
        arm(process, "round")
        assert process.wait(60) == -9
        wire.close()
    with survivor(tmp_path) as after:
        # The number of checks is in the copies: the first one is checked from zero again.
        checks = after.settle(ROLLBACK)
        assert checks >= 1
        assert after.count(TRANS_CHECK_MAX_TIME_TOPIC) >= 1
        assert bodies(after.wire) == []

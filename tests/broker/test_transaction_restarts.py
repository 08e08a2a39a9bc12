"""Decisions about copies of half messages made before the broker restarted."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from orbitmq._native import decode_records
from orbitmq.testing import LocalCluster

from .conftest import Wire, broker_address
from .test_transactions import HALF, SETTINGS, begin, bodies, end, hear_of_producer


class Running:
    """A broker whose check rounds a test runs."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        (self.broker,) = cluster.brokers.values()
        self.wire = Wire(broker_address(cluster))
        hear_of_producer(self.wire)

    def asked_in_a_round(self) -> dict[bytes, dict[str, str]]:
        """Run a round; return the fields of each check by the body of its message."""
        before_ms = self.broker.clock()
        while self.broker.clock() == before_ms:  # Wait for the next millisecond.
            time.sleep(0.0005)
        self._cluster.run(self.broker.transaction_check.round())
        bodies(self.wire)  # The answer to a request comes after the checks.
        pushed, self.wire.pushed[:] = list(self.wire.pushed), []
        return {
            decode_records(asked.body)[0].body: (asked.ext or {}) | {"producerGroup": "p"}
            for asked in pushed
        }


@contextmanager
def running(data: Path) -> Iterator[Running]:
    with LocalCluster(settings=SETTINGS, data=data) as cluster:
        made = Running(cluster)
        yield made
        made.wire.close()


def half_of(key: str) -> str:
    return f"{HALF}\x02UNIQ_KEY\x01{key}"


@pytest.mark.parametrize("decided", ["first place", "latest copy"])
def test_a_late_decision_counts_once_when_the_broker_has_restarted(
    tmp_path: Path, decided: str
) -> None:
    with running(tmp_path) as before:
        places = [begin(before.wire, b"pay", half_of("A"))]
        begin(before.wire, b"open", half_of("B"))
        places.append(before.asked_in_a_round()[b"pay"])
    with running(tmp_path) as after:
        if decided == "latest copy":
            places.reverse()
        assert end(after.wire, places[0]).code == 0
        assert end(after.wire, places[1]).code == 0, "answered, and not carried out again"
        assert bodies(after.wire) == [b"pay"]
        assert list(after.asked_in_a_round()) == [b"open"]


def test_a_late_decision_counts_when_a_restart_precedes_the_next_round(
    tmp_path: Path,
) -> None:
    with running(tmp_path) as before:
        first_place = begin(before.wire, b"pay", half_of("A"))
        begin(before.wire, b"open", half_of("B"))
        latest = before.asked_in_a_round()[b"pay"]
    with running(tmp_path) as between:
        assert end(between.wire, first_place).code == 0
    with running(tmp_path) as after:
        assert list(after.asked_in_a_round()) == [b"open"]
        assert end(after.wire, latest).code == 0
        assert bodies(after.wire) == [b"pay"]

"""Notes of named jobs: the recorded run, and the limits for the next one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from orbitmq.errors import ConfigError, NoRoute
from orbitmq.remoting.blocking import BlockingNetwork
from orbitmq.spark.sink.exactly_once import Scope
from orbitmq.spark.sink.nameserver_tables import NameserverTable
from orbitmq.spark.sink.runs import EarlierRun, JobRun, Runs, note_run
from orbitmq.testing import LocalCluster

NOBODY = "127.0.0.1:1"


@pytest.fixture
def network() -> Iterator[BlockingNetwork]:
    made = BlockingNetwork()
    yield made
    made.close()


def run(batch: int, partitions: int, *done: int) -> JobRun:
    return JobRun(batch, partitions, frozenset(done))


@pytest.mark.parametrize(
    "noted", [run(0, 1), run(7, 1, 0), run(7, 12, *range(12)), run(7, 12, 0, 1, 2, 5, 7, 8, 11)]
)
def test_a_note_is_read_as_it_was_written(noted: JobRun) -> None:
    assert JobRun.of(str(noted)) == noted


@pytest.mark.parametrize("text", ["", "a,b", "1/2", "1/2/x", "1/2/0-1/more"])
def test_a_malformed_note_is_ignored(text: str) -> None:
    assert JobRun.of(text) is None


def test_joined_notes_keep_the_newest_batch_and_all_partitions() -> None:
    assert run(1, 4, 0).joined(run(1, 4, 2)) == run(1, 4, 0, 2)
    assert run(1, 4, 0).joined(run(2, 3)) == run(2, 3)
    assert run(2, 3).joined(run(1, 4, 0)) == run(2, 3)
    assert run(1, 4, 0).joined(run(1, 5, 2)) == run(1, 4, 0), "the first run decides"


def test_an_outdated_note_does_not_replace_a_newer_run(
    network: BlockingNetwork,
) -> None:
    with LocalCluster(nameservers=2) as pair:
        one, other = pair.address.split(";")
        both = Runs(NameserverTable(network, [one, other]))
        assert both.find("s", "t") is None
        both.note("s", "t", run(1, 2, 0, 1))
        Runs(NameserverTable(network, [one, NOBODY])).note("s", "t", run(2, 4, 0))
        assert both.find("s", "t") == run(2, 4, 0)
        assert both.note("s", "t", run(2, 4, 3)) == run(2, 4, 0, 3)
        assert Runs(NameserverTable(network, [other])).find("s", "t") == run(2, 4, 0, 3)
        assert both.note("s", "t", run(1, 2, 0)) == run(2, 4, 0, 3), "an older batch is over"


def test_notes_are_an_error_when_no_nameserver_answers(network: BlockingNetwork) -> None:
    runs = Runs(NameserverTable(network, [NOBODY]))
    with pytest.raises(NoRoute, match="in how many partitions the job has run before"):
        EarlierRun(runs, Scope("s", 0, 0), "nightly").leaves_only_repeats("t")
    with pytest.raises(NoRoute, match="in how many partitions"):
        note_run(runs, Scope("s", 0, 0), "nightly", ["t"], run(0, 2, 0, 1))


def test_a_task_must_match_the_earlier_run_of_its_topic(
    cluster: LocalCluster, network: BlockingNetwork
) -> None:
    runs = Runs(NameserverTable(network, [cluster.address]))
    note_run(runs, Scope("j", 5, 0), "nightly", ["t"], run(5, 3, 0, 1))

    def only_repeats(partition: int, topic: str = "t", batch: int = 5) -> bool:
        return EarlierRun(runs, Scope("j", batch, partition), "n").leaves_only_repeats(topic)

    assert [only_repeats(partition) for partition in range(3)] == [True, True, False]
    assert not only_repeats(3, "another")
    assert not only_repeats(3, batch=6)
    with pytest.raises(ConfigError, match="'n', batch 5: the run before had 3 partitions"):
        only_repeats(3)


def test_a_run_with_fewer_partitions_fails_at_its_end(
    cluster: LocalCluster, network: BlockingNetwork
) -> None:
    runs = Runs(NameserverTable(network, [cluster.address]))
    scope = Scope("k", 0, 0)
    note_run(runs, scope, "nightly", ["t"], run(0, 4))
    with pytest.raises(ConfigError, match="this one 2; as that one had failed, rows may be stored"):
        note_run(runs, scope, "nightly", ["t"], run(0, 2, 0, 1))
    note_run(runs, scope, "nightly", ["t"], run(0, 4, 0, 1, 2, 3))
    with pytest.raises(ConfigError, match="this one 2; as that one was whole, nothing was stored"):
        note_run(runs, scope, "nightly", ["t"], run(0, 2, 0, 1))
    assert runs.find("k", "t") == run(0, 4, 0, 1, 2, 3)

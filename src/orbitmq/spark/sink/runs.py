"""Notes on runs of a named batch job: a repeated run must divide its rows like the first one.

The id of a row depends on its partition (`exactly_once`), so a broker takes the same rows in other
partitions for new ones. A job that runs again with other cores would store everything twice. A task
cannot find out the number of partitions of its job; the driver gets this number when the tasks are
over. So the driver stores for each topic, in the same nameserver table as the pinned brokers,

- the batch (`deduplicateBatch`) and the number of partitions of its run, and
- the partitions that have sent all of their rows: all of them, unless the run failed.

A task of a later run of the same batch reads the note. A partition that the first run did not have
is rejected. If a partition has sent all of its rows before, every row is a repeat. Its sends are
marked ``repeatsOnly``, and a broker stores nothing of such a send if one of the rows is new to it.
This also rejects a run with fewer partitions, or one whose rows have changed.

One case remains: if the run after a failed one has fewer partitions, the unfinished partitions can
get rows of others. That run fails at its end, when the driver has the number.

A run whose driver was killed leaves no note, nor does a run of a version before these notes. The
next run then counts as the first.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import TypeVar

from orbitmq.errors import ConfigError, NoRoute
from orbitmq.protocol.names import SINK_BROKERS
from orbitmq.spark.sink.exactly_once import Scope
from orbitmq.spark.sink.nameserver_tables import NameserverTable

__all__ = ["EarlierRun", "JobRun", "Runs", "note_run"]

PAUSE_S = 0.5
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class JobRun:
    """Run of a job's batch; the note ``7/4/0-2`` means batch 7, 4 partitions, 0 to 2 done.

    >>> str(JobRun(7, 4, frozenset({0, 1, 3})))
    '7/4/0-1,3-3'
    >>> JobRun.of("7/4/0-1,3-3") == JobRun(7, 4, frozenset({0, 1, 3}))
    True
    """

    batch: int
    partitions: int
    done: frozenset[int]
    """Partitions that have sent all of their rows."""

    @classmethod
    def of(cls, text: str) -> JobRun | None:
        """Parse a note; return None for a note in another format."""
        try:
            batch, partitions, ranges = text.split("/")
            done: set[int] = set()
            for first_to_last in filter(None, ranges.split(",")):
                first, last = first_to_last.split("-")
                done.update(range(int(first), int(last) + 1))
            return cls(int(batch), int(partitions), frozenset(done))
        except ValueError:
            return None

    def __str__(self) -> str:
        ranges = []
        for _, numbers in groupby(enumerate(sorted(self.done)), key=lambda one: one[1] - one[0]):
            row = [number for _, number in numbers]
            ranges.append(f"{row[0]}-{row[-1]}")
        return f"{self.batch}/{self.partitions}/{','.join(ranges)}"

    @property
    def is_whole(self) -> bool:
        """True if every partition has sent all of its rows."""
        return len(self.done) == self.partitions

    def joined(self, other: JobRun | None) -> JobRun:
        """Return the run of the newer batch; for the same batch, join the done partitions."""
        if other is None or other.batch < self.batch:
            return self
        if other.batch > self.batch:
            return other
        if other.partitions != self.partitions:
            return self
        return JobRun(self.batch, self.partitions, self.done | other.done)


class Runs:
    """Reads and writes the notes on runs at the nameservers."""

    def __init__(self, table: NameserverTable) -> None:
        self._table = table

    def key(self, sender: str, topic: str) -> str:
        """Return the key of the note on a sender's topic."""
        return self._table.key(f"{sender}.run", topic)

    def find(self, sender: str, topic: str) -> JobRun | None:
        """Return the noted run, None without a note; raise `NoRoute` if no nameserver answers."""
        notes = self._table.read(self.key(sender, topic))
        if not notes:
            raise self._table.unreachable("says in how many partitions the job has run before")
        found = None
        for note in notes.values():
            run = JobRun.of(note)
            found = run.joined(found) if run is not None else found
        return found

    def note(self, sender: str, topic: str, run: JobRun) -> JobRun:
        """Note a finished run; return the run noted now, which is an earlier one if they differ."""
        noted = self.find(sender, topic)
        joined = run if noted is None else noted.joined(run)
        if joined != noted and not self._table.write(
            self._table.nameservers, self.key(sender, topic), str(joined)
        ):
            raise self._table.unreachable("has noted in how many partitions the job has run")
        return joined


class EarlierRun:
    """Checks the sends of a named job's task against the previous run of the same batch."""

    def __init__(self, runs: Runs, scope: Scope, name: str, patience_s: float = 0.0) -> None:
        """Create the check; `name` is the job's name in option ``deduplicateId``."""
        self._runs = runs
        self._scope = scope
        self._name = name
        self._patience_s = patience_s
        self._known: dict[str, JobRun | None] = {}
        self._lock = threading.Lock()

    def leaves_only_repeats(self, topic: str) -> bool:
        """Return True if this partition has sent all of its rows to a topic before.

        Raises `ConfigError` if the earlier run did not have this partition.
        """
        scope = self._scope
        with self._lock:
            if topic not in self._known:
                self._known[topic] = self._ask(topic)
            run = self._known[topic]
        if run is None:
            return False
        if scope.partition >= run.partitions:
            text = f"this run has more, and nothing of its partition {scope.partition} is sent"
            raise ConfigError(f"{_before(self._name, run, topic)}; {text}. {_advice(run)}")
        return scope.partition in run.done

    def _ask(self, topic: str) -> JobRun | None:
        """Return the earlier run of this batch, None for the first run."""
        sender = self._scope.sender
        run = _patiently(lambda: self._runs.find(sender, topic), self._patience_s)
        return run if run is not None and run.batch == self._scope.batch else None

    def other_rows(self, topic: str, rows: int, repeats: int) -> ConfigError:
        """Return the error for a send with rows that the earlier run did not send."""
        scope, run = self._scope, self._known[topic]
        assert run is not None
        return ConfigError(
            f"{_before(self._name, run, topic)}, and partition {scope.partition} has sent all of "
            f"its rows; now {rows - repeats} of {rows} rows in a send are others, and nothing of "
            "it is stored: the rows are divided otherwise, or have changed, or brokers have "
            f"forgotten the run (deduplicationWindowMs). {_advice(run)} For other rows choose "
            "another deduplicateBatch or deduplicateId. To have rows stored again that a broker "
            f"has lost, delete the note first: orbitmq nameserver kv-delete {SINK_BROKERS} "
            f"{self._runs.key(scope.sender, topic)}"
        )


def note_run(
    runs: Runs,
    scope: Scope,
    name: str,
    topics: Iterable[str],
    run: JobRun,
    patience_s: float = 0.0,
) -> None:
    """Note a run for each of its topics; raise if it differs from the run before."""
    for topic in sorted(topics):
        noted = _patiently(partial(runs.note, scope.sender, topic, run), patience_s)
        if noted.batch == run.batch and noted.partitions != run.partitions:
            stored = (
                "as that one was whole, nothing was stored twice"
                if noted.is_whole
                else "as that one had failed, rows may be stored twice"
            )
            before = _before(name, noted, topic)
            raise ConfigError(
                f"{before}, and this one {run.partitions}; {stored}. {_advice(noted)}"
            )


def _patiently(ask: Callable[[], _T], patience_s: float) -> _T:
    """Return the result of `ask`; retry for `patience_s` while no nameserver answers."""
    deadline = time.monotonic() + patience_s
    while True:
        try:
            return ask()
        except NoRoute:
            if time.monotonic() + PAUSE_S > deadline:
                raise
        time.sleep(PAUSE_S)


def _before(name: str, run: JobRun, topic: str) -> str:
    return (
        f"deduplicateId {name!r}, batch {run.batch}: the run before had {_counted(run)} for topic "
        f"{topic!r}"
    )


def _advice(run: JobRun) -> str:
    return (
        f"Run the job so that it has {_counted(run)} as then (the same master, "
        "spark.default.parallelism and spark.sql.shuffle.partitions)."
    )


def _counted(run: JobRun) -> str:
    return f"{run.partitions} partition{'s' * (run.partitions != 1)}"

"""The sides of a measurement as the one who measures sees them: drivers to give jobs to."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from benches.sides import REPOSITORY_ROOT, BenchError

__all__ = ["SPARK_DIR", "Answer", "Rounds", "SparkSide", "in_turn", "spark_side"]

SPARK_DIR = REPOSITORY_ROOT / ".build" / "spark-4.2.0"
"""The newest Spark that has a Kafka connector."""

Answer = dict[str, Any]
Rounds = dict[str, list[Answer]]
"""What each side has answered, round by round."""

COMPILING = "compiling_s"
EARLY, WARM = ", early", ", warm"
"""How far JVMs are, as the names of figures end."""
MOST_WARM_UPS = 20
QUIET_RUNS = 2
QUIET_SHARE = 0.2
"""Of the time of a run that the JVM's compiler may be busy; what it does then is little."""


class SparkSide:
    """A driver process; see `driver`."""

    def __init__(self, process: subprocess.Popen[str], errors: Any) -> None:
        self._process = process
        self._errors = errors

    def run(self, job: Mapping[str, Any]) -> Answer:
        """Have a job done and return its figures."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(job) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # the answer, which will not come, says why
        return self.answer(job)

    def answer(self, job: object) -> Answer:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                figures: Answer = json.loads(line)
                return figures
        self._errors.seek(0)
        raise BenchError(f"{job} failed:\n{self._errors.read()[-4000:]}")


@contextmanager
def spark_side(*, cores: int = 2, jars: list[str] | None = None) -> Iterator[SparkSide]:
    """A driver on the Spark of all sides, until the block ends."""
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(SPARK_DIR), str(REPOSITORY_ROOT)])}
    settings = json.dumps({"cores": cores, "jars": jars or []})
    command = [sys.executable, "-m", "benches.spark.driver", settings]
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            command,
            env=env,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
        )
        try:
            side = SparkSide(process, errors)
            side.answer("starting Spark")
            yield side
        finally:
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def in_turn(rounds: int, sides: Mapping[str, Callable[[], Answer]]) -> dict[str, Rounds]:
    """Have each side do its work once a round, in turn, so that a slow minute hits all of them.

    Twice where there are JVMs: `EARLY`, when each side has done its work once, as in most batch
    jobs, and `WARM`, when none compiles any more. A JVM compiles what it runs on the cores that it
    is measured on: at first for half of the time, and for up to a dozen runs of some seconds each.
    That hides what the sides do themselves.
    """

    def measured() -> Rounds:
        turns = [{name: work() for name, work in sides.items()} for _ in range(rounds)]
        return {name: [turn[name] for turn in turns] for name in sides}

    first = [work() for work in sides.values()]
    early = measured()
    if not any(COMPILING in answer for answer in first):
        return {"": early}
    for work in sides.values():
        warm_up(work)
    return {EARLY: early, WARM: measured()}


def warm_up(work: Callable[[], Answer]) -> None:
    """Do the work until the JVM has hardly compiled anything twice in a row."""
    quiet = 0
    for _ in range(MOST_WARM_UPS):
        answer = work()
        is_quiet = answer.get(COMPILING, 0) <= QUIET_SHARE * answer["seconds"]
        quiet = quiet + 1 if is_quiet else 0
        if quiet == QUIET_RUNS:
            return

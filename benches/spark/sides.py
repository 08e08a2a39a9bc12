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

__all__ = ["SPARK_DIR", "SparkSide", "in_turn", "spark_side"]

SPARK_DIR = REPOSITORY_ROOT / ".build" / "spark-4.2.0"
"""The newest Spark that has a Kafka connector."""

Answer = dict[str, Any]


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


def in_turn(
    rounds: int, sides: Mapping[str, Callable[[], Answer]], warm_ups: int = 1
) -> dict[str, list[Answer]]:
    """Have each side do its work once a round, in turn, so that a slow minute hits all of them."""
    answers: dict[str, list[Answer]] = {name: [] for name in sides}
    for number in range(rounds + warm_ups):
        for name, work in sides.items():
            answer = work()
            if number >= warm_ups:
                answers[name].append(answer)
    return answers

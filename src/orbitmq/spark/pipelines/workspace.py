"""What a build function works with: the Spark session, the file's place, and the wish to stop."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

from orbitmq.errors import BadPipeline, OrbitError
from orbitmq.spark.pipelines.failures import one_line
from orbitmq.spark.pipelines.spec import Interval, local_path, resolve

if TYPE_CHECKING:
    from pyspark.sql import Observation, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

__all__ = ["Trigger", "Workspace"]


@dataclass(frozen=True)
class Trigger:
    """When a stream looks for more: ``5 seconds``, ``available-now`` or ``batch``.

    ``available-now`` takes what is there when it starts, in as many batches as the limits ask for,
    and ends; ``batch`` reads all of it at once and keeps no checkpoint.
    """

    mode: Literal["interval", "available-now", "batch"]
    interval: Interval = field(default=Interval(0))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the value of the key ``trigger``."""
        if text in ("available-now", "batch"):
            return cls(text)  # type: ignore[arg-type]
        try:
            return cls("interval", Interval.parse(text))
        except ValueError:
            raise ValueError(
                f"{text!r} is neither a length of time such as '5 seconds' "
                "nor 'available-now' nor 'batch'"
            ) from None


@dataclass
class Workspace:
    """One run of one pipeline."""

    spark: SparkSession
    directory: Path
    """Where the pipeline's file is; paths in it start there."""
    file: str = "pipeline"
    """The file's name, for messages."""
    once: bool = False
    """Whether to take what is there and end, whatever the file says."""
    stopping: threading.Event = field(default_factory=threading.Event)
    """Set when somebody wants an end; the runner then stops streams and cancels jobs."""
    sources: list[dict[str, str]] = field(default_factory=list)
    """The connector's options of every topic that is read as a stream."""
    undecoded: dict[str, Observation] = field(default_factory=dict)
    """The counts of bodies that could not be decoded, of every source that is read as a batch."""
    log: logging.Logger = field(default=logging.getLogger("orbitmq.pipeline"))

    def locate(self, path: str) -> str:
        """Return a path of the file as Spark takes it."""
        return resolve(path, self.directory)

    def locate_here(self, path: str) -> Path:
        """Return a path of the file as Python takes it."""
        return local_path(path, self.directory)

    def trigger(self, wished: Trigger) -> Trigger:
        """Return the trigger to use."""
        if self.once and wished.mode == "interval":
            return Trigger("available-now")
        return wished

    def with_trigger(self, writer: DataStreamWriter, wished: Trigger) -> DataStreamWriter:
        """Set a stream's trigger."""
        trigger = self.trigger(wished)
        if trigger.mode == "available-now":
            return writer.trigger(availableNow=True)
        return writer.trigger(processingTime=str(trigger.interval))

    @contextmanager
    def planning(self, key: str) -> Iterator[None]:
        """Turn what Spark finds wrong with a part of the file into a mistake of that key."""
        # Here, as the specs can be checked on a machine without Spark.
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        try:
            yield
        except BadPipeline:
            raise
        # What Spark does not know, such as a file system without its jar, is py4j's own error.
        except (PySparkException, Py4JError, OrbitError, ValueError) as error:
            where = f"{self.file}: {key}" if key else self.file
            raise BadPipeline([f"{where}: {one_line(error)}"]) from error

"""Which checkpoint a sink has, and whether it fits what is there already.

That of a sink without a name is ``parquet-0`` for the only such sink of a format, wherever it
stands in the file. Sinks were once called by their place there (``parquet-1`` was the second sink):
such a checkpoint goes on.

Spark's file sink notes the numbers of batches beside its files and leaves out those it has. With a
new checkpoint batches are counted from 0 again, and what they hold would be lost without a word.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["checkpoint_of_unnamed", "has_begun", "refuse_files_of_another"]


def checkpoint_of_unnamed(
    spark: SparkSession, base: str, format_name: str, names: Iterable[str]
) -> str:
    """Return the directory below `base`, among sinks of these `names`; ValueError if unclear."""
    own = f"{format_name}-0"
    by_place = re.compile(rf"{re.escape(format_name)}-\d+")
    others = set(names) - {own}
    found = [
        name for name in _names(spark, base) if by_place.fullmatch(name) and name not in others
    ]
    if len(found) > 1:
        raise ValueError(f"needs a name: its checkpoint may be any of {', '.join(found)}")
    return f"{base}/{found[0] if found else own}"


def has_begun(spark: SparkSession, base: str) -> bool:
    """Whether any of the checkpoints below `base` has a batch."""
    return any(not _is_new(spark, f"{base}/{name}") for name in _names(spark, base))


def _is_new(spark: SparkSession, checkpoint: str) -> bool:
    return not _names(spark, f"{checkpoint}/offsets")


def refuse_files_of_another(spark: SparkSession, checkpoint: str, path: str) -> None:
    """Raise when a stream would begin anew where the file sink has batches of another one."""
    if _is_new(spark, checkpoint) and _names(spark, f"{path.rstrip('/')}/_spark_metadata"):
        raise ValueError(
            f"{path} has files of a stream with another checkpoint than {checkpoint}, and Spark "
            "would leave out the batches that it seems to have: go on with that checkpoint, or "
            "write to another path"
        )


def _names(spark: SparkSession, base: str) -> list[str]:
    jvm: Any = spark._jvm
    path = jvm.org.apache.hadoop.fs.Path(base)
    files = path.getFileSystem(spark._jsc.hadoopConfiguration())
    if not files.exists(path):
        return []
    return sorted(status.getPath().getName() for status in files.listStatus(path))

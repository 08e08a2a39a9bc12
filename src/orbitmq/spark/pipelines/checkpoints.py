"""Which checkpoint is that of a sink without a name.

It is ``parquet-0`` for the only such sink of a format, wherever it stands in the file. Sinks were
once called by their place there (``parquet-1`` was the second sink): such a checkpoint goes on,
because with a new one Spark's file sink would leave out every batch that its files seem to have.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["checkpoint_of_unnamed"]


def checkpoint_of_unnamed(
    spark: SparkSession, base: str, format_name: str, names: Iterable[str]
) -> str:
    """Return the directory below `base`, among sinks of these `names`; ValueError if unclear."""
    own = f"{format_name}-0"
    by_place = re.compile(rf"{re.escape(format_name)}-\d+")
    others = set(names) - {own}
    found = [
        name
        for name in _directories(spark, base)
        if by_place.fullmatch(name) and name not in others
    ]
    if len(found) > 1:
        raise ValueError(f"needs a name: its checkpoint may be any of {', '.join(found)}")
    return f"{base}/{found[0] if found else own}"


def _directories(spark: SparkSession, base: str) -> list[str]:
    jvm: Any = spark._jvm
    path = jvm.org.apache.hadoop.fs.Path(base)
    files = path.getFileSystem(spark._jsc.hadoopConfiguration())
    if not files.exists(path):
        return []
    return sorted(status.getPath().getName() for status in files.listStatus(path))

"""An Avro schema for fastavro, whose values are what Spark's types of the same schema hold.

The two differ in places. Both ways of writing have the same bytes, so records can be read by the
second and mean the first:

===================================  ==========================================================
``uuid``, ``time-millis`` and such   without their logical type: Spark has a text or a number,
                                     but for the times of day that its version knows
``["null", "int", "string"]``        Spark has a struct of ``member0`` and ``member1``. A record
                                     of one field is written like the field alone, so each branch
                                     becomes a record whose field has the member's name
``["int", "long"]``                  without logical types: Spark has a number
===================================  ==========================================================
"""

from __future__ import annotations

import itertools
from collections.abc import Collection
from typing import Any, Final

__all__ = ["TIMES", "as_spark_reads"]

TIMES: Final = {"time-millis": "int", "time-micros": "long"}
"""Times of the day, and what they are written as."""

_SHARED: Final = frozenset(
    {
        *("date", "decimal", "timestamp-millis", "timestamp-micros"),
        *("local-timestamp-millis", "local-timestamp-micros"),
    }
)
"""Logical types that Spark and fastavro know as the same."""

_NUMBERS: Final = ({"int", "long"}, {"float", "double"})


def as_spark_reads(schema: Any, times: Collection[str] = ()) -> Any:
    """Return a schema, as JSON has it, for reading the same bytes.

    `times` are those of `TIMES` that are times in this Spark.

    >>> as_spark_reads({"type": "string", "logicalType": "uuid"})
    {'type': 'string'}
    """
    return _Rewriting(_SHARED.union(times)).of(schema)


class _Rewriting:
    def __init__(self, shared: frozenset[str]) -> None:
        self.shared = shared
        self.numbers = itertools.count()

    def of(self, schema: Any) -> Any:
        if isinstance(schema, list):
            return self.union(schema)
        if not isinstance(schema, dict):
            return schema
        # A default is of the first branch as it was; it is for readers of another schema anyway.
        made = {key: value for key, value in schema.items() if key != "default"}
        if made.get("logicalType") not in self.shared:
            made.pop("logicalType", None)
        for key in ("type", "items", "values"):
            if key in made:
                made[key] = self.of(made[key])
        if "fields" in made:
            made["fields"] = [self.of(field) for field in made["fields"]]
        return made

    def union(self, branches: list[Any]) -> list[Any]:
        kinds = [_kind(branch) for branch in branches]
        others = [kind for kind in kinds if kind != "null"]
        if len(others) == 2 and set(others) in _NUMBERS:
            return kinds
        if len(others) == 1:
            return [self.of(branch) for branch in branches]
        members = itertools.count()
        return [
            "null" if kind == "null" else self.branch(f"member{next(members)}", branch)
            for kind, branch in zip(kinds, branches, strict=True)
        ]

    def branch(self, name: str, schema: Any) -> dict[str, Any]:
        return {
            "type": "record",
            "name": f"orbitmq_branch_{next(self.numbers)}",
            "fields": [{"name": name, "type": self.of(schema)}],
        }


def _kind(schema: Any) -> Any:
    return _kind(schema["type"]) if isinstance(schema, dict) else schema

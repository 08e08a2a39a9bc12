"""Columns of rows to send, and their conversion to the types of the packer.

=============  ==========================================  =========================================
 column         types                                       meaning
=============  ==========================================  =========================================
 body           binary, string                              the message; the only required column
 topic          string                                      its topic, unless option topic is set
 tags           string                                      the tag
 keys           array<string>, string (spaces separate)     keys to find it by
 properties     map<string, string>                         user properties
 delayLevel     an integer                                  level of its delay, 1 to 18
 deliverAt      timestamp, or epoch milliseconds            time of its delivery
 shardingKey    string                                      rows with equal keys keep their order
 queueId        an integer                                  a fixed queue
 brokerName     string                                      a fixed broker
=============  ==========================================  =========================================

Columns that only the source has are ignored, so that rows can be written as they were read. Any
other name is rejected, because it is probably a misspelt column. Nulls and empty texts count as
missing values. RocketMQ's own properties are left out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyspark.sql import types as t

from orbitmq.errors import ConfigError
from orbitmq.message import RESERVED_PROPERTIES

__all__ = ["LEFT_OUT_PROPERTIES", "check_columns", "sendable"]

_TEXT = (t.StringType, t.CharType, t.VarcharType)
_INTEGER = (t.ByteType, t.ShortType, t.IntegerType, t.LongType)

_SOURCE_ONLY = frozenset(
    {
        *("queueOffset", "msgId", "offsetMsgId", "bornTimestamp", "storeTimestamp", "bornHost"),
        *("flag", "sysFlag", "reconsumeTimes", "physicalOffset"),
    }
)

LEFT_OUT_PROPERTIES = (RESERVED_PROPERTIES - {"TAGS", "KEYS"}) | {
    *("ORBIT_BATCH", "ORBIT_ACCOUNT"),
    *("TIMER_DELIVER_MS", "TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_OUT_MS"),
    *("TRANSACTION_CHECK_TIMES", "CHECK_IMMUNITY_TIME_IN_SECONDS", "DELAY_TIMESTAMP"),
    *("__STARTDELIVERTIME", "1ST_POP_TIME", "POP_CK", "DUP_INFO"),
}


def _is_text_array(kind: t.DataType) -> bool:
    return isinstance(kind, t.ArrayType) and isinstance(kind.elementType, _TEXT)


def _is_text_map(kind: t.DataType) -> bool:
    return (
        isinstance(kind, t.MapType)
        and isinstance(kind.keyType, _TEXT)
        and isinstance(kind.valueType, _TEXT)
    )


_Rule = tuple[str, Callable[[t.DataType], bool], pa.DataType]


def _rules() -> dict[str, _Rule]:
    def is_text(kind: t.DataType) -> bool:
        return isinstance(kind, _TEXT)

    def is_integer(kind: t.DataType) -> bool:
        return isinstance(kind, _INTEGER)

    text: _Rule = ("string", is_text, pa.string())
    integer: _Rule = ("an integer", is_integer, pa.int32())
    keys = pa.list_(pa.string())
    return {
        "body": ("binary or string", lambda k: isinstance(k, (t.BinaryType, *_TEXT)), pa.binary()),
        "topic": text,
        "tags": text,
        "keys": ("array<string> or string", lambda k: is_text(k) or _is_text_array(k), keys),
        "properties": ("map<string, string>", _is_text_map, pa.map_(pa.string(), pa.string())),
        "delayLevel": integer,
        "deliverAt": (
            "timestamp or bigint (epoch milliseconds)",
            lambda k: isinstance(k, (t.TimestampType, t.LongType)),
            pa.int64(),
        ),
        "shardingKey": text,
        "queueId": integer,
        "brokerName": text,
    }


_RULES = _rules()


def check_columns(schema: t.StructType, topic: str | None) -> frozenset[str]:
    """Return the sink's columns in a schema; raise `ConfigError` for columns it cannot send."""
    found = set()
    for field in schema.fields:
        rule = _RULES.get(field.name)
        if rule is None:
            if field.name in _SOURCE_ONLY:
                continue
            names = ", ".join(_RULES)
            raise ConfigError(
                f"column {field.name!r} is none that the rocketmq sink knows; rename or drop it "
                f"(the sink's columns, spelt so: {names})"
            )
        wanted, fits, _ = rule
        if not fits(field.dataType):
            raise ConfigError(
                f"column {field.name!r} must be {wanted}, not {field.dataType.simpleString()}"
            )
        found.add(field.name)
    if "body" not in found:
        raise ConfigError("the rocketmq sink needs a column 'body' (binary or string)")
    if topic is None and "topic" not in found:
        raise ConfigError("no topic to send to: set the option 'topic' or add a column 'topic'")
    return frozenset(found)


def sendable(batch: pa.RecordBatch, columns: frozenset[str]) -> pa.RecordBatch:
    """Return the sink's columns of a batch in the types of the packer.

    Nothing is copied, except to convert a column to another type.
    """
    fields, arrays = [], []
    for name in columns:
        array = batch.column(name)
        array = _converted(name, array, _RULES[name][2])
        fields.append(pa.field(name, array.type))
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _converted(name: str, array: Any, wanted: pa.DataType) -> Any:
    kind = array.type
    if name == "keys" and (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        return _lists_of_one(array.cast(pa.string()))
    if name == "deliverAt" and pa.types.is_timestamp(kind):
        return array.cast(pa.timestamp("ms", kind.tz), safe=False).cast(pa.int64())
    if name == "properties" and pa.types.is_map(kind):
        if kind.key_type == pa.string() and kind.item_type == pa.string():
            return array
    elif kind == wanted:
        return array
    return array.cast(wanted)


def _lists_of_one(texts: Any) -> Any:
    """Return each text as the list of its words between spaces."""
    import pyarrow.compute as pc

    return pc.split_pattern(pc.utf8_trim_whitespace(texts), " ")

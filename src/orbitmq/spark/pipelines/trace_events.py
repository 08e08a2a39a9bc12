"""Message trace as tables: records → events → deliveries.

A message of the trace topic holds many records, each ended by the character 2. The fields of a
record are separated by the character 1. The first field is the type of the record; the others are
identified by position::

    Pub             timestamp region group topic msgId tags keys storeHost bodyLength cost msgType
                    offsetMsgId success
    SubBefore       timestamp region group requestId msgId retryTimes keys
    SubAfter        requestId msgId cost success keys contextCode [timestamp group]
    EndTransaction  timestamp region group topic msgId tags keys storeHost msgType transactionId
                    state fromCheck

A batch is one ``Pub`` with all ids, separated by commas. The ``SubAfter`` of older clients lacks
its last fields, so the group comes from the ``SubBefore`` with the same request id. Only ``Pub``
has the topic.

Every client can write to the trace topic, so a malformed record must not prevent the report on all
others. An invalid number becomes null, and a record without a message id is left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["OUTCOMES", "consumptions", "events", "sends"]

OUTCOMES: Final = {0: "success", 1: "timeout", 2: "exception", 3: "no answer", 4: "asked for retry"}
"""Outcome of a consumption, by its context code."""

_OF_A_MESSAGE: Final = "msgId != ''"
_LAST_MS: Final = 253_402_300_799_999
"""End of the year 9999, the last year of Python's times."""


def events(messages: DataFrame) -> DataFrame:
    """Return one row per record of trace messages: its ``event`` and its ``fields`` in order."""
    text = F.col("body").cast("string")
    record = F.explode(F.split(text, "\x02")).alias("record")
    fields = F.split(F.col("record"), "\x01")
    rows = messages.select(record).where(F.col("record") != "")
    return rows.select(F.get(fields, F.lit(0)).alias("event"), fields.alias("fields"))


def sends(traced: DataFrame) -> DataFrame:
    """Return one row per sent message, from rows of `events`."""
    rows = traced.where("event = 'Pub'").select(
        _time(1).alias("sentAt"),
        _field(3).alias("producerGroup"),
        _field(4).alias("topic"),
        F.explode(F.split(_field(5), ",")).alias("msgId"),
        _field(6).alias("tags"),
        _field(7).alias("keys"),
        _field(8).alias("storeHost"),
        _number(9).alias("bodyLength"),
        _number(10).cast("long").alias("sendMs"),
        (_field(13) == "true").alias("sent"),
    )
    return rows.where(_OF_A_MESSAGE)


def consumptions(traced: DataFrame) -> DataFrame:
    """Return one row per message and try of a consumer, with columns of the message's send.

    `traced` are rows of `events`. ``deliveryMs`` is the time from the call of send to the call of
    the handler, ``handlingMs`` is the time in the handler. A try has no outcome if it has not ended
    or its end was not traced.
    """
    before = traced.where("event = 'SubBefore'").select(
        _time(1).alias("deliveredAt"),
        _field(3).alias("group"),
        _field(4).alias("requestId"),
        _field(5).alias("msgId"),
        _number(6).alias("retryTimes"),
    )
    codes = F.create_map(*(F.lit(part) for pair in OUTCOMES.items() for part in pair))
    after = traced.where("event = 'SubAfter'").select(
        _field(1).alias("requestId"),
        _field(2).alias("msgId"),
        _number(3).cast("long").alias("handlingMs"),
        (_field(4) == "true").alias("succeeded"),
        codes[_number(6)].alias("outcome"),
    )
    sent = sends(traced).select("msgId", "topic", "keys", "sentAt", "producerGroup")
    tries = before.where(_OF_A_MESSAGE).join(after, ["requestId", "msgId"], "left")
    tries = tries.join(sent.dropDuplicates(["msgId"]), "msgId", "left")
    delivery = F.unix_millis("deliveredAt") - F.unix_millis("sentAt")
    return tries.withColumn("deliveryMs", delivery)


def _field(position: int) -> Column:
    """Return a field, or null if the field is missing or is the text ``null``."""
    field = F.get(F.col("fields"), F.lit(position))
    return F.when(field != "null", field)


def _number(position: int) -> Column:
    """Return a field as an int, or null if the text is not a number that fits an int."""
    return _field(position).try_cast("int")


def _time(position: int) -> Column:
    ms = _field(position).try_cast("long")
    return F.timestamp_millis(F.when(ms.between(0, _LAST_MS), ms))

"""Topics in a pipeline's file, as sources and as sinks.

The few settings that almost every pipeline needs are keys of their own. All other settings of the
connector are in ``options``, by the connector's own names (docs/spark.md lists them)::

    [source.orders]
    topic = "orders"                          # or a list, or pattern = "orders-.*"
    options = { startingOffsets = "earliest", tags = "created || paid" }
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from orbitmq.errors import ConfigError
from orbitmq.spark.options import CONNECTION_OPTIONS
from orbitmq.spark.pipelines.tables import Mistakes
from orbitmq.spark.sink.options import SinkOptions
from orbitmq.spark.source.options import SourceOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = [
    "MESSAGE_COLUMNS",
    "TopicSpec",
    "as_messages",
    "check_reading",
    "check_writing",
    "names_server",
    "reconnected",
    "topic_options",
]

MESSAGE_COLUMNS: Final = (
    *("topic", "tags", "keys", "properties", "delayLevel", "deliverAt", "shardingKey"),
    *("queueId", "brokerName"),
)
"""Columns that the sink reads in addition to the body."""

_CONNECTION: Final = frozenset(map(str.lower, CONNECTION_OPTIONS))
_SERVER: Final = frozenset({"nameserver", "namesrvaddr"})


@dataclass(frozen=True, kw_only=True)
class TopicSpec:
    """Table of a topic source, also for other kinds than ``sql``: the messages to read."""

    topic: tuple[str, ...] = ()
    pattern: str | None = None
    name_server: str | None = None
    options: dict[str, str] = field(default_factory=dict)

    def check(self, mistakes: Mistakes, key: str) -> None:
        """Check that exactly one key names the topics."""
        given = set(map(str.lower, self.options))
        ways = [bool(self.topic), self.pattern is not None, "assign" in given]
        if sum(ways) != 1:
            mistakes.add(key, "needs exactly one of topic, pattern and options.assign")
        if given & {"subscribe", "subscribepattern", "topic"}:
            mistakes.add(f"{key}.options", "say topic or pattern in place of subscribe")

    def check_options(
        self, mistakes: Mistakes, key: str, default_name_server: str | None, *, streaming: bool
    ) -> None:
        """Check that a nameserver is named and that the connector accepts the options."""
        if not (default_name_server or self.name_server or names_server(self.options)):
            mistakes.add("name_server", "is needed, but not there, nor NAMESRV_ADDR")
            return
        options = self.connector_options(default_name_server)
        check_reading(mistakes, f"{key}.options", options, streaming=streaming)

    def connector_options(self, default_name_server: str | None) -> dict[str, str]:
        """Return the options for the format ``rocketmq``."""
        return topic_options(
            topic=self.topic,
            pattern=self.pattern,
            name_server=self.name_server or default_name_server,
            options=self.options,
        )


def topic_options(
    *,
    topic: tuple[str, ...] = (),
    pattern: str | None = None,
    name_server: str | None = None,
    options: dict[str, str],
) -> dict[str, str]:
    """Return connector options for the keys of a file; `options` take precedence."""
    made = {}
    if name_server is not None and not names_server(options):
        made["nameServer"] = name_server
    if topic:
        made["subscribe"] = ",".join(topic)
    if pattern is not None:
        made["subscribePattern"] = pattern
    return made | options


def names_server(options: Mapping[str, str]) -> bool:
    """Return True if options contain the address of a nameserver."""
    return not _SERVER.isdisjoint(map(str.lower, options))


def reconnected(options: Mapping[str, str], others: Mapping[str, str]) -> dict[str, str]:
    """Return `others` with the connection options of `options`; `others` take precedence.

    Messages from a cluster are therefore looked up in that cluster and sent back to it, for any
    value of NAMESRV_ADDR.
    """
    given = set(map(str.lower, others))
    left_out = given | _SERVER if names_server(others) else given
    kept = _CONNECTION - left_out
    return {name: text for name, text in options.items() if name.lower() in kept} | dict(others)


def check_reading(
    mistakes: Mistakes, key: str, options: dict[str, str], *, streaming: bool
) -> None:
    """Note options that the connector's source rejects, without a request to the cluster."""
    try:
        SourceOptions.of(options, streaming=streaming)
    except ConfigError as error:
        mistakes.add(key, str(error))


def check_writing(mistakes: Mistakes, key: str, options: dict[str, str]) -> None:
    """Note options that the connector's sink rejects, without a request to the cluster."""
    try:
        SinkOptions.of(options)
    except ConfigError as error:
        mistakes.add(key, str(error))


def as_messages(rows: DataFrame) -> DataFrame:
    """Return rows as messages for the sink.

    Rows that have a ``body`` are messages already. In other rows, the columns of the sink
    (``tags``, ``keys`` and so on) stay. The remaining columns become the body, as one JSON object.
    """
    from pyspark.sql import functions as F

    if "body" in rows.columns:
        return rows
    kept = [name for name in rows.columns if name in MESSAGE_COLUMNS]
    packed = [F.col(_quoted(name)) for name in rows.columns if name not in MESSAGE_COLUMNS]
    return rows.select(*map(_quoted, kept), F.to_json(F.struct(*packed)).alias("body"))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"

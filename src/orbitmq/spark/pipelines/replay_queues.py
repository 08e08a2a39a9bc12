"""Which columns keep messages of a replay in the queues they were in.

The number of a queue is enough where one broker has the target topic. With several, the broker is
needed as well, and one of that name must be there: that is found out before anything is sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from orbitmq.errors import ConfigError, NoRoute
from orbitmq.spark.pipelines.archive import archived_brokers
from orbitmq.spark.pipelines.topics import topic_options
from orbitmq.spark.sink_options import SinkOptions
from orbitmq.spark.source_options import SourceOptions

if TYPE_CHECKING:
    from orbitmq.spark.options import Connection
    from orbitmq.spark.pipelines.replay import ReplaySpec
    from orbitmq.spark.pipelines.workspace import Workspace

__all__ = ["queue_columns"]


def queue_columns(
    spec: ReplaySpec, sink_options: Mapping[str, str], workspace: Workspace
) -> tuple[str, ...]:
    """Return the columns to keep; `ConfigError` says why queues cannot be kept."""
    if spec.dry_run or not spec.sink.keep_queues:
        return ()
    sink = SinkOptions.of(sink_options)
    # Topics that the source alone knows are looked for on every broker.
    named = (spec.source.topic,) if spec.source.topic is not None else spec.topics
    topics = named if sink.topic is None else (sink.topic,)
    targets = _brokers(sink.connection, topics, writing=True)
    if all(len(brokers) == 1 for brokers in targets):
        return ("queueId",)
    for brokers in targets:
        if missing := _source_brokers(spec, workspace) - brokers:
            if missing == {""}:
                raise ConfigError(
                    f"the target has brokers {', '.join(sorted(brokers))}, and no file of a store "
                    "says whose it was: add brokerName to source.options"
                )
            raise ConfigError(
                f"messages of {', '.join(sorted(missing))} cannot keep their queues, the target "
                f"has them on {', '.join(sorted(brokers))}: leave keep_queues out, or send to a "
                "topic that is on one broker"
            )
    return ("queueId", "brokerName")


def _source_brokers(spec: ReplaySpec, workspace: Workspace) -> set[str]:
    source = spec.source
    if source.archive is not None:
        return archived_brokers(
            workspace.spark,
            workspace.locate(source.archive),
            topics=spec.topics or None,
            start_ms=spec.start_ms,
            end_ms=spec.end_ms,
        )
    if source.store is not None:
        given = {name.lower(): value for name, value in source.options.items()}
        return {given.get("brokername", "")}
    assert source.topic is not None
    name_server = source.name_server or spec.name_server
    options = topic_options(topic=(source.topic,), name_server=name_server, options=source.options)
    connection = SourceOptions.of(options, streaming=False).connection
    (brokers,) = _brokers(connection, [source.topic], writing=False)
    return brokers


def _brokers(connection: Connection, topics: Iterable[str], *, writing: bool) -> list[set[str]]:
    """Return the brokers that have each topic; without topics, or for one to be made, all."""
    # Loaded late, as in `sink_brokers`.
    from orbitmq.admin.admin import Admin

    found = []
    with connection.hiding_secrets(), Admin(connection.client_settings()) as admin:
        everywhere = set(admin.cluster_info().brokers)
        for topic in topics:
            try:
                route = admin.topic_route(topic)
            except NoRoute:
                found.append(everywhere)
                continue
            queues = route.publish_queues if writing else route.subscribe_queues
            found.append({queue.broker_name for queue in queues} or everywhere)
    return found or [everywhere]

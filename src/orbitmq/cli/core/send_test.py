"""Test messages whose sends are timed one by one."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from orbitmq.cli.core.printing import Column
from orbitmq.cli.core.progress import progress

if TYPE_CHECKING:
    from orbitmq.cli.core.options import ClusterOptions

__all__ = ["CHECK_COLUMNS", "TOOLS_GROUP", "timed_sends"]

TOOLS_GROUP: Final = "orbitmq-tools"
"""Producer group of all commands that send."""

CHECK_COLUMNS: Final = [
    Column("broker", "Broker"),
    Column("queue", "Queue", "number"),
    Column("ok", "OK"),
    Column("status", "Status"),
    Column("tookMs", "ms", "rate"),
]


def timed_sends(
    place: ClusterOptions, topic: str, amount: int, size: int, *, broker: str | None = None
) -> list[dict[str, Any]]:
    """Send messages to the queues of a topic in turn; return status and duration of each."""
    from orbitmq.admin.admin import Admin
    from orbitmq.client.producer.producer import Producer
    from orbitmq.errors import NoRoute, OrbitError
    from orbitmq.message import Message

    settings = place.settings()
    with Admin(settings) as admin:
        queues = [
            queue
            for queue in admin.topic_route(topic).publish_queues
            if broker is None or queue.broker_name == broker
        ]
    if not queues:
        raise NoRoute(f"no queue of {topic} may be written", topic=topic, cause="no_permission")
    body = (b"0123456789" * (size // 10 + 1))[:size]
    rows = []
    with Producer(settings, group=TOOLS_GROUP, retry_times=0) as producer:
        for number in progress(range(amount), amount, "Sending"):
            queue = queues[number % len(queues)]
            row: dict[str, Any] = {"broker": queue.broker_name, "queue": queue.queue_id}
            began = time.perf_counter()
            try:
                status, ok = producer.send(Message(topic, body), queue=queue).status.name, True
            except OrbitError as error:
                status, ok = str(error), False
            took_ms = (time.perf_counter() - began) * 1000
            rows.append({**row, "ok": ok, "status": status, "tookMs": round(took_ms, 3)})
    return rows

"""Hooks: a tiny tracer that follows messages from their sender through their handler.

OpenTelemetry fits in the same two places: start a span and inject its context in `before_send` and
`before_consume`, end the span in `after_send` and `after_consume` (see docs/hooks.md).
"""

import secrets
import sys
import threading
from collections import Counter

from orbitmq import (
    ConsumeContext,
    ConsumeHook,
    Message,
    Producer,
    PushConsumer,
    ReceivedMessage,
    SendContext,
    SendHook,
)

ADDRESS = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"
TOPIC = f"traced-{secrets.token_hex(4)}"


class Tracer(SendHook, ConsumeHook):
    """Counts spans by name and outcome, and joins those of one message by a trace id."""

    def __init__(self) -> None:
        self.spans: Counter[str] = Counter()
        self.traces: dict[str, list[str]] = {}
        self._lock = threading.Lock()  # handlers run on many threads

    def _end(self, trace_id: str, name: str, error: BaseException | None) -> None:
        with self._lock:
            self.spans[f"{name} {'failed' if error else 'ok'}"] += 1
            self.traces.setdefault(trace_id, []).append(name)

    def before_send(self, context: SendContext) -> None:
        context.state[self] = context.properties["traceparent"] = secrets.token_hex(16)

    def after_send(self, context: SendContext) -> None:
        self._end(context.state[self], "send", context.error)

    def after_consume(self, context: ConsumeContext) -> None:
        for message in context.messages:
            self._end(message.get_property("traceparent") or "", "handle", context.error)


tracer = Tracer()
done = threading.Semaphore(0)
consumer = PushConsumer(ADDRESS, group=TOPIC, consume_from="earliest", hooks=[tracer])


@consumer.on(TOPIC)
def handle(message: ReceivedMessage) -> None:
    done.release()


with Producer(ADDRESS, group="shop", hooks=[tracer]) as producer:
    for number in range(3):
        producer.send(Message(TOPIC, b"order %d" % number))
    producer.send_many([Message(TOPIC, b"order 3"), Message(TOPIC, b"order 4")])

with consumer:
    for _ in range(5):
        done.acquire(timeout=60)

print(dict(tracer.spans))
whole = [names for names in tracer.traces.values() if names == ["send", "handle"]]
print(f"{len(whole)} messages can be followed from their sender through their handler")

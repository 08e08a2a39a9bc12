"""Messages with a delivery time: the properties that request it, and those of waiting messages.

The names are those of RocketMQ 5. TIMER_DELAY_SEC and TIMER_DELAY_MS count from the arrival at the
broker, TIMER_DELIVER_MS is a point in time. While a message waits, TIMER_OUT_MS is its due time.
The delivered message keeps its sender's properties, and those with its own topic and queue.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from orbitmq._native import NewMessage, Record
from orbitmq.broker.write.writer import copy_of, real_queue_id
from orbitmq.config import BrokerConfig
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.names import Property
from orbitmq.remoting.router import Refused

__all__ = ["DeliveryTimePolicy", "due_of", "held_until", "released"]

_FACTORS = {Property.TIMER_DELAY_SECONDS: 1000, Property.TIMER_DELAY_MS: 1}


@dataclass(slots=True)
class DeliveryTimePolicy:
    """Reads and checks the delivery time that a message requests."""

    config: BrokerConfig
    clock: Callable[[], int]

    def due_ms(self, message: NewMessage) -> int | None:
        """Return the due time, None for immediate delivery; reject a time beyond the horizon.

        A delay level takes precedence over a time: retries have both, and their time has passed.
        """
        if message.get_property(Property.DELAY) not in (None, "0"):
            return None
        now_ms = self.clock()
        due_ms = self._wished(message, now_ms)
        if due_ms is None or due_ms <= now_ms:
            return None
        horizon_ms = self.config.timer_max_delay_sec * 1000
        if due_ms - now_ms > horizon_ms:
            raise Refused(
                ResponseCode.MESSAGE_ILLEGAL,
                "timer message illegal, the delay time should not be bigger than the max delay "
                f"{horizon_ms}ms (timerMaxDelaySec of the broker)",
            )
        return due_ms

    @staticmethod
    def _wished(message: NewMessage, now_ms: int) -> int | None:
        for name in (*_FACTORS, Property.TIMER_DELIVER_MS):
            text = message.get_property(name)
            if text is None:
                continue
            try:
                number = int(text)
            except ValueError:
                remark = f"timer message illegal, property {name} is not a number: {text!r}"
                raise Refused(ResponseCode.MESSAGE_ILLEGAL, remark) from None
            return now_ms + number * _FACTORS[name] if name in _FACTORS else number
        return None


def held_until(message: NewMessage, due_ms: int) -> None:
    """Store topic, queue and due time of a message in its properties."""
    message.set_property(Property.REAL_TOPIC, message.topic)
    message.set_property(Property.REAL_QUEUE_ID, str(message.queue_id))
    message.set_property(Property.TIMER_OUT_MS, str(due_ms))
    message.set_property(Property.WAIT, None)


def due_of(record: Record) -> int:
    """Return the due time of a held message; raise `ValueError` if the property is no time."""
    text = record.get_property(Property.TIMER_OUT_MS) or "0"
    due_ms = int(text)
    if not 0 <= due_ms < 1 << 63:
        raise ValueError(f"property {Property.TIMER_OUT_MS} is {text[:50]!r}, which is no time")
    return due_ms


def released(record: Record) -> NewMessage:
    """Return the message to deliver once a held message is due."""
    message = copy_of(
        record,
        record.get_property(Property.REAL_TOPIC) or "",
        real_queue_id(record),
        prepared_transaction_offset=record.prepared_transaction_offset,
    )
    message.set_property(Property.TIMER_OUT_MS, None)
    return message

"""Where a producer's message goes first: to its queue, or among those that wait for their time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from orbitmq._native import Appended, NewMessage
from orbitmq.broker.putting import Putting
from orbitmq.broker.timer_messages import TimerWishes
from orbitmq.broker.timers import TimerService

__all__ = ["Placing"]


@dataclass(slots=True)
class Placing:
    """Puts messages that may name a time of delivery."""

    putting: Putting
    timers: TimerService
    wishes: TimerWishes

    def put(self, message: NewMessage, *, from_producer: bool = True) -> Appended:
        """Append a message, or keep it until it is due."""
        due_ms = self.wishes.due_ms(message)
        if due_ms is None:
            return self.putting.put(message, from_producer=from_producer)
        self.putting.check_topic(message)
        return self.timers.hold(message, due_ms)

    def wait_for_a_time(self, messages: Sequence[NewMessage]) -> bool:
        """Whether one of these is to be kept; refuses if one cannot be."""
        due_ms = [self.wishes.due_ms(message) for message in messages]
        return any(due is not None for due in due_ms)

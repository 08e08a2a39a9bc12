"""The differences between the answers of a real 4.9.7 broker and ours."""

from __future__ import annotations

import time
from collections import Counter

from compat.twin import normalise
from compat.twin.sides import Request, Side
from compat.twin.world import World
from orbitmq._native import Command, decode_records, loads_lenient
from orbitmq.protocol.codes import RequestCode, ResponseCode

PUSH_TIMEOUT_S = 5.0
SHOWN = 1500


class Twins:
    """Both sides, and the comparison of their answers."""

    def __init__(self, java: Side, ours: Side) -> None:
        self.java, self.ours = java, ours
        self._opaque = 0
        self.asked: Counter[int] = Counter()
        self._views = {
            side: normalise.Side(side.port, [c.port for c in side.channels], side is java)
            for side in (java, ours)
        }

    def ask(self, world: World, request: Request) -> str | None:
        """Send a request to both; return the differences of the answers."""
        self._opaque += 1
        self.asked[int(request.code)] += 1
        for side in (self.java, self.ours):
            side.post(request, self._opaque)
        if not request.wants_answer:
            return None
        theirs, own = self.java.answer(self._opaque), self.ours.answer(self._opaque)
        world.learn(request, theirs)
        if theirs.code == ResponseCode.PULL_OFFSET_MOVED:
            self.java.is_behind = True  # It has stored an event.
        java, ours = (
            self._seen(request.code, theirs, self.java),
            self._seen(request.code, own, self.ours),
        )
        difference = normalise.compare(java, ours)
        is_search = request.code == RequestCode.SEARCH_OFFSET_BY_TIMESTAMP
        if difference is not None and is_search and self._both_nearest(request, theirs, own):
            return None
        if difference is not None:
            difference += f"\n    java answers {shown(java)}\n    ours answers {shown(ours)}"
        return difference

    def ask_one(self, side: Side, request: Request) -> Command:
        """Send a request to one side only; return its answer unchanged."""
        self._opaque += 1
        side.post(request, self._opaque)
        return side.answer(self._opaque)

    def _seen(self, code: int, command: Command, side: Side) -> normalise.Seen:
        answer = normalise.seen(code, command)
        for change in normalise.NORMALISATIONS:
            change(answer, self._views[side])
        return answer

    def _both_nearest(self, request: Request, theirs: Command, own: Command) -> bool:
        """Whether each side names the message stored nearest to a time between two of them.

        They may differ: which of two is nearer can be a matter of a millisecond.
        """
        ext = request.ext or {}
        for side, answer in ((self.java, theirs), (self.ours, own)):
            offset, time_ms = int(answer.get_ext("offset") or -1), int(ext["timestamp"])
            distance = {
                near: abs(stored - time_ms)
                for near in (offset - 1, offset, offset + 1)
                if (stored := self._stored_at(side, ext, near)) is not None
            }
            if offset not in distance or distance[offset] > min(distance.values()):
                return False
        return True

    def _stored_at(self, side: Side, ext: dict[str, str], offset: int) -> int | None:
        """Return the store time of the message at a queue offset on one side."""
        entry = {"index": str(offset), "count": "1"}
        answer = self.ask_one(side, Request(RequestCode.QUERY_CONSUME_QUEUE, ext | entry))
        if offset < 0 or not answer.body:
            return None
        (unit,) = loads_lenient(answer.body)["queueData"]
        place = {"offset": str(unit["physicOffset"])}
        answer = self.ask_one(side, Request(RequestCode.VIEW_MESSAGE_BY_ID, place))
        return decode_records(answer.body)[0].store_timestamp

    def pushes_differ(self) -> str | None:
        """Compare what the brokers pushed since the last call, connection by connection."""
        for number, (theirs, own) in enumerate(
            zip(self.java.channels, self.ours.channels, strict=True)
        ):
            deadline = time.monotonic() + PUSH_TIMEOUT_S
            while len(theirs.pushes) != len(own.pushes) and time.monotonic() < deadline:
                for side in (self.java, self.ours):
                    side.receive_for(0.01)
            views = []
            for channel, side in ((theirs, self.java), (own, self.ours)):
                seen = [self._seen(push.code, push, side) for push in channel.pushes]
                channel.pushes.clear()
                views.append(sorted(seen, key=normalise.canonical))
            java, ours = views
            if java != ours:
                counts = [Counter(push.code for push in view) for view in views]
                first = next((p for p in zip(java, ours, strict=False) if p[0] != p[1]), None)
                return f"pushes to {number}: java={counts[0]} ours={counts[1]}, first {first}"
        return None


def shown(value: object) -> str:
    text = repr(value)
    return text if len(text) < SHOWN else f"{text[:SHOWN]}... ({len(text)} characters)"

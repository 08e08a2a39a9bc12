"""Plays the network for flows: the answer to each request is prepared before."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from orbitmq._native import Command
from orbitmq.rpc.flow import Call, Flow, Notify, Pause, Wish

T = TypeVar("T")

MOST_WISHES = 10_000

Reaction = Command | Exception | Callable[[Any], Command | Exception]


def answer(
    code: int = 0,
    *,
    ext: dict[str, str] | None = None,
    body: bytes | None = None,
    remark: str | None = None,
) -> Command:
    return Command(code, flag=1, ext=ext, body=body, remark=remark)


def stored(queue_id: int = 0, offset: int = 0, code: int = 0) -> Command:
    """Return a broker's answer to a send."""
    ext = {"msgId": "7F0000010000" + "0" * 20, "queueId": str(queue_id), "queueOffset": str(offset)}
    return answer(code, ext=ext)


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Play:
    """Runs a flow; `wishes` are its requests. A pause moves the clock."""

    def __init__(self, reactions: Iterable[Reaction] = (), clock: Clock | None = None) -> None:
        self._reactions = iter(reactions)
        self._clock = clock
        self.wishes: list[Wish] = []

    @property
    def calls(self) -> list[Call]:
        return [wish for wish in self.wishes if isinstance(wish, Call)]

    @property
    def pauses(self) -> list[float]:
        """The milliseconds of each pause."""
        return [wish.ms for wish in self.wishes if isinstance(wish, Pause)]

    @property
    def notices(self) -> list[Notify]:
        return [wish for wish in self.wishes if isinstance(wish, Notify)]

    def run(self, flow: Flow[T]) -> T:
        try:
            wish = next(flow)
            while True:
                self.wishes.append(wish)
                assert len(self.wishes) < MOST_WISHES, "the flow does not end"
                if isinstance(wish, Pause) and self._clock is not None:
                    self._clock.now += wish.ms / 1000
                if isinstance(wish, Notify | Pause):
                    wish = flow.send(None)
                    continue
                reaction = next(self._reactions, None)
                assert reaction is not None, f"nothing was foreseen for {wish}"
                if callable(reaction):
                    reaction = reaction(wish)
                wish = (
                    flow.throw(reaction) if isinstance(reaction, Exception) else flow.send(reaction)
                )
        except StopIteration as end:
            value: T = end.value
            return value

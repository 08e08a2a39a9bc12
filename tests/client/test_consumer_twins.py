"""Every consumer has the same interface as its asyncio twin."""

from __future__ import annotations

import inspect

import pytest

from orbitmq import (
    AsyncConsumer,
    AsyncPullConsumer,
    AsyncPushConsumer,
    Consumer,
    PullConsumer,
    PushConsumer,
)

TWINS = [
    (PushConsumer, AsyncPushConsumer),
    (Consumer, AsyncConsumer),
    (PullConsumer, AsyncPullConsumer),
]
NEVER_WAIT = {"on", "suspend", "resume", "position", "batches"}
"""Methods that need no await, or are asynchronous generators."""
SAY_WHERE = {"on", "start", "run"}
"""Methods whose first sentence names the thread or loop they use."""
ONLY_THERE = {(AsyncPushConsumer, "subscribe")}
"""A decorator cannot await: handlers are added with `await` while the consumer runs."""


def _public(kind: type) -> dict[str, object]:
    return {
        name: getattr(kind, name)
        for name in dir(kind)
        if not name.startswith("_") and callable(getattr(kind, name))
    }


@pytest.mark.parametrize(("blocking", "twin"), TWINS)
def test_blocking_and_asyncio_consumers_have_the_same_members(blocking: type, twin: type) -> None:
    assert inspect.signature(blocking) == inspect.signature(twin)
    theirs = {name for name in _public(twin) if (twin, name) not in ONLY_THERE}
    assert set(_public(blocking)) == theirs


@pytest.mark.parametrize(
    ("blocking", "twin", "name"),
    [(one, two, name) for one, two in TWINS for name in _public(one)],
)
def test_twin_methods_have_the_same_signature_and_summary(
    blocking: type, twin: type, name: str
) -> None:
    method, other = getattr(blocking, name), getattr(twin, name)
    own = list(inspect.signature(method).parameters.values())
    assert own == list(inspect.signature(other).parameters.values())
    waits = inspect.iscoroutinefunction(other)
    assert waits or name in NEVER_WAIT
    if name not in SAY_WHERE:
        first, second = (
            (each.__doc__ or "").strip().splitlines()[0].split(",")[0].rstrip(" .:")
            for each in (method, other)
        )
        assert first == second

"""Trace records that arrive faster than they can be sent."""

from __future__ import annotations

import logging
from typing import cast

import pytest

from orbitmq.client import trace
from orbitmq.client.instance import ClientInstance
from orbitmq.client.trace import Tracer
from orbitmq.rpc.route_table import RouteTable


class Idle:
    """An instance whose timers never run."""

    routes = RouteTable()

    def every(self, _seconds: float, _work: object) -> None: ...


def test_dropped_trace_records_are_logged_when_too_many_wait(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(trace, "MAX_WAITING", 3)
    tracer = Tracer(cast("ClientInstance", Idle()), "shop", "PRODUCE", "traces")
    with caplog.at_level(logging.WARNING):
        for number in range(3):
            tracer.add(f"record {number}", ())
        assert caplog.messages == []
        for number in range(1000):
            tracer.add(f"record {number}", ())
    (logged,) = caplog.messages
    assert "group shop" in logged
    assert "topic traces" in logged

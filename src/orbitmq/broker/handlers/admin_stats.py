"""Counters, by name and key."""

from __future__ import annotations

from dataclasses import dataclass

from orbitmq._native import Command, dumps_lenient
from orbitmq.broker.stats import WINDOWS, BrokerStats
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.protocol.headers import Header
from orbitmq.remoting.connection import Connection
from orbitmq.remoting.handling import Refused, Router, respond

__all__ = ["StatsAdminHandlers"]


class StatsHeader(Header):
    """Which counter."""

    stats_name: str
    stats_key: str


@dataclass(slots=True)
class StatsAdminHandlers:
    """Answers those who watch rates."""

    stats: BrokerStats

    def register(self, router: Router) -> None:
        """Take over the codes of this family."""
        router.add(self.view, [RequestCode.VIEW_BROKER_STATS_DATA])

    def view(self, request: Command, _connection: Connection) -> Command:
        """Return what a counter did in the last minute, hour and day."""
        header = StatsHeader.decode(request)
        body = {}
        lag = self.stats.lags.value(header.stats_name, header.stats_key)
        if lag is not None:
            # RocketMQ writes these values to its log only, and answers that they do not exist.
            value = {"avgpt": 0.0, "sum": lag, "tps": 0.0}
            body = {f"stats{window.capitalize()}": value for window, _, _ in WINDOWS}
            return respond(request, body=dumps_lenient(dict(sorted(body.items()))))
        for window, _, _ in WINDOWS:
            rate = self.stats.rate(header.stats_name, header.stats_key, window)
            if rate is None:
                remark = f"The stats <{header.stats_name}> <{header.stats_key}> not exist"
                raise Refused(ResponseCode.SYSTEM_ERROR, remark)
            body[f"stats{window.capitalize()}"] = {
                "avgpt": rate.average_per_time,
                "sum": rate.sum,
                "tps": rate.tps,
            }
        return respond(request, body=dumps_lenient(dict(sorted(body.items()))))

"""Administration of the broker's settings, state and counters."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from orbitmq._native import Command, dumps_lenient
from orbitmq.broker.runtime_info import RuntimeInfo
from orbitmq.broker.state.stats import WINDOWS, BrokerStats
from orbitmq.config import BrokerConfig
from orbitmq.config.properties import decode, parse_properties
from orbitmq.errors import MalformedProperties
from orbitmq.protocol.bodies import DataVersion
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.protocol.headers import Header
from orbitmq.remoting.connection import Connection
from orbitmq.remoting.router import Refused, Router, respond

__all__ = ["ConfigAdminHandlers", "StatsAdminHandlers"]

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class ConfigAdminHandlers:
    """Handles requests that read or change settings.

    In Java a request can change any setting, paths and commands included, and Java overwrites the
    operator's file with the whole configuration. In OrbitMQ a request can change only settings
    declared `live`. The change lasts as long as the process; the operator's file is not changed.
    """

    config: BrokerConfig
    runtime_info: RuntimeInfo
    clock: Callable[[], int]
    on_change: Callable[[list[str]], None]
    """Function that is called with the keys that were changed."""
    version: DataVersion = field(init=False)

    def __post_init__(self) -> None:
        self.version = DataVersion(self.clock(), 0)

    def register(self, router: Router) -> None:
        """Register the handlers of this family with `router`."""
        router.add(self.update, [RequestCode.UPDATE_BROKER_CONFIG])
        router.add(self.get, [RequestCode.GET_BROKER_CONFIG])
        router.add(self.runtime, [RequestCode.GET_BROKER_RUNTIME_INFO])

    def update(self, request: Command, connection: Connection) -> Command:
        """Change all settings in the request, or none; unknown keys are ignored."""
        if not request.body:
            return respond(request)
        try:
            properties = parse_properties(decode(request.body))
        except MalformedProperties:
            raise Refused(ResponseCode.SYSTEM_ERROR, "string2Properties error") from None
        if refused := self.config.refused(properties):
            remark = f"Can not update config {', '.join(refused)} by a request"
            _log.warning("refused a request of %s: %s", connection.remote_text, remark)
            raise Refused(ResponseCode.NO_PERMISSION, remark)
        changed = self.config.update(properties)
        _log.info(
            "settings changed by %s: %s", connection.remote_text, ", ".join(changed) or "nothing"
        )
        self.version = self.version.next(self.clock())
        self.on_change(changed)
        return respond(request)

    def get(self, request: Command, _connection: Connection) -> Command:
        """Return all settings; values are not escaped, as no reader of this answer unescapes."""
        settings = self.config.as_properties()
        body = "".join(f"{key}={value}\n" for key, value in settings.items())
        version = dumps_lenient(self.version.as_json()).decode()
        return respond(request, ext={"version": version}, body=body.encode())

    def runtime(self, request: Command, _connection: Connection) -> Command:
        """Return the runtime info of the broker."""
        return respond(request, body=dumps_lenient({"table": self.runtime_info.table()}))


# ---- Counters


class StatsHeader(Header):
    """Name and key of a counter."""

    stats_name: str
    stats_key: str


@dataclass(slots=True)
class StatsAdminHandlers:
    """Handles requests for the values of counters."""

    stats: BrokerStats

    def register(self, router: Router) -> None:
        """Register the handlers of this family with `router`."""
        router.add(self.view, [RequestCode.VIEW_BROKER_STATS_DATA])

    def view(self, request: Command, _connection: Connection) -> Command:
        """Return sum and rates of a counter in the last minute, hour and day."""
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

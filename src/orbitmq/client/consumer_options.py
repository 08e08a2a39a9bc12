"""Keyword arguments of consumers, sorted: what is the consumer's own, what every client has.

`ConsumerOptions` gives type checkers and editors the list of them.
"""

from __future__ import annotations

import dataclasses
import ssl
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypedDict

from orbitmq.client.settings import ClientSettings
from orbitmq.client.state.allocate import AllocateStrategy
from orbitmq.client.state.consumer_settings import ConsumeFrom, ConsumerSettings
from orbitmq.errors import ConfigError
from orbitmq.remoting.tls import Tls

__all__ = ["ConsumerOptions", "Nameservers", "sort_options"]

Nameservers = str | Iterable[str] | ClientSettings | None

_OWN = {field.name for field in dataclasses.fields(ConsumerSettings)}


class ConsumerOptions(TypedDict, total=False):
    """What can be set of a consumer; see `ConsumerSettings` and `ClientSettings`."""

    broadcast: bool
    consume_from: ConsumeFrom
    strategy: AllocateStrategy | str
    concurrency: int
    pull_batch_size: int
    pull_interval_ms: float
    max_cached_messages: int
    max_cached_bytes: int
    max_cached_messages_of_topic: int
    max_cached_bytes_of_topic: int
    max_cached_messages_of_all: int
    max_cached_bytes_of_all: int
    max_span: int
    max_reconsume_times: int
    suspend_ms: int
    consume_timeout_s: float
    trace: bool | str
    stop_timeout_s: float
    suspend_pull_ms: int
    pull_timeout_ms: int
    error_delay_ms: float
    rebalance_s: float
    lock_s: float
    offset_directory: Path | str
    nameserver_domain: str
    nameserver_subgroup: str
    namespace: str
    access_key: str
    secret_key: str
    security_token: str
    tls: Tls | ssl.SSLContext | bool
    instance_name: str
    unit_name: str
    unit_mode: bool
    client_ip: str
    timeout_ms: float
    route_refresh_s: float
    heartbeat_s: float
    offset_persist_s: float


def sort_options(
    nameservers: Nameservers, group: str, options: Any, *, calls_handlers: bool = False
) -> tuple[ClientSettings, ConsumerSettings]:
    """Return both kinds of settings; `ConfigError` for those that nothing can be started with.

    What is meant for calls of functions is refused where there are none.
    """
    own = {name: value for name, value in options.items() if name in _OWN}
    others = {name: value for name, value in options.items() if name not in _OWN}
    settings = ConsumerSettings(group=group, **own)
    if settings.trace and not calls_handlers:
        raise ConfigError(
            "trace records the calls of functions, which only PushConsumer and AsyncPushConsumer "
            "make: leave it out here, or use one of these"
        )
    if settings.broadcast:
        # The name is part of the path of the offsets' file, so it must be the same next time.
        others.setdefault("instance_name", "DEFAULT")
    return ClientSettings.of(nameservers, **others), settings

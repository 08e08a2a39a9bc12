"""Brokers: how one is doing and how it is set up."""

from __future__ import annotations

from collections.abc import Mapping

from orbitmq.admin.asking import ask, read
from orbitmq.client.wishes import Flow
from orbitmq.config import decode, format_properties, parse_properties
from orbitmq.protocol.codes import RequestCode

__all__ = ["broker_config", "broker_runtime_info", "update_broker_config"]


def broker_runtime_info(address: str) -> Flow[dict[str, str]]:
    """Return a broker's own table of its state, under RocketMQ's keys."""
    table = read((yield from ask(address, RequestCode.GET_BROKER_RUNTIME_INFO))).get("table") or {}
    return {str(key): str(value) for key, value in table.items()}


def broker_config(address: str) -> Flow[dict[str, str]]:
    """Return all settings of a broker, under RocketMQ's keys."""
    response = yield from ask(address, RequestCode.GET_BROKER_CONFIG)
    return parse_properties(decode(response.body))


def update_broker_config(address: str, settings: Mapping[str, str]) -> Flow[None]:
    """Change settings of a running broker."""
    body = format_properties(settings).encode()
    yield from ask(address, RequestCode.UPDATE_BROKER_CONFIG, body=body)

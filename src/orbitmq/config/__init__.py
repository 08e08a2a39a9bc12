"""Settings of nameserver and broker, read from RocketMQ's own configuration files."""

from orbitmq.config.address import local_address
from orbitmq.config.broker import BrokerConfig
from orbitmq.config.nameserver import NameserverConfig
from orbitmq.config.properties import (
    decode,
    format_properties,
    parse_properties,
    rewrite_properties,
)
from orbitmq.config.store import delay_levels_ms
from orbitmq.config.tls import TlsSettings

__all__ = [
    "BrokerConfig",
    "NameserverConfig",
    "TlsSettings",
    "decode",
    "delay_levels_ms",
    "format_properties",
    "local_address",
    "parse_properties",
    "rewrite_properties",
]

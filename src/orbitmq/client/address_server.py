"""Nameservers that the address server of a client's settings names."""

from __future__ import annotations

from orbitmq.client.settings import ClientSettings
from orbitmq.remoting.address_server import look_up

__all__ = ["look_up_nameservers"]


def look_up_nameservers(settings: ClientSettings) -> tuple[str, ...]:
    """Ask the address server of the settings for the addresses of nameservers; blocks."""
    return look_up(
        settings.nameserver_domain or "",
        settings.nameserver_subgroup,
        unit_name=settings.unit_name,
        advice="Check nameserver_domain, or pass the nameservers' addresses",
    )

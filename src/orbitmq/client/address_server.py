"""Nameservers that an address server names: one GET, asked again every two minutes.

    GET http://<domain>[:8080]/rocketmq/<subgroup>[-<unit>?nofix=1]

    10.0.0.1:9876;10.0.0.2:9876

The first line of the answer counts. It is asked only when a domain is set up and no addresses are.
"""

from __future__ import annotations

from orbitmq.client.settings import ClientSettings
from orbitmq.errors import NoRoute
from orbitmq.remoting.address import split_address

__all__ = ["look_up_nameservers", "path_of"]

DEFAULT_PORT = 8080
TIMEOUT_S = 3.0
MAX_BYTES = 64 << 10


def path_of(subgroup: str, unit_name: str | None) -> str:
    """Return where an address server keeps the list.

    >>> path_of("nsaddr", None), path_of("nsaddr", "eu")
    ('/rocketmq/nsaddr', '/rocketmq/nsaddr-eu?nofix=1')
    """
    return f"/rocketmq/{subgroup}" + (f"-{unit_name}?nofix=1" if unit_name else "")


def look_up_nameservers(settings: ClientSettings) -> tuple[str, ...]:
    """Ask the address server of the settings for the addresses of nameservers; blocks."""
    # Most programs never ask; they should not wait for the import.
    from http.client import HTTPConnection, HTTPException

    path = path_of(settings.nameserver_subgroup, settings.unit_name)
    domain = settings.nameserver_domain or ""
    host, _, port = domain.removeprefix("http://").rstrip("/").partition(":")
    connection = HTTPConnection(host, int(port or DEFAULT_PORT), timeout=TIMEOUT_S)
    url = f"http://{host}:{connection.port}{path}"
    try:
        connection.request("GET", path, headers={"Accept": "text/plain"})
        answer = connection.getresponse()
        text = answer.read(MAX_BYTES).decode("utf-8", "replace")
    except (OSError, HTTPException) as error:
        raise _nobody(url, f"it does not answer: {type(error).__name__} {error}") from error
    finally:
        connection.close()
    if answer.status != 200:
        raise _nobody(url, f"it answers {answer.status} {answer.reason}")
    first = text.strip().partition("\n")[0]
    addresses = tuple(dict.fromkeys(part.strip() for part in first.split(";") if part.strip()))
    try:
        for address in addresses:
            split_address(address)
    except ValueError as error:
        raise _nobody(url, f"its answer is no list of addresses: {error}") from None
    if not addresses:
        raise _nobody(url, "its answer is empty")
    return addresses


def _nobody(url: str, why: str) -> NoRoute:
    return NoRoute(
        f"no nameserver is known: {url} was asked for their addresses, and {why}. "
        "Check nameserver_domain, or pass the nameservers' addresses",
        cause="no_nameserver",
    )

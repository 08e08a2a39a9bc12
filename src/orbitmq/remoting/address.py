"""Server addresses and connection timeouts, shared by blocking and asyncio clients."""

from __future__ import annotations

from orbitmq.errors import NoRoute

__all__ = ["CONNECT_TIMEOUT_S", "look_up", "path_of", "split_address"]

CONNECT_TIMEOUT_S = 3.0


def split_address(address: str) -> tuple[str, int]:
    """Split ``host:port``; an IPv6 host may be in brackets."""
    host, colon, port = address.strip().rpartition(":")
    if "," in host:
        raise ValueError(f"{address!r} is not one address of the form host:port; put ; between two")
    if not colon or not host or not port.isdecimal() or int(port) > 65_535:
        raise ValueError(f"{address!r} is not an address of the form host:port")
    return host.strip("[]"), int(port)


# ---- Look-up of nameservers at an address server
#
# The look-up is one GET, repeated every two minutes.
#
#     GET http://<domain>[:8080]/rocketmq/<subgroup>[-<unit>?nofix=1]
#
#     10.0.0.1:9876;10.0.0.2:9876
#
# Only the first line of the answer counts. Clients and brokers use this if no address is
# configured.

DEFAULT_PORT = 8080
TIMEOUT_S = 3.0
MAX_BYTES = 64 << 10


def path_of(subgroup: str, unit_name: str | None) -> str:
    """Return the path of the list at an address server.

    >>> path_of("nsaddr", None), path_of("nsaddr", "eu")
    ('/rocketmq/nsaddr', '/rocketmq/nsaddr-eu?nofix=1')
    """
    return f"/rocketmq/{subgroup}" + (f"-{unit_name}?nofix=1" if unit_name else "")


def look_up(
    domain: str, subgroup: str, *, unit_name: str | None = None, advice: str
) -> tuple[str, ...]:
    """Request the addresses of nameservers from an address server; blocks.

    Raises `NoRoute` with the reason and an advice.
    """
    # Imported here: most programs use no address server and should not pay for the import.
    from http.client import HTTPConnection, HTTPException

    path = path_of(subgroup, unit_name)
    host, _, port = domain.removeprefix("http://").rstrip("/").partition(":")
    url = f"http://{host}:{port or DEFAULT_PORT}{path}"

    def nobody(why: str) -> NoRoute:
        return NoRoute(
            f"no nameserver is known: {url} was asked for their addresses, and {why}. {advice}",
            cause="no_nameserver",
        )

    if port and not port.isdecimal():
        raise nobody(f"{port!r} is no port")
    connection = HTTPConnection(host, int(port or DEFAULT_PORT), timeout=TIMEOUT_S)
    try:
        connection.request("GET", path, headers={"Accept": "text/plain"})
        answer = connection.getresponse()
        text = answer.read(MAX_BYTES).decode("utf-8", "replace")
    except (OSError, HTTPException, ValueError) as error:  # ValueError: invalid host name
        raise nobody(f"it does not answer: {type(error).__name__} {error}") from error
    finally:
        connection.close()
    if answer.status != 200:
        raise nobody(f"it answers {answer.status} {answer.reason}")
    first = text.strip().partition("\n")[0]
    addresses = tuple(dict.fromkeys(part.strip() for part in first.split(";") if part.strip()))
    try:
        for address in addresses:
            split_address(address)
    except ValueError as error:
        raise nobody(f"its answer is no list of addresses: {error}") from None
    if not addresses:
        raise nobody("its answer is empty")
    return addresses

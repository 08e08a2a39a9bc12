"""``file:`` URLs, as Spark's users write them, for what is read here without Spark."""

from __future__ import annotations

__all__ = ["path_of"]

SCHEME = "file:"


def path_of(url: str) -> str:
    """Return the path of a ``file:`` URL; a host in it can only be this machine.

    >>> path_of("file:///var/store"), path_of("file:/var/store"), path_of("file:store")
    ('/var/store', '/var/store', 'store')
    """
    path = url[len(SCHEME) :]
    return "/" + path[2:].partition("/")[2] if path.startswith("//") else path

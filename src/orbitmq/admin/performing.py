"""What families of verbs need of the class they become part of."""

from __future__ import annotations

from typing import TypeVar

from orbitmq.admin.namespace import Namespace
from orbitmq.client.wishes import Flow

__all__ = ["AsyncPerforming", "Performing"]

T = TypeVar("T")


class Performing:
    """Something that carries out flows on the calling thread."""

    _nameservers: list[str]
    _names: Namespace

    def _run(self, flow: Flow[T]) -> T:
        raise NotImplementedError


class AsyncPerforming:
    """Something that carries out flows on an event loop."""

    _nameservers: list[str]
    _names: Namespace

    async def _run(self, flow: Flow[T]) -> T:
        raise NotImplementedError

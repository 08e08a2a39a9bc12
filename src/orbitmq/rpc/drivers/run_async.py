"""Carries out a flow's operations on an event loop."""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar

from orbitmq._native import encode_request
from orbitmq.errors import RemotingError
from orbitmq.remoting.client import RemotingClient
from orbitmq.rpc.flow import Call, Flow, Notify

__all__ = ["perform"]

T = TypeVar("T")


async def perform(flow: Flow[T], network: RemotingClient) -> T:
    """Run a flow to its end and return the flow's result.

    If the caller is cancelled, the flow is closed: its ``finally`` blocks run, but they must not
    yield operations any more.
    """
    try:
        wish = next(flow)
        while True:
            result: Any = None
            try:
                if type(wish) is Call and (link := network.ready(wish.address)) is not None:
                    # The same as `invoke`, but without an extra coroutine for each request.
                    opaque = link.next_opaque()
                    frame = encode_request(wish.code, opaque, wish.ext, wish.body, wish.encoding)
                    result = await link.request(frame, opaque, wish.timeout_ms)
                elif type(wish) is Call:
                    result = await network.invoke(
                        wish.address,
                        wish.code,
                        ext=wish.ext,
                        body=wish.body,
                        timeout_ms=wish.timeout_ms,
                        encoding=wish.encoding,
                    )
                elif type(wish) is Notify:
                    await network.notify(
                        wish.address,
                        wish.code,
                        ext=wish.ext,
                        body=wish.body,
                        encoding=wish.encoding,
                        remark=wish.remark,
                    )
                else:
                    await asyncio.sleep(wish.ms / 1000)  # type: ignore[union-attr]
            except RemotingError as error:
                wish = flow.throw(error)
            else:
                wish = flow.send(result)
    except StopIteration as end:
        value: T = end.value
        return value
    finally:
        flow.close()

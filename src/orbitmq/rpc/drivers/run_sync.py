"""Carries out a flow's operations on the calling thread."""

from __future__ import annotations

import time
from typing import Any, TypeVar

from orbitmq.errors import RemotingError
from orbitmq.remoting.blocking import BlockingNetwork
from orbitmq.rpc.flow import Call, Flow, Notify

__all__ = ["perform"]

T = TypeVar("T")


def perform(flow: Flow[T], network: BlockingNetwork) -> T:
    """Run a flow to its end and return the flow's result."""
    try:
        wish = next(flow)
        while True:
            result: Any = None
            try:
                if type(wish) is Call:
                    result = network.invoke(
                        wish.address,
                        wish.code,
                        ext=wish.ext,
                        body=wish.body,
                        timeout_ms=wish.timeout_ms,
                        encoding=wish.encoding,
                    )
                elif type(wish) is Notify:
                    network.notify(
                        wish.address,
                        wish.code,
                        ext=wish.ext,
                        body=wish.body,
                        encoding=wish.encoding,
                        remark=wish.remark,
                    )
                else:
                    time.sleep(wish.ms / 1000)  # type: ignore[union-attr]
            except RemotingError as error:
                wish = flow.throw(error)
            else:
                wish = flow.send(result)
    except StopIteration as end:
        value: T = end.value
        return value
    finally:
        flow.close()

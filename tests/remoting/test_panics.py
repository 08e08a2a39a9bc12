"""Panics of native code are handled like other errors, by connections and periodic tasks."""

from __future__ import annotations

import asyncio
import logging

import pytest
import uvloop

from orbitmq._native import Command, PanicException
from orbitmq.broker.periodic import PeriodicTasks
from orbitmq.errors import FAILURES
from orbitmq.remoting.client import RemotingClient
from orbitmq.remoting.connection import Connection
from orbitmq.remoting.router import Answer, Router, respond
from orbitmq.remoting.server import Server

AT_ONCE, LATER, ECHO = 1, 2, 3
LOOPS = (asyncio.new_event_loop, uvloop.new_event_loop)


def panics(_request: Command, _connection: Connection) -> Answer:
    raise PanicException("read past the end")


async def panics_later(_request: Command, _connection: Connection) -> Command:
    await asyncio.sleep(0)
    raise PanicException("read past the end")


def echo(request: Command, _connection: Connection) -> Answer:
    return respond(request, body=request.body)


def test_panics_count_as_failures() -> None:
    assert not issubclass(PanicException, Exception)
    assert issubclass(PanicException, FAILURES)
    for passed_on in (KeyboardInterrupt, SystemExit, asyncio.CancelledError):
        assert not issubclass(passed_on, FAILURES)


def test_a_panic_of_a_handler_is_answered_and_keeps_the_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test() -> None:
        router = Router()
        router.add(panics, [AT_ONCE])
        router.add(panics_later, [LATER])
        router.add(echo, [ECHO])
        server = Server(router)
        port = await server.listen("127.0.0.1", 0)
        client = RemotingClient()
        try:
            for code in (AT_ONCE, LATER):
                answer = await client.invoke(f"127.0.0.1:{port}", code)
                assert (answer.code, answer.remark) == (1, "PanicException: read past the end")
                assert f"request {code} failed" in caplog.text
            assert (await client.invoke(f"127.0.0.1:{port}", ECHO, body=b"x")).body == b"x"
            assert len(server.connections) == 1, "all of it on one connection"
        finally:
            await client.close()
            await server.close()

    for new_loop in LOOPS:
        with asyncio.Runner(loop_factory=new_loop) as runner:
            runner.run(asyncio.wait_for(test(), 20))


def test_periodic_tasks_go_on_after_a_panic(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        calls = 0
        done = asyncio.Event()

        def work() -> None:
            nonlocal calls
            calls += 1
            if calls == 1:
                raise PanicException("half-way")
            done.set()

        housekeeping = PeriodicTasks()
        housekeeping.every(1, work)
        async with asyncio.timeout(20):
            await done.wait()
        await housekeeping.stop()

    with caplog.at_level(logging.ERROR):
        asyncio.run(test())
    assert "work failed" in caplog.text

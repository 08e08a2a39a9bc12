"""One connection: bytes in, commands out, and back.

Theory of operation. Everything happens on the event loop. One socket read goes to the native
`FrameReader` in one call; the requests it returns are handled in order. Whatever is sent, be it
their responses, a response that had to wait or a request of our own, is collected until the end of
the loop's turn and leaves in one write (see `WritingTurn`).

Bounds. A peer that does not read its responses is not read from (unless it owes us some), and the
requests it has already sent are not handled, until it does; so what waits for it cannot grow. The
same holds while many of its requests are being worked on, and for requests that are taken up again
later. Notifications to a peer that does not read are dropped, our requests to it wait. A frame that
breaks the rules closes its connection with one line in the log; what all connections together have
sent of unfinished frames is limited, too (see `PartialFrames`).
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Literal, cast

from orbitmq._native import Command, FrameReader, encode_commands
from orbitmq.errors import FAILURES, ConnectionLost, OrbitError, RequestTimeout
from orbitmq.protocol.flags import CommandFlag
from orbitmq.remoting.handling import Handler, Router, answer_error
from orbitmq.remoting.partial_frames import PartialFrames
from orbitmq.remoting.pending import PendingRequests
from orbitmq.remoting.writing_turn import WritingTurn

__all__ = ["Connection"]

_log = logging.getLogger(__name__)

MAX_REQUESTS_IN_WORK = 64
"""Each may come back with a body of megabytes."""
WRITE_BUFFER_BYTES = 1 << 20
MOST_FRAMES_BYTES = 64 << 10
"""Requests of our own that are collected within one turn."""


class Connection(asyncio.Protocol):
    """A TCP connection that carries requests and responses in both directions."""

    def __init__(
        self,
        router: Router,
        *,
        on_open: Callable[[Connection], None] | None = None,
        on_close: Callable[[Connection], None] | None = None,
        partial_frames: PartialFrames[Connection] | None = None,
    ) -> None:
        self._router = router
        self._partial_frames = partial_frames
        self._on_open = on_open
        self._on_close = on_close
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._reader = FrameReader()
        self._pending_bytes = 0
        self._inbox: deque[tuple[Command, Handler | None]] = deque()
        self._outbox: list[Command] = []
        self._outbox_bytes = 0
        self._turn = WritingTurn.of(self._loop)
        self._in_turn = False
        self._taking_up = False
        self._reading = True
        self._write_paused = False
        self._opaques = itertools.count()
        self._pending = PendingRequests(self._loop)
        self._writable: asyncio.Event | None = None
        self._frames: list[bytes] = []
        self._gone: asyncio.Event | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self.remote: tuple[str, int] = ("", 0)
        self.local: tuple[str, int] = ("", 0)
        self.last_active = self._loop.time()

    def __repr__(self) -> str:
        return f"<Connection {self.remote_text}>"

    @property
    def remote_text(self) -> str:
        """The peer's address as ``ip:port``."""
        return f"{self.remote[0]}:{self.remote[1]}"

    @property
    def is_open(self) -> bool:
        """Whether anything can still be sent."""
        return self._transport is not None and not self._transport.is_closing()

    # ---- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the event loop."""
        # uvloop's transports do what asyncio's do without being of that class.
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES)
        peer, own = transport.get_extra_info("peername"), transport.get_extra_info("sockname")
        if peer:
            self.remote = (peer[0], peer[1])
            self._pending.peer = self.remote_text
        if own:
            self.local = (own[0], own[1])
        if self._on_open is not None:
            self._on_open(self)

    def data_received(self, data: bytes) -> None:
        """Called by the event loop."""
        self.last_active = self._loop.time()
        reader, inbox = self._reader, self._inbox
        for command in reader.feed(data):
            if command.is_response:
                if not self._pending.settle(command):
                    _log.debug("%r answered nobody (opaque %d)", self, command.opaque)
            elif inbox or self._is_occupied:
                inbox.append((command, None))
            else:
                self._handle(command, self._router.find(command.code))
        if inbox:
            self._read_or_not()
        if reader.failure is not None:
            _log.warning("closing %s: %s", self.remote_text, reader.failure)
            self.close()
        elif self._partial_frames is not None:
            pending = reader.pending_bytes
            if pending != self._pending_bytes:
                self._pending_bytes = pending
                for other in self._partial_frames.note(self, pending):
                    _log.warning("closing %s: too many unfinished frames", other.remote_text)
                    other.abort()

    def pause_writing(self) -> None:
        """Called by the event loop when the peer does not keep up."""
        self._write_paused = True
        self._read_or_not()

    def resume_writing(self) -> None:
        """Called by the event loop when it does again."""
        self._write_paused = False
        if self._writable is not None:
            self._writable.set()
            self._writable = None
        self._handle_inbox()

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the event loop."""
        self._transport = None
        if self._gone is not None:
            self._gone.set()
        self._inbox.clear()
        self._outbox.clear()
        self._frames.clear()
        if self._writable is not None:
            self._writable.set()
            self._writable = None
        if self._partial_frames is not None:
            self._partial_frames.forget(self)
        self._pending.fail_all()
        for task in self._tasks:
            task.cancel()
        if self._on_close is not None:
            self._on_close(self)

    # ---- what the peer sent

    @property
    def _is_occupied(self) -> bool:
        return self._write_paused or len(self._tasks) >= MAX_REQUESTS_IN_WORK

    def _handle_inbox(self) -> None:
        inbox = self._inbox
        while inbox and not self._is_occupied:
            request, handler = inbox.popleft()
            self._handle(request, handler or self._router.find(request.code))
        self._read_or_not()

    def _read_or_not(self) -> None:
        # Answers to our own requests are read even by one who cannot write: the peer may be in the
        # same position, and if neither read, neither could ever go on.
        wanted = not self._inbox and (not self._write_paused or bool(self._pending))
        if wanted is self._reading:
            return
        if self._transport is not None and self.is_open:
            self._reading = wanted
            if wanted:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    def handle_later(self, request: Command, handler: Handler) -> None:
        """Let a handler answer a request of the past, when the peer is ready for the answer."""
        self._inbox.append((request, handler))
        if not self._taking_up:
            self._taking_up = True
            self._loop.call_soon(self._take_up)

    def _take_up(self) -> None:
        self._taking_up = False
        self._handle_inbox()

    def _handle(self, request: Command, handler: Handler) -> None:
        try:
            answer = handler(request, self)
        except FAILURES as error:
            answer = answer_error(request, error)
        if answer is None:
            return
        if type(answer) is Command:
            if not request.is_oneway:
                self.send(answer)
        else:
            task = self._loop.create_task(self._answer_later(request, answer))
            self._tasks.add(task)
            task.add_done_callback(self._task_done)

    def _task_done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if self._inbox:
            self._handle_inbox()

    async def _answer_later(self, request: Command, awaited: Awaitable[Command | None]) -> None:
        try:
            answer = await awaited
        except FAILURES as error:
            answer = answer_error(request, error)
        if answer is not None and not request.is_oneway:
            self.send(answer)

    # ---- sending

    def send(self, command: Command) -> None:
        """Send a command; silently nothing when the connection is gone."""
        if self._transport is None:
            return
        self._outbox.append(command)
        if not self._in_turn:
            self._in_turn = True
            self._turn.join(self)
        if body_bytes := len(command.body):
            self._outbox_bytes += body_bytes
            if self._outbox_bytes > WRITE_BUFFER_BYTES:
                self.write_collected()
            else:
                self._turn.note(body_bytes)

    def write_collected(self) -> None:
        """Write what has been sent so far."""
        self._in_turn = False
        commands, self._outbox = self._outbox, []
        frames, self._frames = self._frames, []
        self._outbox_bytes = 0
        if self._transport is None:
            return
        self.last_active = self._loop.time()
        if commands:
            try:
                buffers = encode_commands(commands)
            except OrbitError:
                buffers = [_encode_or_tell(command) for command in commands]
            if len(buffers) == 1:
                self._transport.write(buffers[0])
            else:
                self._transport.writelines(buffers)
        if frames:
            self._transport.write(frames[0] if len(frames) == 1 else b"".join(frames))

    # ---- requests of our own

    def next_opaque(self) -> int:
        """Return the id for a request that is about to be encoded."""
        return next(self._opaques) & 0x7FFFFFFF

    async def invoke(
        self,
        code: int,
        *,
        ext: dict[str, str] | None = None,
        body: bytes | None = None,
        timeout_ms: float = 3000,
    ) -> Command:
        """Send a request and wait for its response."""
        if self._write_paused:
            await self.writable(timeout_ms)
        opaque = self.next_opaque()
        frame = Command(code, opaque=opaque, ext=ext, body=body).encode()
        try:
            return await self.request(frame, opaque, timeout_ms)
        except RequestTimeout:
            text = f"{self.remote_text} did not answer request {code} within {timeout_ms:.0f} ms"
            raise RequestTimeout(text) from None

    def request(self, frame: bytes, opaque: int, timeout_ms: float) -> asyncio.Future[Command]:
        """Send a request that is encoded already; the future is its response, or the error."""
        if not self.is_open:
            lost: asyncio.Future[Command] = self._loop.create_future()
            lost.set_exception(ConnectionLost(f"connection to {self.remote_text} is closed"))
            return lost
        future = self._pending.add(opaque, timeout_ms)
        if not self._reading:
            self._read_or_not()
        self.post(frame)
        return future

    def post(self, frame: bytes) -> None:
        """Send a frame that is encoded already, with whatever else is sent in this turn."""
        self._frames.append(frame)
        self._outbox_bytes += len(frame)
        if not self._in_turn:
            self._in_turn = True
            self._turn.join(self)
        elif self._outbox_bytes > MOST_FRAMES_BYTES:
            # Thousands of requests in one turn: the peer had better begin with the first of them.
            self.write_collected()

    async def writable(self, timeout_ms: float) -> None:
        """Wait until the peer reads again."""
        while self._write_paused and self.is_open:
            if self._writable is None:
                self._writable = asyncio.Event()
            try:
                async with asyncio.timeout(timeout_ms / 1000):
                    await self._writable.wait()
            except TimeoutError:
                text = f"{self.remote_text} did not take a request within {timeout_ms:.0f} ms"
                raise RequestTimeout(text) from None

    @property
    def takes_requests(self) -> bool:
        """Whether the connection is open and its peer reads."""
        return not self._write_paused and self.is_open

    @property
    def is_write_paused(self) -> bool:
        """Whether the peer is behind with reading."""
        return self._write_paused

    def notify(
        self,
        code: int,
        *,
        ext: dict[str, str] | None = None,
        body: bytes | None = None,
        encoding: Literal["json", "binary"] = "json",
        remark: str | None = None,
    ) -> None:
        """Send a request that wants no response; nothing when the peer does not read."""
        if self._write_paused:
            return
        opaque = self.next_opaque()
        self.send(
            Command(
                code,
                opaque=opaque,
                flag=CommandFlag.ONEWAY,
                remark=remark,
                ext=ext,
                body=body,
                encoding=encoding,
            )
        )

    # ---- the end

    def close(self) -> None:
        """Send what waits and close."""
        if self._transport is not None:
            self.write_collected()
            self._transport.close()

    async def wait_closed(self, grace_s: float) -> None:
        """Wait until a connection that was closed is gone, for at most so long."""
        if self._transport is None:
            return
        self._gone = self._gone or asyncio.Event()
        try:
            async with asyncio.timeout(grace_s):
                await self._gone.wait()
        except TimeoutError:
            self.abort()

    def abort(self) -> None:
        """Close at once."""
        if self._transport is not None:
            self._transport.abort()


def _encode_or_tell(command: Command) -> bytes:
    """Encode one command; one that cannot be encoded is answered with the reason instead."""
    try:
        return command.encode()
    except OrbitError as error:
        if not command.is_response:
            _log.error("request %d cannot be sent: %s", command.code, error)
            return b""
        return answer_error(command, error).encode()

"""A connection: parses received bytes into commands, and writes commands.

Theory of operation. Everything happens on the event loop. The bytes of one socket read go to the
native `FrameReader` in one call; the requests it returns are handled in order. Responses, delayed
responses and our own requests are collected until the end of the loop's turn and leave in one
write (see `WriteCoalescer`).

Shares. Requests are handled for a share of the loop's turn. The other requests of a read wait for
the next share (see `FairTurns`), and the connection reads nothing more meanwhile.

Bounds. While a peer does not read its responses, the connection stops reading from it, unless the
peer owes responses. The connection also stops handling the peer's requests, so the unsent bytes
cannot grow. The same holds while many of its requests are in work, and for requests that are
resumed later. Notifications to a peer that does not read are dropped; our requests to it wait. An
invalid frame closes the connection with one log line. The memory of all connections of a server
together is limited as well (see `ServerLimits`).

The end. Requests that a peer sent before it closed its connection are still handled, because a
one-way request needs no answer. Only then `on_close` is called.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable
from time import monotonic
from typing import Literal, cast

from orbitmq._native import Command, encode_commands
from orbitmq.errors import FAILURES, ConnectionLost, OrbitError, RequestTimeout
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.flags import CommandFlag
from orbitmq.remoting.coalesce import WriteCoalescer
from orbitmq.remoting.fair_turns import FairTurns
from orbitmq.remoting.in_work import InWork
from orbitmq.remoting.inbox import CUT_BYTES, ConnectionInbox
from orbitmq.remoting.limits import ServerLimits
from orbitmq.remoting.rare_log import RareLog
from orbitmq.remoting.requests import PendingRequests
from orbitmq.remoting.router import Handler, Router, answer_error
from orbitmq.remoting.unsent import WriteMeter

__all__ = ["Connection"]

_log = logging.getLogger(__name__)
_unheard = RareLog(_log)

READ_AHEAD_BYTES = 1 << 20
"""Bytes of waiting requests up to which the connection reads on, to find responses behind them."""
WRITE_BUFFER_BYTES = 1 << 20
MOST_FRAMES_BYTES = 64 << 10
"""Bytes of our own requests that are collected within one turn."""


class Connection(asyncio.Protocol):
    """A TCP connection that carries requests and responses in both directions."""

    def __init__(
        self,
        router: Router,
        *,
        on_open: Callable[[Connection], None] | None = None,
        on_close: Callable[[Connection], None] | None = None,
        limits: ServerLimits | None = None,
    ) -> None:
        self._router = router
        self._limits = limits
        self._on_open = on_open
        self._on_close = on_close
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._pending = PendingRequests(self._loop)
        self._inbox = ConnectionInbox(self._pending)
        self._kept_bytes = 0
        self._uncut_bytes = 0
        self._turns = FairTurns.of(self._loop)
        self._waits_for_share = False
        self._outbox: list[Command] = []
        self._outbox_bytes = 0
        self._turn = WriteCoalescer.of(self._loop)
        self._in_turn = False
        self._reading = True
        self._meter: WriteMeter | None = None
        self._write_paused = False
        self._opaques = itertools.count()
        self._writable: asyncio.Event | None = None
        self._frames: list[bytes] = []
        self._gone: asyncio.Event | None = None
        self._in_work = InWork(self._loop, limits)
        self._has_asked = False
        self.remote: tuple[str, int] = ("", 0)
        self.local: tuple[str, int] = ("", 0)
        self.last_active = self._loop.time()

    def __repr__(self) -> str:
        return f"<Connection {self.remote_text}>"

    @property
    def remote_text(self) -> str:
        """Address of the peer as ``ip:port``."""
        return f"{self.remote[0]}:{self.remote[1]}"

    @property
    def is_open(self) -> bool:
        """True if the connection can still send."""
        return self._transport is not None and not self._transport.is_closing()

    # ---- Callbacks of `asyncio.Protocol`

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the event loop."""
        # uvloop's transports have asyncio's interface but not its class.
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES)
        if self._limits is not None:
            self._meter = WriteMeter(self._transport)
        peer, own = transport.get_extra_info("peername"), transport.get_extra_info("sockname")
        if peer:
            self.remote = (peer[0], peer[1])
            self._pending.peer = self.remote_text
        if own:
            self.local = (own[0], own[1])
        if self._limits is not None:
            self._limits.connections.add(self)
            self.read_or_not()
        if self._on_open is not None:
            self._on_open(self)

    def data_received(self, data: bytes) -> None:
        """Called by the event loop."""
        self.last_active = self._loop.time()
        inbox = self._inbox
        reader = inbox.reader
        if len(data) > CUT_BYTES or inbox.uncut_bytes or inbox.requests:
            inbox.add(data)
        else:
            commands = reader.feed(data)
            # The usual case: a peer that sends one request at a time.
            if (
                len(commands) == 1
                and not (command := commands[0]).is_response
                and not (self._write_paused or self._in_work.is_full)
            ):
                self._handle(command, self._router.find(command.code))
            elif commands:
                inbox.take(commands)
        if inbox.requests or inbox.uncut_bytes:
            if self._waits_for_share:
                self._after_work()
            elif self.work(self._turns.share()):
                self._wait_for_share()
        elif reader.pending_bytes != self._kept_bytes or reader.failure is not None:
            self._after_work()

    def pause_writing(self) -> None:
        """Called by the event loop when the peer reads too slowly."""
        self._write_paused = True
        self.read_or_not()

    def resume_writing(self) -> None:
        """Called by the event loop when the peer reads again."""
        self._write_paused = False
        if self._writable is not None:
            self._writable.set()
            self._writable = None
        self._note_unsent()
        self._go_on()

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the event loop."""
        self._transport = self._meter = None
        self._write_paused = False
        if self._gone is not None:
            self._gone.set()
        self._outbox.clear()
        self._frames.clear()
        if self._writable is not None:
            self._writable.set()
            self._writable = None
        if self._limits is not None:
            self._limits.connections.discard(self)
            self._limits.unsent.forget(self)
        self._pending.fail_all()
        self._in_work.cancel()
        self._inbox.drop_repeated()
        if self._inbox and self._limits is not None and self._limits.is_full:
            _unheard.warning("dropping requests of %s: its connection is closed", self.remote_text)
            self._inbox.clear()
        if self._inbox:
            self._go_on()
        else:
            self._after_work()
            self._tell_closed()

    def _tell_closed(self) -> None:
        self._inbox.clear()
        on_close, self._on_close = self._on_close, None
        if on_close is not None:
            on_close(self)

    # ---- Received commands

    @property
    def _is_occupied(self) -> bool:
        return self._write_paused or self._in_work.is_full

    def work(self, until_s: float) -> bool:
        """Handle requests until the time, at least one; return True if more can be handled."""
        inbox, more = self._inbox, False
        requests = inbox.requests
        while True:
            if requests:
                if self._is_occupied:
                    break
                request, handler = inbox.next()
                self._handle(request, handler or self._router.find(request.code))
            elif not inbox.cut():
                break
            if monotonic() >= until_s and inbox:
                more = True
                break
        self._waits_for_share = more
        self._after_work()
        if self._transport is None and not inbox:
            self._tell_closed()
        return more

    def _after_work(self) -> None:
        inbox = self._inbox
        if self._pending:
            # Read responses even while writing is paused: the peer may be paused as well, and if
            # neither side read, both would wait for ever.
            while inbox.requests_bytes < READ_AHEAD_BYTES and inbox.cut():
                pass
        self.read_or_not()
        if inbox.failure is not None and self.is_open:
            _log.warning("closing %s: %s", self.remote_text, inbox.failure)
            self.close()
        if self._limits is None:
            return
        if inbox.uncut_bytes != self._uncut_bytes:
            grown, self._uncut_bytes = inbox.uncut_bytes - self._uncut_bytes, inbox.uncut_bytes
            self._limits.note_uncut(grown)
        kept = inbox.kept_bytes if self._transport is not None else 0
        if kept != self._kept_bytes:
            self._kept_bytes = kept
            for other in self._limits.partial_frames.note(self, kept):
                _log.warning("closing %s: too many unfinished requests", other.remote_text)
                other.abort()

    def read_or_not(self) -> None:
        """Pause or resume reading from the peer, as the present state requires."""
        if self._pending:
            wanted = self._inbox.requests_bytes + self._inbox.uncut_bytes < READ_AHEAD_BYTES
        else:
            is_full = self._limits is not None and self._limits.is_full
            wanted = not (self._inbox or self._write_paused or is_full)
        if wanted is self._reading:
            return
        if self._transport is not None and self.is_open:
            self._reading = wanted
            if wanted:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    def handle_later(self, request: Command, handler: Handler) -> None:
        """Have a handler answer an earlier request as soon as the peer can receive the answer."""
        self._inbox.put(request, handler)
        if not self._waits_for_share:
            self._wait_for_share()

    def _go_on(self) -> None:
        """Handle waiting requests, or resume reading if no request waits."""
        if not self._inbox:
            self.read_or_not()
        elif not self._waits_for_share:
            self._wait_for_share()

    def _wait_for_share(self) -> None:
        self._waits_for_share = True
        self._turns.join(self)

    def _handle(self, request: Command, handler: Handler) -> None:
        self._has_asked = True
        try:
            answer = handler(request, self)
        except FAILURES as error:
            answer = answer_error(request, error)
        if answer is None:
            return
        if type(answer) is Command:
            if request.is_oneway:
                self._answer(request, answer)
            else:
                self.send(answer)
        else:
            self._in_work.start(request, answer, self._answer, self._go_on)

    def _answer(self, request: Command, answer: Command) -> None:
        if not request.is_oneway:
            self.send(answer)
        elif answer.code != ResponseCode.SUCCESS:
            _unheard.warning(
                "one-way request %d of %s failed; its sender gets no response: %s",
                request.code, self.remote_text, answer.remark,
            )  # fmt: skip

    # ---- Sending

    def send(self, command: Command) -> None:
        """Send a command; does nothing if the connection is closed."""
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
        """Write the commands and frames collected so far."""
        self._in_turn = False
        commands, self._outbox = self._outbox, []
        frames, self._frames = self._frames, []
        self._outbox_bytes = 0
        if self._transport is None:
            return
        self.last_active = self._loop.time()
        written = 0
        if commands:
            try:
                buffers = encode_commands(commands)
            except OrbitError:
                buffers = [_encode_or_tell(command) for command in commands]
            if len(buffers) == 1:
                self._transport.write(buffers[0])
                written = len(buffers[0])
            else:
                self._transport.writelines(buffers)
                written = sum(map(len, buffers))
        if frames:
            joined = frames[0] if len(frames) == 1 else b"".join(frames)
            self._transport.write(joined)
            written += len(joined)
        if self._meter is not None and self._meter.wrote(written):
            self._note_unsent()

    @property
    def unsent_bytes(self) -> int:
        """Bytes that stay in memory until the peer has read them."""
        return 0 if self._meter is None else self._meter.unsent_bytes

    @property
    def taken_bytes(self) -> int:
        """Bytes that the peer has acknowledged since the connection was opened."""
        return 0 if self._meter is None else self._meter.taken_bytes

    def _note_unsent(self) -> None:
        if self._limits is None:
            return
        for other in self._limits.unsent.note(self):
            _log.warning(
                "closing %s: it does not read, and too many bytes are unsent", other.remote_text
            )
            other.abort()

    # ---- Our own requests

    def next_opaque(self) -> int:
        """Return the opaque id for the next request."""
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
        future = self.request(
            Command(code, opaque=opaque, ext=ext, body=body).encode(), opaque, timeout_ms
        )
        del body  # free a large body during a long wait
        try:
            return await future
        except RequestTimeout:
            text = f"{self.remote_text} did not answer request {code} within {timeout_ms:.0f} ms"
            raise RequestTimeout(text) from None

    def request(self, frame: bytes, opaque: int, timeout_ms: float) -> asyncio.Future[Command]:
        """Send an encoded request; the future completes with its response or an error."""
        if not self.is_open:
            lost: asyncio.Future[Command] = self._loop.create_future()
            lost.set_exception(ConnectionLost(f"connection to {self.remote_text} is closed"))
            return lost
        future = self._pending.add(opaque, timeout_ms)
        if not self._reading:
            self.read_or_not()
        self.post(frame)
        return future

    def post(self, frame: bytes) -> None:
        """Send an encoded frame, together with the other output of this turn."""
        self._frames.append(frame)
        self._outbox_bytes += len(frame)
        if not self._in_turn:
            self._in_turn = True
            self._turn.join(self)
        elif self._outbox_bytes > MOST_FRAMES_BYTES:
            # With thousands of requests in one turn, let the peer start on the first of them.
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
        """True if the connection is open and its peer reads."""
        return not self._write_paused and self.is_open

    @property
    def is_write_paused(self) -> bool:
        """True if the peer reads too slowly, so that writing is paused."""
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
        """Send a one-way request; drops it if the peer does not read."""
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

    # ---- Closing

    def close(self) -> None:
        """Write the collected output and close."""
        if self._transport is not None:
            self.write_collected()
            self._transport.close()

    async def wait_closed(self, grace_s: float) -> None:
        """Wait until a closing connection has ended; abort it after `grace_s`."""
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

    def abort_unless_asked(self) -> str | None:
        """Close at once and return the peer's address, unless the peer has sent a request."""
        if self._has_asked or not self.is_open:
            return None
        self.abort()
        return self.remote_text


def _encode_or_tell(command: Command) -> bytes:
    """Encode a command; replace a response that cannot be encoded with an error response."""
    try:
        return command.encode()
    except OrbitError as error:
        if not command.is_response:
            _log.error("request %d cannot be sent: %s", command.code, error)
            return b""
        return answer_error(command, error).encode()

"""Exception tree of OrbitMQ.

::

    OrbitError
    ├── WireError                a peer's bytes (or ours) do not follow the protocol
    │   ├── FrameTooLarge        a frame announces more than the limit
    │   ├── MalformedFrame       lengths that contradict each other, an unknown header type
    │   ├── MalformedHeader      a frame's header, JSON or binary, cannot be read
    │   ├── HeaderFault          a request lacks a required field, or a field is no number
    │   ├── BrokenRegistration   the body of a broker's registration cannot be read
    │   ├── MalformedRecord      a message record breaks its layout or its CRC
    │   ├── MalformedBatch       a batch body breaks its layout
    │   ├── MalformedJson        a body is not even lenient JSON
    │   ├── BodyFault            a member of a JSON body has the wrong type, or is out of range
    │   ├── MalformedId          a text is not a message id
    │   ├── MalformedFilter      an SQL92 selector is invalid, or compares incomparable values
    │   │   └── FilterTooLarge   it is longer or more nested than this broker accepts
    │   └── MalformedBody        a compressed body does not decompress, or grows past its limit
    ├── RemotingError            a peer could not be reached or did not answer
    │   ├── ConnectionLost       the connection broke, or could not be opened
    │   └── RequestTimeout       the peer did not answer in time
    ├── ClientError              a call of a producer, consumer or admin failed
    │   ├── NoRoute              there is no queue to send to or read from; see `cause`
    │   ├── SendFailed           every attempt to send failed; a message may be stored all the same
    │   ├── BrokerRefused        a broker or nameserver answered with an error code
    │   │   └── BrokerBusy       the broker is overloaded now
    │   ├── AlreadyExists        a topic or group to create exists with other settings
    │   ├── NoSuchGroup          no broker has the consumer group
    │   ├── ShrinkRefused        a topic would lose read queues that contain messages
    │   ├── BadMessage           a message that no broker would accept
    │   ├── NoReply              a request was sent, but its reply did not arrive in time
    │   └── ClientClosed         the client is not started yet, or already closed
    ├── ConfigError              invalid settings, which prevent a start
    │   ├── MalformedProperties  a text is not valid as properties
    │   ├── BadPipeline          a pipeline cannot be started; see `mistakes`
    │   └── UnreadableFile       neither a table file nor its backup can be parsed
    └── StoreError               an error in a store directory, at `path` and `offset`
        ├── NoStore              the path contains no store
        ├── StoreLocked          another process has the store open
        ├── StoreClosed          the handle is closed
        ├── InvalidOptions       sizes or intervals that no store can use
        ├── InvalidMessage       a message that does not fit the record layout
        ├── BatchNotTaken        a batch of an exactly-once sender that has ended, or is too large
        ├── RecordTooLarge       a message is larger than this store accepts
        ├── DiskFull             the file system has no room for the next file
        ├── ReadOnlyStore        the directory or a file in it cannot be written
        ├── WrongFileSize        a file does not have the configured size
        ├── StrayFile            a file that does not belong to the directory
        ├── MissingFile          a gap between two files
        ├── FileExpired          retention deleted a file while it was read
        ├── CorruptStore         contradictions that a crash cannot explain
        ├── FlushFailed          a flush to disk failed; later writes may be lost
        ├── StorePanic           a panic in the store's own code
        └── StoreIOError         any other error of the operating system

Every class has the side that caused the error (`fault`), and `retriable`: True if the same call may
succeed when it is repeated unchanged. The Rust core raises the same classes; the mapping is in
``crates/py/src/errors.rs``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from orbitmq._native import PanicException

if TYPE_CHECKING:
    from orbitmq._native import Appended

__all__ = [
    "FAILURES",
    "AlreadyExists",
    "BadMessage",
    "BadPipeline",
    "BatchNotTaken",
    "BodyFault",
    "BrokenRegistration",
    "BrokerBusy",
    "BrokerRefused",
    "ClientClosed",
    "ClientError",
    "ConfigError",
    "ConnectionLost",
    "CorruptStore",
    "DiskFull",
    "Fault",
    "FileExpired",
    "FilterTooLarge",
    "FlushFailed",
    "FrameTooLarge",
    "HeaderFault",
    "InvalidMessage",
    "InvalidOptions",
    "MalformedBatch",
    "MalformedBody",
    "MalformedFilter",
    "MalformedFrame",
    "MalformedHeader",
    "MalformedId",
    "MalformedJson",
    "MalformedProperties",
    "MalformedRecord",
    "MissingFile",
    "NoReply",
    "NoRoute",
    "NoStore",
    "NoSuchGroup",
    "OrbitError",
    "ReadOnlyStore",
    "RecordTooLarge",
    "RemotingError",
    "RequestTimeout",
    "SendFailed",
    "ShrinkRefused",
    "StoreClosed",
    "StoreError",
    "StoreIOError",
    "StoreLocked",
    "StorePanic",
    "StrayFile",
    "UnreadableFile",
    "WireError",
    "WrongFileSize",
]


FAILURES: tuple[type[BaseException], ...] = (Exception, PanicException)
"""Exceptions to catch in a dispatcher or a loop that must continue after any failure.

A panic of the native code is no `Exception`, and so passes ``except Exception``. The tuple omits
exceptions that must not be caught: `KeyboardInterrupt`, `SystemExit` and
`asyncio.CancelledError`.
"""


SHOWN_QUEUES = 8


class Fault(Enum):
    """Side that caused an error, and so can correct it."""

    CALLER = "caller"
    """The program that made the call."""
    PEER = "peer"
    """The sender or writer of the bytes."""
    OPERATOR = "operator"
    """The operator of the machine or the directory."""
    MACHINE = "machine"
    """The machine: disk, file system, memory."""


class OrbitError(Exception):
    """Base class of all errors that OrbitMQ raises on purpose.

    ::

        try:
            producer.send(message)
        except OrbitError as error:
            later = error.retriable      # True if the same call may succeed next time
    """

    fault: ClassVar[Fault]
    retriable: ClassVar[bool] = False


class WireError(OrbitError):
    """Bytes do not follow the protocol; `offset` counts from the start of the given bytes."""

    fault = Fault.PEER

    def __init__(self, message: str, *, offset: int | None = None) -> None:
        super().__init__(message)
        self.offset = offset


class FrameTooLarge(WireError):
    """A frame announces more bytes than the limit allows."""


class MalformedFrame(WireError):
    """The lengths of a frame contradict each other, or its header type is unknown."""


class MalformedHeader(WireError):
    """The header of a frame, JSON or binary, cannot be read."""


class HeaderFault(WireError):
    """A request lacks a required field, or a field has an invalid text."""


class BrokenRegistration(WireError):
    """The body of a broker's registration cannot be read."""


class MalformedRecord(WireError):
    """A message record breaks its layout, its limits or its CRC."""


class MalformedBatch(WireError):
    """A batch body breaks its layout."""


class MalformedJson(WireError):
    """A body is not JSON, not even in the dialect that the lenient reader accepts."""


class BodyFault(WireError):
    """A member of a JSON body has the wrong type or is out of range; the text names it."""


class MalformedId(WireError):
    """A text is not a message id."""


class MalformedFilter(WireError):
    """An SQL92 selector is invalid or compares incomparable values; the text is Java's."""


class FilterTooLarge(MalformedFilter):
    """An SQL92 selector exceeds the limit of bytes, words or levels that the text names."""


class MalformedBody(WireError):
    """A body does not decompress, grows past its limit, or differs from the stored one."""


class RemotingError(OrbitError):
    """A peer could not be reached or did not answer. It may have executed the request or not."""

    fault = Fault.PEER
    retriable = True


class ConnectionLost(RemotingError):
    """The connection broke, or could not be opened."""

    fault = Fault.MACHINE


class RequestTimeout(RemotingError):
    """The peer did not answer in time."""


class ClientError(OrbitError):
    """A call of a producer, consumer or admin failed."""

    fault = Fault.CALLER


class NoRoute(ClientError):
    """There is no queue to send to or to read from. The text contains an advice for `cause`.

    Causes: ``no_nameserver`` (no nameserver could be reached), ``no_broker`` (no broker is
    registered, or the topic's broker has no master), ``no_topic`` (the topic does not exist and is
    not created on demand), ``no_permission`` (the topic may not be written, or not be read),
    ``refused`` (a nameserver answered, but not with a route).
    """

    fault = Fault.OPERATOR
    retriable = True

    def __init__(
        self,
        message: str,
        *,
        topic: str = "",
        cause: Literal["no_nameserver", "no_broker", "no_topic", "no_permission", "refused"],
    ) -> None:
        super().__init__(message)
        self.topic = topic
        self.cause = cause


class SendFailed(ClientError):
    """Every attempt to send failed. A message may be stored all the same, if an answer was lost.

    `attempts` has the broker and the error of each attempt; the last error is also `__cause__`.
    """

    fault = Fault.PEER
    retriable = True

    def __init__(self, message: str, attempts: Sequence[tuple[str, Exception]] = ()) -> None:
        super().__init__(message)
        self.attempts = tuple(attempts)

    @property
    def code(self) -> int | None:
        """Code of the broker's refusal, if the last attempt was refused."""
        last = self.attempts[-1][1] if self.attempts else None
        return last.code if isinstance(last, BrokerRefused) else None


class BrokerRefused(ClientError):
    """A broker or nameserver answered a request with an error: `code` and `remark`."""

    fault = Fault.PEER

    def __init__(
        self, code: int, remark: str | None, *, address: str = "", hint: str | None = None
    ) -> None:
        where = f" by {address}" if address else ""
        text = f"refused{where} with code {code}: {remark or 'no remark'}"
        super().__init__(f"{text}\n{hint}" if hint else text)
        self.code = code
        self.remark = remark
        self.address = address


class BrokerBusy(BrokerRefused):
    """A broker is overloaded. The call succeeds once the broker has caught up."""

    retriable = True


class AlreadyExists(ClientError):
    """A topic or group that should be created exists already with other settings.

    The text names the difference. Nothing was changed.
    """


class NoSuchGroup(ClientError):
    """None of the brokers has the consumer group."""

    fault = Fault.OPERATOR


class ShrinkRefused(ClientError):
    """A topic would lose read queues, whose messages could no longer be consumed.

    `counts` has the number of messages per `MessageQueue`. Nothing was changed.
    """

    def __init__(self, topic: str, counts: Mapping[Any, int]) -> None:
        shown = [
            f"{queue.broker_name}/{queue.queue_id}: {count:,}"
            for queue, count in counts.items()
            if count
        ]
        more = len(shown) - SHOWN_QUEUES
        text = ", ".join(shown[:SHOWN_QUEUES]) + (f" and {more} queues more" if more > 0 else "")
        super().__init__(
            f"topic {topic} would lose {len(counts)} queues to read, with "
            f"{sum(counts.values()):,} messages that no consumer could get any more"
            f"{f' ({text})' if text else ''}. Nothing was changed: ask to shrink it (--shrink) if "
            "it must be, best after the queues to write were reduced and the others are consumed"
        )
        self.counts = dict(counts)


class BadMessage(ClientError):
    """No broker would accept the message: its topic, body or properties are invalid."""


class NoReply(ClientError):
    """A request was sent, but its reply did not arrive in time."""

    fault = Fault.PEER
    retriable = True


class ClientClosed(ClientError):
    """The client is not started yet, or already closed."""


class ConfigError(OrbitError):
    """Invalid settings, which prevent a start."""

    fault = Fault.OPERATOR


class MalformedProperties(ConfigError):
    """A text is not valid as properties, also in Java: a ``\\u`` without its four digits."""


class BadPipeline(ConfigError):
    """A pipeline cannot be started; `mistakes` has one line for each reason."""

    def __init__(self, mistakes: Sequence[str]) -> None:
        super().__init__("\n".join(mistakes))
        self.mistakes = tuple(mistakes)


class UnreadableFile(ConfigError):
    """A file cannot be parsed, nor can its ``.bak``, if there is one."""


class StoreError(OrbitError):
    """An error in a store directory, at `path` and `offset` if they apply.

    `appended` are the messages that the failed `append_many` had stored before the error.
    """

    fault = Fault.MACHINE
    appended: Sequence[Appended] = ()

    def __init__(
        self, message: str, *, path: Path | str | None = None, offset: int | None = None
    ) -> None:
        super().__init__(message)
        self.path = None if path is None else Path(path)
        self.offset = offset


class NoStore(StoreError):
    """The path contains no store and was not changed. Check it, or request a new store."""

    fault = Fault.OPERATOR


class StoreLocked(StoreError):
    """Another process has the store open. The call succeeds once that process closes it."""

    fault = Fault.OPERATOR
    retriable = True


class StoreClosed(StoreError):
    """The handle was closed before this call."""

    fault = Fault.CALLER


class InvalidOptions(StoreError):
    """Sizes or intervals are invalid for any store."""

    fault = Fault.CALLER


class InvalidMessage(StoreError):
    """A message does not fit the record layout: its topic or properties are too long."""

    fault = Fault.CALLER


class BatchNotTaken(StoreError):
    """A batch of an exactly-once sender has ended, or has more ids than can be kept."""


class RecordTooLarge(StoreError):
    """A message is larger than this store accepts."""

    fault = Fault.CALLER


class DiskFull(StoreError):
    """The file system has no room for the next file. The call succeeds once there is room."""

    fault = Fault.OPERATOR
    retriable = True


class ReadOnlyStore(StoreError):
    """The directory, or a file in it, cannot be written."""

    fault = Fault.OPERATOR


class WrongFileSize(StoreError):
    """A file of the store does not have the size in the options."""

    fault = Fault.OPERATOR


class StrayFile(StoreError):
    """A file does not belong to the directory that contains it."""

    fault = Fault.OPERATOR


class MissingFile(StoreError):
    """A file is missing between its neighbours, or was cut before the next one begins."""

    fault = Fault.OPERATOR


class FileExpired(StoreError):
    """Retention deleted a log file while it was read. A new scan reads the remaining files."""

    fault = Fault.OPERATOR
    retriable = True


class CorruptStore(StoreError):
    """The files contradict each other in a way that recovery cannot explain by a crash."""


class FlushFailed(StoreError):
    """A flush to disk failed. Later writes may be lost, so the store rejects all further appends.

    The same holds after an append that ended in a `StorePanic`.
    """


class StorePanic(StoreError):
    """The store's own code panicked, and the call was aborted."""


class StoreIOError(StoreError):
    """A read, a write or a mapping failed in the operating system."""

"""The one exception tree of OrbitMQ.

::

    OrbitError
    ├── WireError                a peer's bytes (or ours) do not follow the protocol
    │   ├── FrameTooLarge        a frame announces more than the limit
    │   ├── MalformedFrame       lengths that contradict each other, an unknown header type
    │   ├── MalformedHeader      a frame's header, JSON or binary, cannot be read
    │   ├── HeaderFault          a request lacks a field it needs, or a number in it is none
    │   ├── BrokenRegistration   the body of a broker's registration cannot be read
    │   ├── MalformedRecord      a message record breaks its layout or its CRC
    │   ├── MalformedBatch       a batch body breaks its layout
    │   ├── MalformedJson        a body is not even lenient JSON
    │   ├── BodyFault            a member of a JSON body has the wrong type, or is out of range
    │   ├── MalformedId          a message id is not one
    │   ├── MalformedFilter      an SQL92 selector cannot be read, or compares what cannot be
    │   │   └── FilterTooLarge   it is longer or more nested than this broker takes
    │   └── MalformedBody        a compressed body does not decompress, or grows past its limit
    ├── RemotingError            a peer that could not be reached or did not answer
    │   ├── ConnectionLost       it is gone, or never was there
    │   └── RequestTimeout       it did not answer in time
    ├── ClientError              a producer, consumer or admin call that did not do what was asked
    │   ├── NoRoute              there is no queue to send to or read from; `cause` says why
    │   ├── SendFailed           every attempt to send failed; what the brokers did is unknown
    │   ├── BrokerRefused        a broker or nameserver answered with an error code
    │   │   └── BrokerBusy       it has too much to do now
    │   ├── AlreadyExists        what was to be created exists, and is set up otherwise
    │   ├── NoSuchGroup          no broker knows the consumer group
    │   ├── ShrinkRefused        a topic would lose queues that are read, with messages
    │   ├── BadMessage           a message that no broker would take
    │   ├── NoReply              a request was sent, but its reply did not come in time
    │   └── ClientClosed         the client was not started, or is closed already
    ├── ConfigError              settings that nothing can be started with
    │   ├── MalformedProperties  a text that is not even properties
    │   ├── BadPipeline          a pipeline's file, with every mistake in it
    │   └── UnreadableFile       a file of tables that cannot be understood, nor its backup
    └── StoreError               a store directory; `path` and `offset` say where
        ├── NoStore              the path is not that of a store
        ├── StoreLocked          another process has it open
        ├── StoreClosed          this handle was closed before
        ├── InvalidOptions       sizes or intervals no store could work with
        ├── InvalidMessage       a message the record layout has no room for
        ├── BatchNotTaken        a batch of an exactly-once sender that is over, or too large
        ├── RecordTooLarge       a message beyond the size this store takes
        ├── DiskFull             the file system has no room for the next file
        ├── ReadOnlyStore        the directory or a file in it cannot be written
        ├── WrongFileSize        a file is not of the configured size
        ├── StrayFile            a file that does not belong there
        ├── MissingFile          a gap between two files
        ├── FileExpired          retention deleted a file that was being read
        ├── CorruptStore         bytes that recovery cannot explain away
        ├── FlushFailed          the disk refused a flush; what came after may be lost
        ├── StorePanic           the store's own code met a case that it does not provide for
        └── StoreIOError         any other refusal of the operating system

Every class says whose fault it is (`fault`) and whether the same call can succeed when it is
made again unchanged (`retriable`). The Rust core raises these same classes; the mapping stands
in one place, ``crates/py/src/errors.rs``.
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
"""Exceptions to catch in a dispatcher or a loop that has to go on whatever happens.

A panic of the native code is no `Exception`, and so passes ``except Exception``. The tuple leaves
out what must not be caught: `KeyboardInterrupt`, `SystemExit` and `asyncio.CancelledError`.
"""


SHOWN_QUEUES = 8


class Fault(Enum):
    """Whose fault an error is, and so who can mend it."""

    CALLER = "caller"
    """The program that made the call."""
    PEER = "peer"
    """Whoever sent or wrote the bytes."""
    OPERATOR = "operator"
    """Whoever set up the machine or the directory."""
    MACHINE = "machine"
    """The machine: disk, file system, memory."""


class OrbitError(Exception):
    """Anything OrbitMQ raises on purpose.

    ::

        try:
            producer.send(message)
        except OrbitError as error:
            later = error.retriable      # whether the same call may succeed next time
    """

    fault: ClassVar[Fault]
    retriable: ClassVar[bool] = False


class WireError(OrbitError):
    """Bytes that do not follow the protocol. `offset` counts from the start of the bytes given."""

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
    """A request lacks a field it needs, or a field's text is not what it should be."""


class BrokenRegistration(WireError):
    """The body of a broker's registration cannot be read."""


class MalformedRecord(WireError):
    """A message record breaks its layout, its limits or its CRC."""


class MalformedBatch(WireError):
    """A batch body breaks its layout."""


class MalformedJson(WireError):
    """A body is not JSON, not even in the dialect that the lenient reader accepts."""


class BodyFault(WireError):
    """A member of a JSON body has the wrong type or is out of its range; the text names it."""


class MalformedId(WireError):
    """A text is not a message id."""


class MalformedFilter(WireError):
    """A text is not an SQL92 selector, or compares what cannot be compared; said as Java does."""


class FilterTooLarge(MalformedFilter):
    """An SQL92 selector has more bytes, words or levels than the limit that the text names."""


class MalformedBody(WireError):
    """A body does not decompress, grows past its limit, or is not the one that was stored."""


class RemotingError(OrbitError):
    """A peer could not be reached or did not answer. What it has done of the request is unknown."""

    fault = Fault.PEER
    retriable = True


class ConnectionLost(RemotingError):
    """The peer is gone, or never was there."""

    fault = Fault.MACHINE


class RequestTimeout(RemotingError):
    """The peer did not answer in time."""


class ClientError(OrbitError):
    """A producer, consumer or admin call that did not do what was asked."""

    fault = Fault.CALLER


class NoRoute(ClientError):
    """There is no queue to send to or to read from. The text says what to do about `cause`.

    Causes: ``no_nameserver`` (none could be reached), ``no_broker`` (none is registered, or the
    topic's broker has no master), ``no_topic`` (it does not exist and is not created on demand),
    ``no_permission`` (it may not be written, or not be read), ``refused`` (a nameserver answered,
    but not with a route).
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
    """Every attempt to send failed. A message whose answer was lost may be stored all the same.

    `attempts` names the broker and the error of each attempt, the last one is also `__cause__`.
    """

    fault = Fault.PEER
    retriable = True

    def __init__(self, message: str, attempts: Sequence[tuple[str, Exception]] = ()) -> None:
        super().__init__(message)
        self.attempts = tuple(attempts)

    @property
    def code(self) -> int | None:
        """The broker's code, when the last attempt was refused by one."""
        last = self.attempts[-1][1] if self.attempts else None
        return last.code if isinstance(last, BrokerRefused) else None


class BrokerRefused(ClientError):
    """A broker or nameserver answered a request with an error: its code and its remark."""

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
    """A broker has too much to do now. Succeeds once it has caught up."""

    retriable = True


class AlreadyExists(ClientError):
    """A topic or group that was to be created exists already, and is set up otherwise.

    The text names the difference. Nothing was changed.
    """


class NoSuchGroup(ClientError):
    """No broker that was asked knows the consumer group."""

    fault = Fault.OPERATOR


class ShrinkRefused(ClientError):
    """A topic would lose queues to read, and nobody could get at their messages any more.

    `counts` has the number of messages by `MessageQueue`. Nothing was changed.
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
    """A message that no broker would take: its topic, its body or its properties are wrong."""


class NoReply(ClientError):
    """A request was sent, but its reply did not come in time."""

    fault = Fault.PEER
    retriable = True


class ClientClosed(ClientError):
    """The client was not started yet, or is closed already."""


class ConfigError(OrbitError):
    """Settings that nothing can be started with."""

    fault = Fault.OPERATOR


class MalformedProperties(ConfigError):
    """A text that Java would not read as properties either: a ``\\u`` without its four digits."""


class BadPipeline(ConfigError):
    """A pipeline that cannot be started; `mistakes` has one line for each reason."""

    def __init__(self, mistakes: Sequence[str]) -> None:
        super().__init__("\n".join(mistakes))
        self.mistakes = tuple(mistakes)


class UnreadableFile(ConfigError):
    """A file has content that cannot be understood, and so has its ``.bak``, if there is one."""


class StoreError(OrbitError):
    """Something about a store directory; `path` and `offset` say where, as far as they apply.

    `appended` is what the failed `append_many` had put into the store before the error.
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
    """The path is not that of a store; it was left as it is. Check it, or ask to create one."""

    fault = Fault.OPERATOR


class StoreLocked(StoreError):
    """Another process has the store open. Succeeds once that process lets go."""

    fault = Fault.OPERATOR
    retriable = True


class StoreClosed(StoreError):
    """The handle was closed before this call."""

    fault = Fault.CALLER


class InvalidOptions(StoreError):
    """Sizes or intervals that no store could work with."""

    fault = Fault.CALLER


class InvalidMessage(StoreError):
    """A message the record layout has no room for: a topic or properties that are too long."""

    fault = Fault.CALLER


class BatchNotTaken(StoreError):
    """A batch of an exactly-once sender that is over, or whose ids are more than can be kept."""


class RecordTooLarge(StoreError):
    """A message is larger than this store takes."""

    fault = Fault.CALLER


class DiskFull(StoreError):
    """The file system has no room for the next file. Succeeds once there is room."""

    fault = Fault.OPERATOR
    retriable = True


class ReadOnlyStore(StoreError):
    """The directory, or a file in it, cannot be written."""

    fault = Fault.OPERATOR


class WrongFileSize(StoreError):
    """A file of the store is not of the size the options say."""

    fault = Fault.OPERATOR


class StrayFile(StoreError):
    """A file that does not belong into the directory it lies in."""

    fault = Fault.OPERATOR


class MissingFile(StoreError):
    """A file is missing between its neighbours, or was cut before the next one begins."""

    fault = Fault.OPERATOR


class FileExpired(StoreError):
    """Retention deleted a log file while it was read. A new scan reads what is still there."""

    fault = Fault.OPERATOR
    retriable = True


class CorruptStore(StoreError):
    """The files contradict each other in a way that recovery cannot explain by a crash."""


class FlushFailed(StoreError):
    """The disk refused a flush: what was written since may be lost, so nothing more is taken.

    The same holds after an append that ended in a `StorePanic`.
    """


class StorePanic(StoreError):
    """The store's own code met a case that it does not provide for, and gave the call up."""


class StoreIOError(StoreError):
    """The operating system refused a read, a write or a mapping."""

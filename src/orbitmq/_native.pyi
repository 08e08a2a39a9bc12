"""The Rust core: RocketMQ's bytes and store files.

Written by hand and compared with the compiled module by stubtest. Times are epoch milliseconds,
hosts are ``(ip, port)``, every error is a class of `orbitmq.errors`.
"""

import os
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, Self, final

from typing_extensions import Buffer, CapsuleType

from orbitmq.errors import WireError
from orbitmq.protocol.bodies import MessageQueue

__all__ = [
    "VERSION",
    "Appended",
    "ArrowBatch",
    "AuditPart",
    "BatchBody",
    "Cleaned",
    "Command",
    "Filter",
    "FrameReader",
    "HeaderReader",
    "LogScan",
    "NewMessage",
    "PackedSend",
    "PanicException",
    "ReadResult",
    "ReceivedMessage",
    "Record",
    "RecordColumns",
    "Recovery",
    "RowPacker",
    "ScanReport",
    "SendRequest",
    "SocketReader",
    "Store",
    "StoreAudit",
    "StoreOptions",
    "StoreSnapshot",
    "StoredIds",
    "UniqueIds",
    "answer_send",
    "body_crc",
    "compress",
    "compression_flags",
    "decode_batch",
    "decode_messages",
    "decode_offset_id",
    "decode_properties",
    "decode_records",
    "decode_send_answer",
    "decode_unique_id",
    "decompress",
    "dumps_lenient",
    "encode_batch",
    "encode_commands",
    "encode_offset_id",
    "encode_properties",
    "encode_record",
    "encode_request",
    "encode_send",
    "encode_unique_id",
    "java_hash",
    "join_batch_properties",
    "loads_lenient",
    "parse_scope",
    "tags_code",
]

VERSION: Final[str]

class PanicException(BaseException):
    """A panic of the native code; see `orbitmq.errors.FAILURES`."""

"""The version of the package."""

# ---- commands ----------------------------------------------------------------------------------

@final
class Command:
    """One request or response: a frame's header and body."""

    def __new__(
        cls,
        code: int,
        *,
        opaque: int = 0,
        flag: int = 0,
        remark: str | None = None,
        ext: dict[str, str] | None = None,
        body: Buffer | None = None,
        language: str = "PYTHON",
        version: int = 407,
        encoding: Literal["json", "binary"] = "json",
    ) -> Self: ...
    @property
    def code(self) -> int:
        """What is asked (request) or how it went (response)."""
    @property
    def opaque(self) -> int:
        """The request's id, repeated by its response."""
    @property
    def flag(self) -> int:
        """Bit 1: a response; bit 2: no response wanted."""
    @property
    def is_response(self) -> bool:
        """Whether this is a response."""
    @property
    def is_oneway(self) -> bool:
        """Whether no response is wanted."""
    @property
    def remark(self) -> str | None:
        """A word to the human reader."""
    @property
    def ext(self) -> dict[str, str] | None:
        """Arguments or results; None when the header had no such map."""
    def get_ext(self, name: str, /) -> str | None:
        """Look up one ext field."""
    @property
    def body(self) -> bytes:
        """The bytes after the header, empty for none."""
    @property
    def size(self) -> int:
        """The bytes that a received command keeps: its body and its ext fields."""
    @property
    def language(self) -> str:
        """The speaker's language by RocketMQ's name for it; OTHER for one it has no name for."""
    @property
    def version(self) -> int:
        """The speaker's version number; 407 is RocketMQ 4.9.7."""
    @property
    def encoding(self) -> Literal["json", "binary"]:
        """How the header is encoded; a response goes out in the encoding of its request."""
    def respond(
        self,
        code: int,
        remark: str | None = None,
        ext: dict[str, str] | None = None,
        body: Buffer | None = None,
    ) -> Command:
        """Make the response to this request: with its opaque and in its encoding."""
    def encode(self) -> bytes:
        """Write the frame.

        Raises `FrameTooLarge` beyond 16 MiB, `MalformedHeader` for a number or a text that the
        binary encoding has no room for.
        """

def encode_request(
    code: int,
    opaque: int,
    ext: dict[str, str] | None,
    body: Buffer | None,
    encoding: Literal["json", "binary"],
    /,
) -> bytes:
    """Write the frame of a request, for those who need no `Command`."""

def encode_send(
    opaque: int,
    group: str,
    topic: str,
    template_topic: str,
    queue_nums: int,
    queue_id: int,
    born_timestamp: int,
    flag: int,
    properties: str,
    unit_mode: bool,
    broker_name: str,
    body: Buffer,
    /,
) -> bytes:
    """Write the frame of a send that is nothing special, with a binary header."""

def decode_send_answer(
    response: Command, /
) -> tuple[str, int | None, int, str | None, str | None, bool]:
    """Return what the answer to a send says.

    The message's offset id, its queue and its place in it, the transaction id, the broker's region,
    and whether traces are wanted.
    """

def encode_commands(commands: Sequence[Command], /) -> list[bytes]:
    """Write the frames of several commands back to back: what leaves in one write.

    In one buffer, unless there are large bodies, which are not copied.
    """

@final
class FrameReader:
    """Cuts a connection's bytes into commands.

    A frame that breaks the rules ends the stream: the commands before it are returned, `failure`
    then holds the error, and every later call raises it. Look at `failure` after each `feed`.
    """

    def __new__(cls, *, max_frame_bytes: int = 16777216) -> Self: ...
    def feed(self, data: Buffer, /) -> list[Command]:
        """Take the next bytes of the stream; return the commands that are whole now."""
    @property
    def failure(self) -> WireError | None:
        """Why the stream ended; its `offset` is where the bad frame begins in the stream."""
    @property
    def pending_bytes(self) -> int:
        """How many bytes wait for the rest of their frame."""

@final
class SocketReader:
    """Receives the commands that arrive on a socket; large bodies are copied once, out of it.

    After a frame that breaks the rules, and after the end of the stream, there is nothing more.
    """

    def __new__(cls) -> Self: ...
    def receive(self, fd: int, timeout_s: float, /) -> list[Command]:
        """Wait until a command is whole, but not longer than so; return those that are.

        Raises `EOFError` when the peer has closed, an `OSError` when the connection has broken,
        and a `WireError` for a frame that breaks the rules, once those before it were returned.
        """

@final
class HeaderReader:
    """Reads the ext fields of commands as typed values, the same ones each time.

    A field is its name, its name on the wire, its kind (``str``, ``bool``, ``int`` of 32 bits or
    ``long`` of 64) and a tuple with its default, empty when it must be there. A bad number in the
    place of a field with a default is as if it were not there, unless the reader is strict.
    """

    def __new__(
        cls,
        fields: Sequence[tuple[str, str, str, tuple[object, ...]]],
        *,
        strict: bool = False,
    ) -> Self: ...
    def read(self, command: Command, /) -> dict[str, Any]:
        """Return all values by name; raises `HeaderFault` for what is missing or no number."""

# ---- JSON --------------------------------------------------------------------------------------

def loads_lenient(data: Buffer, /) -> Any:
    """Read JSON as fastjson writes it: unquoted keys, numbers and objects as keys.

    An object in the place of a key becomes a tuple of ``(name, value)`` pairs sorted by name. Of
    equal keys the last wins. Raises `MalformedJson`.
    """

def dumps_lenient(value: object, /, *, quote_keys: bool = False) -> bytes:
    """Write JSON as fastjson does: compact, keys that are not strings as they are.

    With `quote_keys` such keys are written as strings, which any JSON reader accepts. Takes what
    `loads_lenient` returns.
    """

# ---- hashes ------------------------------------------------------------------------------------

def java_hash(text: str, /) -> int:
    """Java's ``String.hashCode``: over UTF-16 units, wrapping at 32 bits, signed."""

def tags_code(tags: str, /) -> int:
    """Return the number that stands for a TAGS property in the consume queue; 0 for none."""

def body_crc(body: Buffer, /) -> int:
    """Return the checksum a record carries for its body: CRC-32 without its highest bit."""

# ---- properties --------------------------------------------------------------------------------

def decode_properties(text: str, /) -> dict[str, str]:
    """Read a properties string.

    Of two entries with one name the later wins; entries that Java readers skip (no separator, an
    empty name or value) are skipped.
    """

def encode_properties(properties: dict[str, str], /) -> str:
    """Write a properties string, in the dict's order.

    Raises `ValueError` for what would not read back: an empty name or value, the character 2 in
    either, the character 1 in a name. What `decode_properties` returns can always be written again.
    """

# ---- filters -----------------------------------------------------------------------------------

@final
class Filter:
    """An SQL92 selector over properties: compiled once, then asked about each message. ::

    Filter("price BETWEEN 10 AND 20 AND city IN ('Oslo', 'Rome')")

    Raises `MalformedFilter` for a text that Java's broker would not take either, and
    `FilterTooLarge` for one beyond the limits of bytes, words or levels.
    """

    MAX_TEXT_BYTES: Final = 65536
    """The longest expression."""

    def __new__(cls, expression: str, /) -> Self: ...
    @staticmethod
    def of_retries(by_topic: dict[str, Filter], /) -> Filter:
        """Make a filter for messages that come back: each is asked of the topic it came from."""
    def matches(self, properties: str, /) -> bool:
        """Whether a message with this properties string is wanted."""
    def verdict(self, properties: str, /) -> Literal["TRUE", "FALSE", "UNKNOWN", "ERROR"]:
        """Say what the selector says of a properties string; only TRUE is a match."""

# ---- records -----------------------------------------------------------------------------------

@final
class Record:
    """A message as it stands in the commit log and in the body of a pull response.

    A view: it keeps the bytes it was decoded from alive and cuts strings and body out of them when
    asked. Two records are equal when their bytes are.
    """

    @property
    def topic(self) -> str:
        """The topic it was stored under."""
    @property
    def queue_id(self) -> int:
        """The queue of that topic."""
    @property
    def queue_offset(self) -> int:
        """Its place in the queue."""
    @property
    def physical_offset(self) -> int:
        """Where the record begins in the commit log."""
    @property
    def flag(self) -> int:
        """A number of the producer's own."""
    @property
    def sys_flag(self) -> int:
        """Bits of RocketMQ: compression, transaction state, address families."""
    @property
    def born_timestamp(self) -> int:
        """When the producer made it."""
    @property
    def born_host(self) -> tuple[str, int]:
        """The producer's address as the broker saw it."""
    @property
    def store_timestamp(self) -> int:
        """When the broker stored it."""
    @property
    def store_host(self) -> tuple[str, int]:
        """The broker's own address."""
    @property
    def reconsume_times(self) -> int:
        """How often it was sent back for another try."""
    @property
    def prepared_transaction_offset(self) -> int:
        """Physical offset of the half message a committed message came from, else 0."""
    @property
    def body(self) -> bytes:
        """The body as its producer wrote it, inflated if `sys_flag` says it is compressed.

        Raises `MalformedBody` for one that does not inflate, or not within 16 MiB.
        """
    @property
    def stored_body(self) -> bytes:
        """The body as it was stored, which may be compressed."""
    @property
    def properties(self) -> dict[str, str]:
        """All properties, in a new dict."""
    @property
    def properties_text(self) -> str:
        """The properties string as it was stored."""
    def get_property(self, name: str, /) -> str | None:
        """Look up one property without making a dict of all of them."""
    @property
    def tags(self) -> str | None:
        """The TAGS property."""
    @property
    def keys(self) -> tuple[str, ...]:
        """The KEYS property, split."""
    @property
    def offset_id(self) -> str:
        """The id that says where it is stored."""
    @property
    def encoded(self) -> bytes:
        """The whole record."""
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __hash__(self, /) -> int: ...

def decode_records(data: Buffer, /, *, check_crc: bool = True) -> list[Record]:
    """Read the records of a pull, query or view body: back to back, nothing between them.

    Raises `MalformedRecord`, whose `offset` is where the bad one begins in `data`.
    """

def encode_record(
    topic: str,
    body: Buffer,
    *,
    queue_id: int = 0,
    queue_offset: int = 0,
    physical_offset: int = 0,
    flag: int = 0,
    sys_flag: int = 0,
    born_timestamp: int = 0,
    born_host: tuple[str, int] | None = None,
    store_timestamp: int = 0,
    store_host: tuple[str, int] | None = None,
    reconsume_times: int = 0,
    prepared_transaction_offset: int = 0,
    properties: dict[str, str] | str | None = None,
) -> bytes:
    """Write one record; its checksum and its address-family bits are set here.

    Raises `MalformedRecord` when topic (127 bytes), properties (32767 bytes) or the whole do not
    fit their length fields.
    """

# ---- columns -----------------------------------------------------------------------------------

@final
class ArrowBatch:
    """A record batch that Arrow libraries take over as it is: ``pyarrow.record_batch(it)``."""

    @property
    def num_rows(self) -> int:
        """How many messages it holds."""
    def __arrow_c_schema__(self) -> CapsuleType:
        """Return the schema, as the Arrow PyCapsule interface has it."""
    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[CapsuleType, CapsuleType]:
        """Return schema and columns, as the Arrow PyCapsule interface has them."""

@final
class RecordColumns:
    """Builds record batches of message records.

    Columns are named; without names there are all of them. A batch ends at `max_rows` rows or at
    about `max_bytes` bytes, whichever comes first, but has at least one row. With
    `keep_damaged` bodies that cannot be read are no error: they stay as they are stored, and
    `take_damages` tells of them.
    """

    def __new__(
        cls,
        columns: Sequence[str] | None = None,
        /,
        *,
        max_rows: int = 16384,
        max_bytes: int = 33554432,
        keep_damaged: bool = False,
    ) -> Self: ...
    def append(
        self,
        data: Buffer,
        at: int = 0,
        /,
        *,
        broker_name: str | None = None,
        topic: str | None = None,
        from_offset: int = 0,
        to_offset: int = 9223372036854775807,
        tags: Sequence[str] | None = None,
        verify_crc: bool = True,
    ) -> int:
        """Add the records in `data` from byte `at` on, and return where it stopped.

        That is the end; or, when the batch is full, the record to go on with after `finish`. Only
        messages with queue offsets from `from_offset` up to before `to_offset` are added, and of
        those, with `tags`, only the ones that carry one of them. Bodies are decompressed; one that
        cannot be, or that has another checksum, is a `MalformedBody` that names its message. The
        column of the topic says `topic`; without one, what the record says.
        """
    @property
    def num_rows(self) -> int:
        """Rows since the last batch."""
    @property
    def num_bytes(self) -> int:
        """Bytes they take, about."""
    @property
    def num_records(self) -> int:
        """Records that `append` has ever looked at, added or not."""
    def take_damages(self) -> tuple[int, list[str]]:
        """Return how many bodies were kept damaged since the last call, and the first by name."""
    @property
    def is_full(self) -> bool:
        """Whether the batch has reached one of its bounds."""
    def finish(self) -> ArrowBatch:
        """Return the batch of the rows so far; the next one begins empty."""

# ---- received messages -------------------------------------------------------------------------

@final
class ReceivedMessage:
    """A message as a consumer sees it.

    A view: it keeps the bytes of the pull it came with alive, and cuts out of them what is asked
    for. ::

        def handle(message: ReceivedMessage) -> None:
            print(message.topic, message.tags, message.body.decode(), message.get_property("shop"))
    """

    @property
    def topic(self) -> str:
        """The topic it was sent to, also when it comes back for another try."""
    @property
    def stored_topic(self) -> str:
        """The topic it was stored under: that of the group's retries for one that comes back."""
    @property
    def queue(self) -> MessageQueue:
        """The queue it was pulled from."""
    @property
    def queue_id(self) -> int:
        """The number of that queue."""
    @property
    def queue_offset(self) -> int:
        """Its place in that queue."""
    @property
    def min_offset(self) -> int:
        """The queue's first place when the message was pulled."""
    @property
    def max_offset(self) -> int:
        """The place behind the queue's last message when this one was pulled."""
    @property
    def body(self) -> bytes:
        """The body as its producer wrote it, inflated if it was compressed.

        Raises `MalformedBody` for one that does not inflate, or not within 16 MiB.
        """
    @property
    def stored_body(self) -> bytes:
        """The body as it was stored, which may be compressed."""
    @property
    def tags(self) -> str | None:
        """The tag, None for none."""
    @property
    def keys(self) -> tuple[str, ...]:
        """The keys it can be found by."""
    @property
    def properties(self) -> dict[str, str]:
        """All properties, in a new dict."""
    def get_property(self, name: str, /) -> str | None:
        """Look up one property without making a dict of all of them."""
    @property
    def message_id(self) -> str:
        """The id its producer gave it, else the `offset_id`."""
    @property
    def offset_id(self) -> str:
        """The id that says where it is stored."""
    @property
    def transaction_id(self) -> str | None:
        """The id of the transaction it was sent in, None for none."""
    @property
    def reconsume_times(self) -> int:
        """How often it was tried before."""
    @property
    def born_timestamp(self) -> int:
        """When the producer made it."""
    @property
    def born_host(self) -> tuple[str, int]:
        """The producer's address as the broker saw it."""
    @property
    def store_timestamp(self) -> int:
        """When the broker stored it."""
    @property
    def store_host(self) -> tuple[str, int]:
        """The broker's own address."""
    @property
    def physical_offset(self) -> int:
        """Where it begins in the broker's commit log."""
    @property
    def flag(self) -> int:
        """A number of the producer's own."""
    @property
    def sys_flag(self) -> int:
        """Bits of RocketMQ: compression, transaction state, address families."""
    @property
    def prepared_transaction_offset(self) -> int:
        """Physical offset of the half message a committed message came from, else 0."""
    @property
    def stored_size(self) -> int:
        """How many bytes it takes, all included."""
    def with_reconsume_times(self, times: int, /) -> ReceivedMessage:
        """Return the same message with another count of tries."""

def decode_messages(
    data: Buffer,
    queue: MessageQueue,
    /,
    *,
    topic: str | None = None,
    namespace: str = "",
    tags: Sequence[str] | None = None,
    after: int | None = None,
    min_offset: int = 0,
    max_offset: int = 0,
) -> list[ReceivedMessage]:
    """Read the body of a pull response.

    With `tags` only messages of one of them are returned; those up to the offset `after` never are.
    `topic` is what the messages show as theirs; without it each looks it up, as those of a retry
    queue must, and takes the namespace off. Text that is not UTF-8 is shown with replacement
    characters. Raises `MalformedRecord`, whose `offset` is where the bad one begins in `data`.
    """

# ---- batches -----------------------------------------------------------------------------------

def encode_batch(messages: Sequence[tuple[int, Buffer, dict[str, str] | str]], /) -> bytes:
    """Write the body of a batch: flag, body and properties of each message."""

@final
class BatchBody:
    """The body of a batch that grows message by message, each with an id of its own."""

    def __new__(cls) -> Self: ...
    def add(
        self,
        ids: UniqueIds,
        month_ms: int,
        flag: int,
        body: Buffer,
        wait_store_ok: bool,
        more: str,
        /,
    ) -> int:
        """Append a message under the next of the ids; returns how many there are now.

        `more` are its other properties, each with a separator before it.
        """

    @property
    def ids(self) -> str:
        """The ids of all messages, with commas between them."""

    def __len__(self) -> int: ...
    def __bytes__(self) -> bytes: ...

def decode_batch(data: Buffer, /) -> list[tuple[int, bytes, str]]:
    """Read a batch: flag, body and properties string of each message.

    Raises `MalformedBatch`, whose `offset` is where the bad message begins in `data`.
    """

def join_batch_properties(own: str, of_batch: str, /) -> str:
    """Return the properties string a batched message is stored with: its own, then the batch's."""

# ---- rows --------------------------------------------------------------------------------------

@final
class PackedSend:
    """A request's worth of messages made of rows: a batch of them, or one."""

    @property
    def topic(self) -> str:
        """The topic of all of them."""
    @property
    def broker_name(self) -> str | None:
        """The broker they must go to, if the rows say so."""
    @property
    def queue_id(self) -> int | None:
        """The queue they must go to, if the rows say so."""
    @property
    def slot(self) -> int | None:
        """The index of that queue among the topic's, if a sharding key has chosen it."""
    @property
    def body(self) -> bytes:
        """A batch body, or the body of the only message."""
    @property
    def properties(self) -> str | None:
        """The properties of the only message; None for a batch, which has them in its body."""
    @property
    def rows(self) -> int:
        """How many messages they are."""

@final
class RowPacker:
    """Packs the rows of Arrow batches into sends, with no object per row.

    Columns: ``body`` binary; ``topic``, ``tags``, ``shardingKey``, ``brokerName`` string; ``keys``
    list of strings; ``properties`` map of strings; ``queueId``, ``delayLevel`` int32; ``deliverAt``
    int64 (ms). Batches are anything with the Arrow PyCapsule interface. With `id_prefix` (10 bytes
    that no other packer has) every message gets a new id, with `scope` one that the same row gets
    again, whatever order the rows come in. Every method raises `BadMessage` for a row that cannot
    be sent.
    """

    def __new__(
        cls,
        *,
        topic: str | None = None,
        batch_bytes: int,
        body_bytes: int,
        waiting_bytes: int,
        left_out: AbstractSet[str],
        id_prefix: bytes | None = None,
        scope: str | None = None,
    ) -> Self: ...
    def topics(self, batch: object) -> list[str]:
        """Return the topics of a batch's rows, each once."""
    def push(
        self, batch: object, *, queue_counts: dict[str, list[int]], month_ms: int
    ) -> list[PackedSend]:
        """Pack a batch's rows; returns what is full.

        `queue_counts` says among how many queues of a topic sharding keys choose, one number for
        each broker: a key chooses the broker first, then one of its queues. A slot counts over the
        queues of all brokers. `month_ms` is the time for new ids, in milliseconds since the month
        began.
        """
    def finish(self) -> list[PackedSend]:
        """Return everything that waits for more rows."""

# ---- ids ---------------------------------------------------------------------------------------

def encode_offset_id(store_host: tuple[str, int], physical_offset: int, /) -> str:
    """Return the id of the message at a broker's physical offset."""

def decode_offset_id(text: str, /) -> tuple[tuple[str, int], int]:
    """Return the broker and the physical offset of an id. Raises `MalformedId`."""

def encode_unique_id(
    ip: str, pid: int, class_loader_hash: int, month_ms: int, counter: int, /
) -> str:
    """Return the id a producer gives a message.

    `pid` and `counter` have 16 bits; `month_ms` counts from the beginning of the month.
    """

@final
class UniqueIds:
    """The ids of one producer, one after the other, behind a prefix that is the same for all."""

    def __new__(cls, prefix: str, /) -> Self: ...
    def next(self, month_ms: int, /) -> str:
        """Return the next id of all; `month_ms` are the milliseconds since the month began."""

def decode_unique_id(text: str, /) -> tuple[str, int, int, int, int]:
    """Return what `encode_unique_id` made an id of. Raises `MalformedId`."""

# ---- compressed bodies -------------------------------------------------------------------------

def compress(body: Buffer, codec: Literal["zlib", "lz4", "zstd"], /, *, level: int = 5) -> bytes:
    """Compress a body. `level` goes from 0 to 9 and means nothing to LZ4."""

def decompress(
    body: Buffer, codec: Literal["zlib", "lz4", "zstd"], /, *, max_bytes: int = 16777216
) -> bytes:
    """Inflate a body. Raises `MalformedBody` when it is broken or longer than `max_bytes`."""

def compression_flags(codec: Literal["zlib", "lz4", "zstd"], /) -> int:
    """Return the sysFlag bits of a body compressed with a codec."""

# ---- store -------------------------------------------------------------------------------------

@final
class StoreOptions:
    """How a store is laid out and how eagerly it writes; what is left out is as RocketMQ has it.

    The sizes must be those the directory was written with.
    """

    def __new__(
        cls,
        *,
        commit_log_file_size: int | None = None,
        consume_queue_file_size: int | None = None,
        index_enabled: bool | None = None,
        index_slots: int | None = None,
        index_entries: int | None = None,
        flush: Literal["async", "sync"] | None = None,
        flush_interval_ms: int | None = None,
        flush_least_pages: int | None = None,
        flush_thorough_interval_ms: int | None = None,
        queue_flush_interval_ms: int | None = None,
        queue_flush_least_pages: int | None = None,
        checkpoint_interval_ms: int | None = None,
        max_body_bytes: int | None = None,
        check_crc_on_recover: bool | None = None,
        delay_levels_ms: Sequence[int] | None = None,
        populate_ahead_bytes: int | None = None,
    ) -> Self: ...
    @property
    def commit_log_file_size(self) -> int:
        """Size of one log file; 1 GiB."""
    @property
    def consume_queue_file_size(self) -> int:
        """Size of one queue file, rounded up to whole entries of 20 bytes; 6 000 000."""
    @property
    def index_enabled(self) -> bool:
        """Whether keys are indexed; True."""
    @property
    def index_slots(self) -> int:
        """Hash slots of one index file; 5 000 000."""
    @property
    def index_entries(self) -> int:
        """Entries of one index file; 20 000 000."""
    @property
    def flush(self) -> Literal["async", "sync"]:
        """Whether appends ask for a flush at once (sync) or leave it to the interval; async."""
    @property
    def flush_interval_ms(self) -> int:
        """How often the log is flushed; 500."""
    @property
    def flush_least_pages(self) -> int:
        """How many pages must be dirty for that; 4."""
    @property
    def flush_thorough_interval_ms(self) -> int:
        """How often the log is flushed however few pages are dirty; 10 000."""
    @property
    def queue_flush_interval_ms(self) -> int:
        """How often queues are flushed; 1000."""
    @property
    def queue_flush_least_pages(self) -> int:
        """How many pages of a queue must be dirty for that; 2."""
    @property
    def checkpoint_interval_ms(self) -> int:
        """How often queues and index are flushed thoroughly and the checkpoint written; 60 000."""
    @property
    def max_body_bytes(self) -> int:
        """The largest body; 4 MiB."""
    @property
    def check_crc_on_recover(self) -> bool:
        """Whether recovery compares bodies with their checksums; True."""
    @property
    def delay_levels_ms(self) -> list[int]:
        """Delay of level 1, 2, …; gives scheduled messages their time."""
    @property
    def populate_ahead_bytes(self) -> int:
        """How far ahead of the writer the log's pages are made ready; 16 MiB."""

@final
class NewMessage:
    """A message to append. Offsets and store time are the store's to give.

    Where it goes, its bits and its properties can be changed until it is appended.
    `properties` is a dict, or a string already in the stored form. A host left out is
    ``("0.0.0.0", 0)``.
    """

    def __new__(
        cls,
        topic: str,
        body: Buffer,
        *,
        queue_id: int = 0,
        flag: int = 0,
        sys_flag: int = 0,
        born_timestamp: int = 0,
        born_host: tuple[str, int] | None = None,
        store_host: tuple[str, int] | None = None,
        reconsume_times: int = 0,
        prepared_transaction_offset: int = 0,
        properties: dict[str, str] | str | None = None,
    ) -> Self: ...
    @property
    def topic(self) -> str:
        """The topic."""
    @topic.setter
    def topic(self, value: str) -> None:
        """Change it."""
    @property
    def body(self) -> bytes:
        """The body as it will be stored; `sys_flag` says whether it is compressed."""
    @property
    def queue_id(self) -> int:
        """The queue of the topic."""
    @queue_id.setter
    def queue_id(self, value: int) -> None:
        """Change it."""
    @property
    def flag(self) -> int:
        """A number of the producer's own."""
    @property
    def sys_flag(self) -> int:
        """Bits of RocketMQ; those of the address families are set by the store."""
    @sys_flag.setter
    def sys_flag(self, value: int) -> None:
        """Change it."""
    @property
    def born_timestamp(self) -> int:
        """When the producer made it."""
    @property
    def born_host(self) -> tuple[str, int]:
        """The producer's address as the broker saw it."""
    @property
    def store_host(self) -> tuple[str, int]:
        """The broker's own address."""
    @property
    def reconsume_times(self) -> int:
        """How often it was sent back for another try."""
    @property
    def prepared_transaction_offset(self) -> int:
        """Physical offset of the half message a committed message came from, else 0."""
    @property
    def properties(self) -> dict[str, str]:
        """All properties, in a new dict."""
    @property
    def properties_text(self) -> str:
        """The properties string as it will be stored."""
    def get_property(self, name: str, /) -> str | None:
        """Look up one property."""
    def split(self) -> list[NewMessage]:
        """Return the messages of the batch that the body is, to be stored one by one.

        Each has its own properties followed by those of the batch, so that the batch's count; they
        are kept as they are, equal names and all. Raises `MalformedBatch`.
        """
    def set_property(self, name: str, value: str | None, /) -> None:
        """Set a property, or take it away with None.

        What readers skip or a later entry overrules leaves the string with it. A string of more
        than twice what a record holds stays as it is; the store refuses it. Raises `ValueError`
        for what would not read back.
        """

@final
class SendRequest:
    """What a producer says of a message: the header of a send, in either of its spellings.

    Raises `HeaderFault` for what is missing or no number.
    """

    def __new__(cls, command: Command, /) -> Self: ...
    @property
    def producer_group(self) -> str:
        """The group of the producer."""
    @property
    def topic(self) -> str:
        """Where the message is to go."""
    @property
    def default_topic(self) -> str:
        """The topic whose settings a new topic gets."""
    @property
    def default_topic_queue_nums(self) -> int:
        """How many queues a new topic gets."""
    @property
    def queue_id(self) -> int:
        """The queue the producer chose; negative when the broker is to choose."""
    @property
    def sys_flag(self) -> int:
        """The message's own flags: compression, transaction …"""
    @property
    def reconsume_times(self) -> int:
        """How often the message has been consumed in vain."""
    @property
    def max_reconsume_times(self) -> int | None:
        """How often it may be, if its consumer says so."""
    @property
    def unit_mode(self) -> bool:
        """Whether the topic belongs to a unit."""
    @property
    def is_batch(self) -> bool:
        """Whether the body is a batch of messages."""
    @property
    def is_plain(self) -> bool:
        """Whether the message is just to be stored: one message, with no property that asks for
        more (a delay, a transaction …), and not for a retry topic."""
    @property
    def waits(self) -> bool:
        """Whether the producer wants to know that the message is safe."""
    def message(
        self,
        queue_id: int,
        sys_flag: int,
        born_host: tuple[str, int],
        store_host: tuple[str, int],
        cluster: str,
        /,
    ) -> NewMessage:
        """Make the message, with the cluster's name as a property.

        What the producer waits for is between it and the broker: a plain message forgets it.
        """

@final
class Appended:
    """Where a message was put."""

    @property
    def physical_offset(self) -> int:
        """Where its record begins in the commit log."""
    @property
    def size(self) -> int:
        """How long the record is."""
    @property
    def queue_offset(self) -> int:
        """Its place in its queue."""
    @property
    def end(self) -> int:
        """Where its record ends: it is on disk once `Store.flushed_offset` has reached this."""
    __hash__: ClassVar[None]  # type: ignore[assignment]
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...

def answer_send(
    request: Command,
    code: int,
    store_host: tuple[str, int],
    region: str,
    trace_on: bool,
    queue_id: int,
    appended: Sequence[Appended],
    /,
) -> Command:
    """Make the answer to a send: where its messages were put."""

@final
class ReadResult:
    """What a read of a queue found, and where to go on."""

    @property
    def status(
        self,
    ) -> Literal[
        "FOUND",
        "NO_MESSAGE_IN_QUEUE",
        "OFFSET_TOO_SMALL",
        "OFFSET_OVERFLOW_ONE",
        "OFFSET_OVERFLOW_BADLY",
        "OFFSET_FOUND_NULL",
        "NO_MATCHED_MESSAGE",
        "MESSAGE_WAS_REMOVING",
        "NOT_RESIDENT",
    ]:
        """RocketMQ's name for the outcome."""
    @property
    def next_offset(self) -> int:
        """The queue offset to read from next."""
    @property
    def min_offset(self) -> int:
        """The oldest offset of the queue."""
    @property
    def max_offset(self) -> int:
        """The offset the queue's next message will get."""
    @property
    def behind_bytes(self) -> int:
        """How far the last message looked at lies behind the end of the log."""
    @property
    def last_store_timestamp(self) -> int:
        """The time the last record of `data` was stored, in milliseconds; 0 without records."""
    @property
    def count(self) -> int:
        """How many records `data` holds."""
    @property
    def data(self) -> bytes:
        """The records back to back, as a pull response carries them."""
    def records(self) -> list[Record]:
        """Decode `data`."""
    def answer(self, request: Command, code: int, suggested_broker_id: int, /) -> Command:
        """Make the answer to the pull that this is the result of, with `data` if it succeeded."""

@final
class Recovery:
    """What opening a store had to do."""

    @property
    def clean_exit(self) -> bool:
        """Whether the last user of the directory closed it."""
    @property
    def log_end(self) -> int:
        """The physical offset the log was found to end at."""
    @property
    def scanned_from(self) -> int:
        """The physical offset that reading the log began at."""
    @property
    def rebuilt(self) -> int:
        """How many messages were put into queues and index again."""
    @property
    def elapsed_ms(self) -> int:
        """How long it took."""
    @property
    def notes(self) -> list[str]:
        """Things an operator should know of."""

@final
class Cleaned:
    """What a round of cleaning did."""

    @property
    def log_files(self) -> int:
        """Log files deleted."""
    @property
    def queue_files(self) -> int:
        """Queue files deleted."""
    @property
    def index_files(self) -> int:
        """Index files deleted."""
    @property
    def used_ratio(self) -> float:
        """How full the disk was before the round, from 0 to 1."""

@final
class StoredIds:
    """Which messages of exactly-once senders are in the log: those of each one's newest batch.

    Ids are 32 hex digits. A sender numbers its batches, and begins one when all of the one before
    is stored. It belongs to an account (empty without access control) and to a topic.
    """

    def __new__(cls) -> Self: ...
    def stored(
        self,
        sender: str,
        batch: int,
        ids: Sequence[str],
        /,
        *,
        limit: int,
        topic: str = "",
        account: str = "",
    ) -> list[bool]:
        """Return which of these ids are stored already; nothing is noted.

        Raises `BatchNotTaken` for a batch that is over, or when more than `limit` ids would have to
        be kept for the account, and `MalformedId`.
        """
    def add(
        self,
        sender: str,
        batch: int,
        ids: Sequence[str],
        /,
        *,
        now_ms: int,
        topic: str = "",
        account: str = "",
    ) -> None:
        """Note ids that are in the log now."""
    def end(self, sender: str, batch: int, /, *, topic: str = "", account: str = "") -> int:
        """Let go of the ids of a batch that nobody will send again; returns how many that were.

        Whoever sends it all the same is refused, as if the next batch had begun.
        """
    def forget_before(self, time_ms: int, /) -> int:
        """Forget senders that have sent nothing since; returns how many ids that were."""
    def snapshot(self, physical_offset: int, /) -> bytes:
        """Return everything, as of a physical offset of the log, for `Store.stored_ids`."""
    def __len__(self) -> int: ...

def parse_scope(text: str, /) -> tuple[str, int] | None:
    """Return sender and batch of a scope, ``sender/7``; None if it is none."""

@final
class Store:
    """A store directory in RocketMQ's layout, opened by one process, for bulk verbs.

    A context manager: leaving the block closes it. A store that is not closed is left as by a
    crash: nothing acknowledged is lost, the next opening recovers. Every method may be called from
    any thread; every method but `close` raises `StoreClosed` after it.
    """

    @staticmethod
    def open(
        path: str | os.PathLike[str],
        options: StoreOptions | None = None,
        *,
        create: bool = False,
    ) -> Store:
        """Open a store and recover what its last user left; with `create` it is made if need be.

        Raises `NoStore` for a directory that is none, which is left as it is; `StoreLocked` while
        another process has it open; `WrongFileSize`, `StrayFile` or `MissingFile` for files that do
        not belong together; `ReadOnlyStore` and `DiskFull` for what they say.
        """
    @property
    def path(self) -> Path:
        """The directory."""
    @property
    def recovery(self) -> Recovery:
        """What opening it had to do."""
    def limit_bodies(self, max_bytes: int, /) -> None:
        """Take bodies of so many bytes from now on; larger ones are refused."""
    def append(self, message: NewMessage, *, now_ms: int | None = None) -> Appended:
        """Append one message; readable when this returns, on disk once flushed."""
    def append_many(
        self,
        messages: Sequence[NewMessage],
        *,
        now_ms: int | None = None,
        atomic: bool = False,
    ) -> list[Appended]:
        """Append messages in order; readable when this returns, on disk once flushed.

        `atomic` puts all of them side by side into one file, or none. Otherwise an error leaves
        those before it in the store: its `appended` says where. `now_ms` is the store time, by
        default the clock's.
        """
    def read(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        *,
        max_messages: int = 32,
        max_bytes: int = 262144,
        tag_codes: Sequence[int] | None = None,
        filter: Filter | None = None,
        memory_bytes: int | None = None,
        max_messages_on_disk: int = 8,
        max_bytes_on_disk: int = 65536,
        resident_beyond: int | None = None,
    ) -> ReadResult:
        """Read a queue from an offset on.

        The first message is given however large it is; a read ends with its queue file, so go on
        at `next_offset` until the status says that the end was reached. With `tag_codes` only
        messages of these tags codes count, with `filter` only those it matches. Messages more than
        `memory_bytes` behind the end of the log are under the limits for the disk. With
        `resident_beyond` a read that would wait for the disk ends with the status NOT_RESIDENT
        instead; messages within so many bytes of the log's end are taken to be in memory.
        """
    def record_at(self, physical_offset: int, /) -> bytes | None:
        """Return the record that begins there, None if none does."""
    def stored_ids(self, snapshot: Buffer | None = None) -> StoredIds:
        """Return the ids of exactly-once senders: a snapshot's, and those of the log behind it.

        Without one, or when it does not fit the log, those of the whole log. Raises `WireError` for
        bytes that are no snapshot.
        """
    def query(
        self,
        topic: str,
        key: str,
        *,
        max_messages: int = 64,
        begin_ms: int = 0,
        end_ms: int = 9223372036854775807,
    ) -> list[bytes]:
        """Return the records indexed under a key, oldest first, at most 64 of the newest.

        The index knows keys by their hash: compare `Record.keys` to be sure.
        """
    def offset_by_time(self, topic: str, queue_id: int, timestamp_ms: int, /) -> int:
        """Return the queue offset of the message stored nearest to a time, 0 for an empty queue."""
    def earliest_store_time(self, topic: str, queue_id: int, /) -> int | None:
        """Return when the oldest message of a queue was stored."""
    def min_offset(self, topic: str, queue_id: int, /) -> int:
        """Return the oldest offset of a queue, 0 if there is no such queue."""
    def max_offset(self, topic: str, queue_id: int, /) -> int:
        """Return the offset the next message of a queue will get."""
    def unit_at(
        self, topic: str, queue_id: int, queue_offset: int, /
    ) -> tuple[int, int, int] | None:
        """Return a consume queue's entry: physical offset, size, tags code."""
    def queues(self) -> list[tuple[str, int]]:
        """Return every queue that has had a message, sorted."""
    def remove_topic(self, topic: str, /) -> int:
        """Delete the queues of a topic; returns how many.

        Its messages stay in the log until that expires, but are in no queue.
        """
    def remove_expired_queues(self, *, kept_topic: str = "") -> int:
        """Delete the queues all of whose messages have left the log; returns how many."""
    @property
    def index_last_update(self) -> tuple[int, int]:
        """Store time and physical offset of the newest message in the index."""
    @property
    def min_physical_offset(self) -> int:
        """First offset of the log, -1 while it has no file."""
    @property
    def max_physical_offset(self) -> int:
        """End of the log."""
    @property
    def flushed_offset(self) -> int:
        """Everything below is on disk."""
    def wait_flushed(self, offset: int, timeout_ms: int, /) -> bool:
        """Wait until everything below `offset` is on disk; False when the time is over.

        Raises `FlushFailed` when the disk refused.
        """
    def flushed_event(self) -> int:
        """Return an eventfd that becomes readable whenever `flushed_offset` rises.

        A new descriptor for the caller to watch, to read and to close. It outlives the store and
        is readable once more when the store is closed.
        """
    def clean(
        self,
        *,
        now_ms: int | None = None,
        due: bool = False,
        used_ratio: float | None = None,
        reserved_ms: int = 259200000,
        max_used_ratio: float = 0.75,
        force_ratio: float = 0.85,
        warn_ratio: float = 0.9,
        max_log_files: int = 10,
    ) -> Cleaned:
        """Delete what has expired, oldest first; the log file being written always stays.

        Files older than `reserved_ms` go when cleaning is `due` or the disk is fuller than
        `max_used_ratio`; above `force_ratio` the oldest go whatever their age; above `warn_ratio`
        appends raise `DiskFull` until a later round finds room. `used_ratio` overrides what the
        file system says.
        """
    def close(self) -> None:
        """Bring everything to disk and let the directory go. Closing twice is fine."""
    def __enter__(self) -> Self: ...
    def __exit__(self, *_details: object) -> None: ...

# ---- a store directory without owning it -------------------------------------------------------

_LogFile = tuple[Path, int, int]
_Range = tuple[int, int, bool]
_Topics = dict[str, dict[int, tuple[int, int]] | None]
_Damage = tuple[str, int, int, str, str | None, int | None, int | None]
"""Kind (damage, gap or expired), offset in the log, length, reason; topic, queue, queue offset."""

@final
class StoreSnapshot:
    """What a store directory holds at one moment: ours or Java's, at rest, in use, or a copy.

    No lock is taken and nothing is written. `commit_log_paths` are the directories of a log that
    lies elsewhere or is spread over several; without any it is ``commitlog``, or `path` itself.
    """

    def __new__(
        cls,
        path: str | os.PathLike[str],
        /,
        *,
        commit_log_paths: Sequence[str | os.PathLike[str]] = ...,
    ) -> Self: ...
    @property
    def log_files(self) -> list[_LogFile]:
        """Path, first offset and length of each log file, oldest first."""
    @property
    def log_start(self) -> int:
        """The first offset that is still in the log."""
    @property
    def log_end(self) -> int:
        """The end of the last whole record."""
    @property
    def dispatched_end(self) -> int | None:
        """The end of the last message that a queue points to."""
    @property
    def tail(self) -> tuple[int, str] | None:
        """How many bytes of a torn record follow the end, and what is wrong with it."""
    @property
    def gaps(self) -> list[tuple[int, int]]:
        """Where log files are missing between others, or the ends of some."""
    @property
    def topics(self) -> list[str]:
        """The topics that have queues."""
    def queues(self) -> list[tuple[str, int, int, int]]:
        """Return every queue: topic, id, first and next queue offset."""
    def whole(self) -> list[_Range]:
        """Return the whole log: first byte, end, whether a record begins at the first byte.

        A gap is a range of its first byte.
        """
    def ranges(
        self,
        *,
        topics: _Topics | None = None,
        start_ms: int | None = None,
        end_ms: int | None = None,
        keys: Sequence[str] | None = None,
    ) -> list[_Range]:
        """Return the ranges of the log that can hold what is wanted.

        `topics` maps each wanted topic to its wanted queues, with first offset and end of each (-1
        stands for the queues not named), or to None for all of them. Times are store times, the end
        is exclusive.
        """

@final
class LogScan:
    """Records of ranges of a commit log as Arrow record batches.

    Iterate over the batches, or give it to a library that takes the Arrow PyCapsule interface.
    A record belongs to the range in which it begins, so the log may be cut at any byte. With
    several threads each reads a piece; the batches come in the order of the pieces.
    """

    def __new__(
        cls,
        log_files: Sequence[_LogFile],
        log_end: int,
        pieces: Sequence[Sequence[_Range]],
        /,
        *,
        threads: int = 1,
        topics: _Topics | None = None,
        start_ms: int | None = None,
        end_ms: int | None = None,
        keys: Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
        broker_name: str | None = None,
        max_rows: int = 16384,
        max_bytes: int = 33554432,
        verify_crc: bool = True,
        fail_on_damage: bool = False,
    ) -> Self: ...
    def __iter__(self) -> Self: ...
    def __next__(self) -> ArrowBatch: ...
    def __arrow_c_schema__(self) -> CapsuleType:
        """Return the schema of the batches, as the Arrow PyCapsule interface has it."""
    def __arrow_c_stream__(self, requested_schema: object = None) -> CapsuleType:
        """Return what is left of the scan, as the Arrow PyCapsule interface has it."""
    def next_damages(self) -> list[_Damage]:
        """Read on, dropping rows, and return some more damages; none at the end.

        Only of scans with one thread.
        """
    def report(self) -> ScanReport:
        """Return what has been met so far."""

@final
class ScanReport:
    """What a scan has met."""

    @property
    def records(self) -> int:
        """Whole records, wanted or not."""
    @property
    def bytes(self) -> int:
        """Their bytes."""
    @property
    def matched(self) -> int:
        """Records that were wanted."""
    @property
    def damaged(self) -> int:
        """Stretches that cannot be read as messages, or that no file holds."""
    @property
    def damaged_bytes(self) -> int:
        """Their bytes."""
    @property
    def damages(self) -> list[_Damage]:
        """The first hundred."""

@final
class StoreAudit:
    """Compares log, queues and index of a store directory, in pieces that may run side by side.

    With `log_end` and `dispatched_end` it is the directory as a `StoreSnapshot` found it.
    """

    def __new__(
        cls,
        path: str | os.PathLike[str],
        /,
        *,
        commit_log_paths: Sequence[str | os.PathLike[str]] = ...,
        log_end: int | None = None,
        dispatched_end: int | None = None,
    ) -> Self: ...
    @property
    def index_files(self) -> list[tuple[str, int]]:
        """Paths of the index files that can be read, and how many entries each has."""
    def check_directory(self) -> AuditPart:
        """Look for log files that are missing and index files that make no sense."""
    def check_log(self, ranges: Sequence[_Range], /) -> AuditPart:
        """Check every record that begins in these ranges, its queue unit and its index entries."""
    def check_queue(
        self, topic: str, queue_id: int, from_offset: int, to_offset: int, /
    ) -> AuditPart:
        """Check that every unit of a queue leads to its message."""
    def check_index(self, path: str, from_entry: int, to_entry: int, /) -> AuditPart:
        """Check that entries, counted from 1, lead to messages with their keys."""
    def check_chains(self, path: str, /) -> AuditPart:
        """Check that the slots of an index file lead to all of its entries."""

@final
class AuditPart:
    """What a part of an audit has found."""

    @property
    def checked(self) -> int:
        """Records, units or entries looked at."""
    @property
    def counts(self) -> dict[str, int]:
        """How many findings of each kind."""
    @property
    def findings(self) -> list[tuple[str, str, int, int, int, str]]:
        """The first thousand: kind, topic, queue, queue offset, offset in the log, the fault."""
    @property
    def topics(self) -> dict[str, tuple[int, int, int, int, int]]:
        """Messages, bytes, bytes of bodies, first and last store time of each topic met."""

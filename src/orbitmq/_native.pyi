"""The Rust core: RocketMQ's bytes and store files.

Written by hand and compared with the compiled module by stubtest. Times are epoch milliseconds,
hosts are ``(ip, port)``, every error is a class of `orbitmq.errors`.
"""

from typing import final

from typing_extensions import Buffer

__all__ = [
    "Record",
    "body_crc",
    "decode_properties",
    "decode_records",
    "encode_properties",
    "encode_record",
    "java_hash",
    "tags_code",
]

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

    Raises `ValueError` for what would not read back: an empty name or value, or one with a
    separator (the characters 1 and 2) in it.
    """

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

"""OrbitMQ: a message system that speaks Apache RocketMQ 4.9 on the wire and on disk."""

from orbitmq._native import VERSION as __version__
from orbitmq._native import (
    Appended,
    Cleaned,
    NewMessage,
    ReadResult,
    Record,
    Recovery,
    Store,
    StoreOptions,
    decode_records,
)
from orbitmq.errors import OrbitError

__all__ = [
    "Appended",
    "Cleaned",
    "NewMessage",
    "OrbitError",
    "ReadResult",
    "Record",
    "Recovery",
    "Store",
    "StoreOptions",
    "__version__",
    "decode_records",
]

"""OrbitMQ: a message system that speaks Apache RocketMQ 4.9 on the wire and on disk.

The client's classes are loaded when they are first asked for: a program that only reads a store
should not wait for asyncio, nor one that only sends for the consumers.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from orbitmq._native import VERSION as __version__
from orbitmq._native import (
    Appended,
    Cleaned,
    NewMessage,
    ReadResult,
    ReceivedMessage,
    Record,
    Recovery,
    Store,
    StoreOptions,
    decode_records,
)
from orbitmq.errors import OrbitError

if TYPE_CHECKING:
    from orbitmq.admin.admin import Admin
    from orbitmq.admin.async_admin import AsyncAdmin
    from orbitmq.client.handlers import OrderlyStatus, RetryLater
    from orbitmq.client.hooks import ConsumeContext, ConsumeHook, SendContext, SendHook
    from orbitmq.client.lite import AsyncConsumer, Consumer
    from orbitmq.client.producer import Producer
    from orbitmq.client.producer_async import AsyncProducer
    from orbitmq.client.pull import AsyncPullConsumer, PullConsumer
    from orbitmq.client.pull_schedule import (
        AsyncPullSchedule,
        AsyncPullTurn,
        PullSchedule,
        PullTurn,
    )
    from orbitmq.client.push import AsyncPushConsumer, PushConsumer
    from orbitmq.client.request_reply import reply_to
    from orbitmq.client.settings import ClientSettings
    from orbitmq.client.transaction import (
        AsyncTransactionProducer,
        TransactionProducer,
        TransactionResult,
        TransactionState,
    )
    from orbitmq.message import Message, MessageQueue, PullStatus, SendResult, SendStatus
    from orbitmq.remoting.tls import Tls

__all__ = [
    "Admin",
    "Appended",
    "AsyncAdmin",
    "AsyncConsumer",
    "AsyncProducer",
    "AsyncPullConsumer",
    "AsyncPullSchedule",
    "AsyncPullTurn",
    "AsyncPushConsumer",
    "AsyncTransactionProducer",
    "Cleaned",
    "ClientSettings",
    "ConsumeContext",
    "ConsumeHook",
    "Consumer",
    "Message",
    "MessageQueue",
    "NewMessage",
    "OrbitError",
    "OrderlyStatus",
    "Producer",
    "PullConsumer",
    "PullSchedule",
    "PullStatus",
    "PullTurn",
    "PushConsumer",
    "ReadResult",
    "ReceivedMessage",
    "Record",
    "Recovery",
    "RetryLater",
    "SendContext",
    "SendHook",
    "SendResult",
    "SendStatus",
    "Store",
    "StoreOptions",
    "Tls",
    "TransactionProducer",
    "TransactionResult",
    "TransactionState",
    "__version__",
    "decode_records",
    "reply_to",
]

_LOADED_LATER = {
    "Admin": "orbitmq.admin.admin",
    "AsyncAdmin": "orbitmq.admin.async_admin",
    "AsyncConsumer": "orbitmq.client.lite",
    "AsyncProducer": "orbitmq.client.producer_async",
    "AsyncPullConsumer": "orbitmq.client.pull",
    "AsyncPullSchedule": "orbitmq.client.pull_schedule",
    "AsyncPullTurn": "orbitmq.client.pull_schedule",
    "AsyncPushConsumer": "orbitmq.client.push",
    "AsyncTransactionProducer": "orbitmq.client.transaction",
    "ClientSettings": "orbitmq.client.settings",
    "ConsumeContext": "orbitmq.client.hooks",
    "ConsumeHook": "orbitmq.client.hooks",
    "Consumer": "orbitmq.client.lite",
    "Message": "orbitmq.message",
    "MessageQueue": "orbitmq.message",
    "OrderlyStatus": "orbitmq.client.handlers",
    "Producer": "orbitmq.client.producer",
    "PullConsumer": "orbitmq.client.pull",
    "PullSchedule": "orbitmq.client.pull_schedule",
    "PullStatus": "orbitmq.message",
    "PullTurn": "orbitmq.client.pull_schedule",
    "PushConsumer": "orbitmq.client.push",
    "RetryLater": "orbitmq.client.handlers",
    "SendContext": "orbitmq.client.hooks",
    "SendHook": "orbitmq.client.hooks",
    "SendResult": "orbitmq.message",
    "SendStatus": "orbitmq.message",
    "Tls": "orbitmq.remoting.tls",
    "TransactionProducer": "orbitmq.client.transaction",
    "TransactionResult": "orbitmq.client.transaction",
    "TransactionState": "orbitmq.client.transaction",
    "reply_to": "orbitmq.client.request_reply",
}


def __getattr__(name: str) -> Any:
    module = _LOADED_LATER.get(name)
    if module is None:
        raise AttributeError(f"module 'orbitmq' has no attribute {name!r}")
    value = getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)

"""OrbitMQ: a message system that speaks Apache RocketMQ 4.9 on the wire and on disk.

The client's classes are loaded at first use. So a program that only reads a store does not load
asyncio, and a program that only sends does not load the consumers.
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
    from orbitmq.client.consumer.handlers import OrderlyStatus, RetryLater
    from orbitmq.client.consumer.lite import AsyncConsumer, Consumer
    from orbitmq.client.consumer.pull import AsyncPullConsumer, PullConsumer
    from orbitmq.client.consumer.push import AsyncPushConsumer, PushConsumer
    from orbitmq.client.hooks import ConsumeContext, ConsumeHook, SendContext, SendHook
    from orbitmq.client.producer.async_producer import AsyncProducer
    from orbitmq.client.producer.producer import Producer
    from orbitmq.client.producer.request_reply import reply_to
    from orbitmq.client.producer.transaction import (
        AsyncTransactionProducer,
        TransactionProducer,
        TransactionResult,
        TransactionState,
    )
    from orbitmq.client.settings import ClientSettings
    from orbitmq.message import Message, MessageQueue, PullStatus, SendResult, SendStatus
    from orbitmq.remoting.tls import Tls

__all__ = [
    "Admin",
    "Appended",
    "AsyncAdmin",
    "AsyncConsumer",
    "AsyncProducer",
    "AsyncPullConsumer",
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
    "PullStatus",
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
    "AsyncConsumer": "orbitmq.client.consumer.lite",
    "AsyncProducer": "orbitmq.client.producer.async_producer",
    "AsyncPullConsumer": "orbitmq.client.consumer.pull",
    "AsyncPushConsumer": "orbitmq.client.consumer.push",
    "AsyncTransactionProducer": "orbitmq.client.producer.transaction",
    "ClientSettings": "orbitmq.client.settings",
    "ConsumeContext": "orbitmq.client.hooks",
    "ConsumeHook": "orbitmq.client.hooks",
    "Consumer": "orbitmq.client.consumer.lite",
    "Message": "orbitmq.message",
    "MessageQueue": "orbitmq.message",
    "OrderlyStatus": "orbitmq.client.consumer.handlers",
    "Producer": "orbitmq.client.producer.producer",
    "PullConsumer": "orbitmq.client.consumer.pull",
    "PullStatus": "orbitmq.message",
    "PushConsumer": "orbitmq.client.consumer.push",
    "RetryLater": "orbitmq.client.consumer.handlers",
    "SendContext": "orbitmq.client.hooks",
    "SendHook": "orbitmq.client.hooks",
    "SendResult": "orbitmq.message",
    "SendStatus": "orbitmq.message",
    "Tls": "orbitmq.remoting.tls",
    "TransactionProducer": "orbitmq.client.producer.transaction",
    "TransactionResult": "orbitmq.client.producer.transaction",
    "TransactionState": "orbitmq.client.producer.transaction",
    "reply_to": "orbitmq.client.producer.request_reply",
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

"""Error codes of brokers as exceptions, each with a hint at the remedy."""

from __future__ import annotations

from orbitmq._native import Command
from orbitmq.errors import (
    BadMessage,
    BrokerBusy,
    BrokerRefused,
    OrbitError,
    SendFailed,
    WireError,
)
from orbitmq.protocol.codes import BUSY, ResponseCode

__all__ = ["access_hint", "is_hopeless", "refusal"]

_HINTS = {
    ResponseCode.SYSTEM_BUSY: "The broker has too much to do; send less at once, or try again.",
    ResponseCode.FLOW_CONTROL: "The broker has too much to do; send less at once, or try again.",
    ResponseCode.MESSAGE_ILLEGAL: "The message is too large for the broker (maxMessageSize), or "
    "its properties are.",
    ResponseCode.SERVICE_NOT_AVAILABLE: "The broker cannot store messages: it is a slave, its disk "
    "is full or it is shutting down.",
    ResponseCode.NO_PERMISSION: "Check the permission of the topic and of the broker, and whether "
    "the group may consume (orbitmq group config).",
    ResponseCode.TOPIC_NOT_EXIST: "Create the topic on this broker (mqadmin updateTopic, or "
    "Admin.create_topic), or set autoCreateTopicEnable=true.",
    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST: "Create the group (mqadmin updateSubGroup, or "
    "Admin.create_group), or set autoCreateSubscriptionGroup=true.",
}


_UNKNOWN = (
    "aclexception",  # 4.x, about accounts and signatures
    "signature failed",
    "username cannot be null",  # 5.x, about a request without a signature
)
_NOT_ALLOWED = (
    "no default permission for",  # 4.x
    "need admin permission",
    "has no permission to access",  # 5.x
)


def access_hint(remark: str | None) -> str | None:
    """Return the remedy if a server rejected the account or its rights; else None.

    The decision needs the remark, because neither 4.x nor 5.x brokers have a response code for
    this. 4.x brokers send the name of an exception, 5.x brokers send plain words.

    >>> access_hint("check signature failed.")
    'The broker wants signed requests: check access_key and secret_key.'
    >>> access_hint("User:stranger is not found.")
    'The broker wants signed requests: check access_key and secret_key.'
    >>> access_hint("the topic is not found") is None
    True
    """
    text = (remark or "").lower()
    if any(words in text for words in _NOT_ALLOWED):
        return (
            "The account of this access_key may not do that: use another one, or have an "
            "administrator grant it (plain_acl.yml of 4.x brokers, updateAcl of 5.x)."
        )
    is_stranger = text.startswith("user:") and text.endswith(("not found.", "is disabled."))
    if is_stranger or any(words in text for words in _UNKNOWN):
        return "The broker wants signed requests: check access_key and secret_key."
    return None


def refusal(response: Command, address: str) -> BrokerRefused:
    """Return the exception for a response whose code means failure."""
    remark = response.remark
    hint = access_hint(remark)
    if hint is None and response.code in _CODES:
        hint = _HINTS.get(ResponseCode(response.code))
    if (remark or "").startswith("timer message illegal"):
        hint = "The message is to be delivered later than the broker takes (timerMaxDelaySec)."
    busy = response.code in BUSY
    kind = BrokerBusy if busy else BrokerRefused
    return kind(response.code, remark, address=address, hint=hint)


def is_hopeless(error: BaseException) -> bool:
    """Return True if a send failed because of the message itself, so that every retry fails, too.

    >>> is_hopeless(BadMessage("too long")), is_hopeless(BrokerBusy(2, "later"))
    (True, False)
    """
    if isinstance(error, BrokerRefused | SendFailed):
        return error.code == ResponseCode.MESSAGE_ILLEGAL
    return isinstance(error, BadMessage | WireError) or not isinstance(error, OrbitError | OSError)


_CODES = frozenset(int(code) for code in ResponseCode)

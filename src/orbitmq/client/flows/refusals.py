"""What a broker's error codes mean and what can be done about them."""

from __future__ import annotations

from orbitmq._native import Command
from orbitmq.errors import BrokerBusy, BrokerRefused
from orbitmq.protocol.codes import ResponseCode

__all__ = ["refusal"]

_HINTS = {
    ResponseCode.SYSTEM_BUSY: "The broker has too much to do; send less at once, or try again.",
    ResponseCode.FLOW_CONTROL: "The broker has too much to do; send less at once, or try again.",
    ResponseCode.MESSAGE_ILLEGAL: "The message is too large for the broker (maxMessageSize), or "
    "its properties are.",
    ResponseCode.SERVICE_NOT_AVAILABLE: "The broker cannot store messages: it is a slave, its disk "
    "is full or it is shutting down.",
    ResponseCode.NO_PERMISSION: "Check the permission of the topic and of the broker.",
    ResponseCode.TOPIC_NOT_EXIST: "Create the topic on this broker (mqadmin updateTopic, or "
    "Admin.create_topic), or set autoCreateTopicEnable=true.",
    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST: "Create the group (mqadmin updateSubGroup, or "
    "Admin.create_group), or set autoCreateSubscriptionGroup=true.",
}


def refusal(response: Command, address: str) -> BrokerRefused:
    """Return the error for a response that is none of those one can go on with."""
    remark = response.remark
    hint = _HINTS.get(ResponseCode(response.code)) if response.code in _CODES else None
    if remark and ("AclException" in remark or "signature" in remark.lower()):
        hint = "The broker wants signed requests: check access_key and secret_key."
    busy = response.code in (ResponseCode.SYSTEM_BUSY, ResponseCode.FLOW_CONTROL)
    kind = BrokerBusy if busy else BrokerRefused
    return kind(response.code, remark, address=address, hint=hint)


_CODES = frozenset(int(code) for code in ResponseCode)

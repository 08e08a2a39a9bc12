"""What becomes of a message whose handler failed: back to the broker, for another try later.

The broker puts it into the group's retry topic, with a delay that grows from try to try, and after
too many into the topic of dead letters. A broker that cannot do that now (its master is down) does
not keep the message from being retried: then a copy goes into the retry topic on any broker.
"""

from __future__ import annotations

import logging

from orbitmq._native import ReceivedMessage, encode_properties
from orbitmq.client.flows.refusals import refusal
from orbitmq.client.flows.routes import fetch_route
from orbitmq.client.state.routes import RouteTable
from orbitmq.client.wishes import Call, Flow
from orbitmq.errors import BrokerRefused, OrbitError
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.protocol.names import AUTO_CREATE_TOPIC, RETRY_PREFIX, Property, dlq_topic, retry_topic

__all__ = ["send_back", "send_copy"]

_log = logging.getLogger(__name__)

SEND_BACK_TIMEOUT_MS = 5000
COPY_TIMEOUT_MS = 3000
INNER_PRODUCER = "CLIENT_INNER_PRODUCER"
FIRST_DELAY_LEVEL = 3
_STORED = (
    ResponseCode.SUCCESS,
    ResponseCode.FLUSH_DISK_TIMEOUT,
    ResponseCode.FLUSH_SLAVE_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE,
)


def send_back(
    routes: RouteTable,
    group: str,
    message: ReceivedMessage,
    broker_name: str,
    *,
    delay_level: int = 0,
    max_reconsume_times: int = 16,
    topic: str = "",
) -> Flow[None]:
    """Give a message back; raises when neither way works.

    `delay_level` 0 lets the broker choose, below 0 makes the message a dead letter at once.
    """
    host, port = message.store_host
    address = routes.master(broker_name) or f"{host}:{port}"
    ext = {
        "offset": str(message.physical_offset),
        "group": group,
        "delayLevel": str(delay_level),
        "originMsgId": message.message_id,
        "originTopic": topic or message.stored_topic,
        "unitMode": "false",
        "maxReconsumeTimes": str(max_reconsume_times),
        "bname": broker_name,
    }
    try:
        response = yield Call(
            address, RequestCode.CONSUMER_SEND_MSG_BACK, ext, None, SEND_BACK_TIMEOUT_MS
        )
        if response.code == ResponseCode.SUCCESS:
            # The broker counts for itself: tries in this consumer alone are not in its record.
            is_retry = message.stored_topic.startswith(RETRY_PREFIX)
            tries = message.reconsume_times if is_retry else 0
            if delay_level < 0 or tries >= max_reconsume_times:
                _note_dead_letter(group, message)
            return
        raise refusal(response, address)
    except OrbitError as error:
        _log.warning(
            "message %s cannot be sent back (%s): a copy of it goes into the retry topic",
            message.message_id,
            error,
        )
    yield from send_copy(
        routes,
        group,
        message,
        reconsume_times=message.reconsume_times + 1,
        max_reconsume_times=max_reconsume_times,
        delay_level=FIRST_DELAY_LEVEL + message.reconsume_times,
    )


def send_copy(
    routes: RouteTable,
    group: str,
    message: ReceivedMessage,
    *,
    reconsume_times: int,
    max_reconsume_times: int,
    delay_level: int = 0,
) -> Flow[None]:
    """Put a copy of a message into the group's retry topic, on the first broker that takes it.

    One that has been tried too often becomes a dead letter there.
    """
    topic = retry_topic(group)
    if not routes.publish_queues(topic):
        yield from fetch_route(routes, topic)
    properties = message.properties
    properties.setdefault(Property.RETRY_TOPIC, message.stored_topic)
    properties.setdefault(Property.ORIGIN_MESSAGE_ID, message.message_id)
    properties.pop(Property.TRANSACTION, None)
    properties.pop(Property.DELAY, None)
    if delay_level > 0:
        properties[Property.DELAY] = str(delay_level)
    body = message.stored_body
    failure: OrbitError = BrokerRefused(
        ResponseCode.TOPIC_NOT_EXIST, f"no broker has the topic {topic}"
    )
    tried: set[str] = set()
    for queue in routes.publish_queues(topic):
        address = routes.master(queue.broker_name)
        if address is None or queue.broker_name in tried:
            continue
        tried.add(queue.broker_name)
        ext = {
            "producerGroup": INNER_PRODUCER,
            "topic": topic,
            "defaultTopic": AUTO_CREATE_TOPIC,
            "defaultTopicQueueNums": "4",
            "queueId": str(queue.queue_id),
            "sysFlag": str(message.sys_flag & ~0xC),
            "bornTimestamp": str(message.born_timestamp),
            "flag": str(message.flag),
            "properties": encode_properties(properties),
            "reconsumeTimes": str(reconsume_times),
            "unitMode": "false",
            "batch": "false",
            "maxReconsumeTimes": str(max_reconsume_times),
        }
        try:
            response = yield Call(address, RequestCode.SEND_MESSAGE, ext, body, COPY_TIMEOUT_MS)
        except OrbitError as error:
            failure = error
            continue
        if response.code in _STORED:
            if reconsume_times >= max_reconsume_times:
                _note_dead_letter(group, message)
            return
        failure = refusal(response, address)
    raise failure


def _note_dead_letter(group: str, message: ReceivedMessage) -> None:
    """Log a message that its group will not get again by itself."""
    _log.warning(
        "message %s of topic %s is a dead letter of group %s after %d attempts; it is in topic %s",
        message.message_id,
        message.topic,
        group,
        message.reconsume_times + 1,
        dlq_topic(group),
    )

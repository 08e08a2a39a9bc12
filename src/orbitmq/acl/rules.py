"""Table of request codes and the rights they need; every request is checked against it.

4.9.7 has gaps: batches, replies, transactions, message by id, locks and most administration need a
valid signature, but no right. The gaps stay open for tools that rely on them (column `as_4_9_7`)
unless the broker is strict (``aclStrict=true``, column `strict`). For OrbitMQ's own requests and
for nameservers both columns are equal.

Producer groups have no rights in RocketMQ, and a heartbeat may name any producer group. So the
rights for a transaction check are verified when the check is sent: it goes only to an account that
could have sent the message (`demands.needs_of_half`).

``docs/rights.md`` is generated from this table (`page`), and a test compares the two. A code
without a row is refused to all accounts except administrators, and a test fails.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from orbitmq.acl.demands import (
    ADMIN,
    HEARTBEAT,
    QUEUE_LOCKS,
    SIGNED,
    THE_HALF_MESSAGE,
    THE_MESSAGE_AT_OFFSET,
    THE_MESSAGE_BY_ID,
    UNSERVED,
    VALUE,
    Demand,
    as_group,
    both,
    publish,
    publish_as_4_9_7,
    read,
)
from orbitmq.protocol.codes import RequestCode as Code

__all__ = ["BROKER_RULES", "NAMESERVER_RULES", "UNKNOWN", "UNSERVED_CODES", "Rule"]


@dataclass(frozen=True, slots=True)
class Rule:
    """Demands on a request, and the reason for them."""

    strict: Demand
    why: str
    as_4_9_7: Demand = SIGNED


def _always(demand: Demand, why: str) -> Rule:
    return Rule(demand, why, demand)


UNKNOWN = Rule(ADMIN, "a code without a row")

_CHANGES = "changes the broker for everybody"
_WHOLE = "shows what belongs to all accounts"
_CLIENT = "goes from a broker to a client; no server serves it"
_NO_HANDLER = "no server of ours serves it"

BROKER_RULES: Mapping[Code, Rule] = {
    # ---- Sending
    Code.SEND_MESSAGE: Rule(
        publish("topic"), "writes to the topic", publish_as_4_9_7("topic", "group")
    ),
    Code.SEND_MESSAGE_V2: Rule(publish("b"), "writes to the topic", publish_as_4_9_7("b", "a")),
    Code.SEND_BATCH_MESSAGE: Rule(publish("b"), "writes to the topic"),
    Code.SEND_REPLY_MESSAGE: Rule(
        publish("topic"), "writes to the reply topic and to the asker's connection"
    ),
    Code.SEND_REPLY_MESSAGE_V2: Rule(
        publish("b"), "writes to the reply topic and to the asker's connection"
    ),
    Code.ORBIT_SEND_ONCE: _always(publish("b"), "writes to the topic; ids belong to the account"),
    Code.ORBIT_END_BATCH: _always(
        publish("b"), "forgets ids of the account's own senders of this topic"
    ),
    Code.END_TRANSACTION: Rule(
        THE_HALF_MESSAGE, "writes the message to its topic, or takes it from its sender"
    ),
    Code.RESUME_CHECK_HALF_MESSAGE: Rule(
        ADMIN, "makes a half message of any message, with any topic as its aim"
    ),
    # ---- Consuming
    Code.PULL_MESSAGE: _always(
        both(read(), as_group("consumerGroup", is_optional=True)),
        "reads the topic and may commit the group's offset",
    ),
    Code.ORBIT_BULK_READ: _always(
        read(), "reads the topic; its group only names a counter, and no offset is committed"
    ),
    Code.CONSUMER_SEND_MSG_BACK: Rule(
        both(as_group("group"), THE_MESSAGE_AT_OFFSET),
        "copies the message to where the group reads it",
        as_group("group", is_optional=True),
    ),
    Code.HEART_BEAT: _always(
        HEARTBEAT, "joins groups; what producers are sent is checked when it is sent"
    ),
    Code.UNREGISTER_CLIENT: _always(
        as_group("consumerGroup", is_optional=True), "leaves groups, for this connection alone"
    ),
    Code.CHECK_CLIENT_CONFIG: Rule(
        SIGNED, "compiles an expression that it brings along, shows and changes nothing"
    ),
    Code.GET_CONSUMER_LIST_BY_GROUP: _always(
        as_group("consumerGroup", is_optional=True), "shows the group's members"
    ),
    Code.QUERY_CONSUMER_OFFSET: Rule(
        both(read(), as_group("consumerGroup")), "shows where the group stands"
    ),
    Code.UPDATE_CONSUMER_OFFSET: _always(
        both(read(), as_group("consumerGroup", is_optional=True)), "moves the group"
    ),
    Code.LOCK_BATCH_MQ: Rule(QUEUE_LOCKS, "keeps the group's other members from the queues"),
    Code.UNLOCK_BATCH_MQ: Rule(QUEUE_LOCKS, "lets the group's other members at the queues"),
    # ---- Queries
    Code.QUERY_MESSAGE: _always(
        read(), "reads the topic; messages of other topics with the same hash are left out"
    ),
    Code.VIEW_MESSAGE_BY_ID: Rule(THE_MESSAGE_AT_OFFSET, "reads the message"),
    Code.SEARCH_OFFSET_BY_TIMESTAMP: Rule(read(), "shows the topic's offsets"),
    Code.GET_MAX_OFFSET: Rule(read(), "shows the topic's offsets"),
    Code.GET_MIN_OFFSET: Rule(read(), "shows the topic's offsets"),
    Code.GET_EARLIEST_MSG_STORETIME: Rule(read(), "shows the topic's times"),
    Code.GET_TOPIC_STATS_INFO: Rule(read(), "shows the topic's offsets"),
    Code.QUERY_CONSUME_QUEUE: Rule(
        both(read(), as_group("consumerGroup", is_optional=True)),
        "shows places and tag codes of the topic's messages, and the group's subscription",
    ),
    Code.QUERY_TOPIC_CONSUME_BY_WHO: Rule(read(), "shows the topic's groups"),
    Code.GET_CONSUMER_CONNECTION_LIST: Rule(
        as_group("consumerGroup"), "shows the group's members and subscriptions"
    ),
    Code.GET_CONSUME_STATS: Rule(as_group("consumerGroup"), "shows where the group stands"),
    Code.QUERY_CONSUME_TIME_SPAN: Rule(
        both(read(), as_group("group")), "shows how far the group is behind"
    ),
    Code.GET_CONSUMER_RUNNING_INFO: Rule(
        as_group("consumerGroup"), "asks a member of the group; no credentials go along"
    ),
    Code.CONSUME_MESSAGE_DIRECTLY: Rule(
        both(as_group("consumerGroup"), THE_MESSAGE_BY_ID),
        "sends the message to a member of the group; no credentials go along",
    ),
    Code.GET_BROKER_RUNTIME_INFO: Rule(
        SIGNED, "shows versions, features and load: clients ask for features"
    ),
    Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: Rule(SIGNED, "shows names that are always the same"),
    # ---- Whole tables
    Code.GET_ALL_TOPIC_CONFIG: Rule(ADMIN, _WHOLE),
    Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: Rule(ADMIN, _WHOLE),
    Code.GET_ALL_CONSUMER_OFFSET: Rule(ADMIN, _WHOLE),
    Code.GET_ALL_DELAY_OFFSET: Rule(ADMIN, _WHOLE),
    Code.GET_ALL_PRODUCER_INFO: Rule(ADMIN, _WHOLE),
    Code.GET_PRODUCER_CONNECTION_LIST: Rule(
        ADMIN, "shows clients of a producer group, and those have no rights of their own"
    ),
    Code.GET_BROKER_CONSUME_STATS: Rule(ADMIN, _WHOLE),
    Code.QUERY_CORRECTION_OFFSET: Rule(ADMIN, "shows where other groups stand"),
    Code.VIEW_BROKER_STATS_DATA: Rule(ADMIN, "shows counters of any topic and group"),
    Code.GET_BROKER_CONFIG: Rule(ADMIN, "shows paths and addresses of the machine"),
    # ---- Changes of the broker
    Code.UPDATE_AND_CREATE_TOPIC: _always(ADMIN, _CHANGES),
    Code.DELETE_TOPIC_IN_BROKER: _always(ADMIN, _CHANGES),
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: _always(ADMIN, _CHANGES),
    Code.DELETE_SUBSCRIPTIONGROUP: _always(ADMIN, _CHANGES),
    Code.UPDATE_BROKER_CONFIG: _always(ADMIN, _CHANGES),
    Code.INVOKE_BROKER_TO_RESET_OFFSET: Rule(ADMIN, "makes a group read again, or skip"),
    Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: Rule(ADMIN, "asks every member of a group"),
    Code.CLONE_GROUP_OFFSET: Rule(ADMIN, "moves a group to where another stands"),
    Code.CLEAN_EXPIRED_CONSUMEQUEUE: Rule(ADMIN, "deletes queues"),
    Code.CLEAN_UNUSED_TOPIC: Rule(ADMIN, "deletes queues"),
    Code.DELETE_EXPIRED_COMMITLOG: Rule(ADMIN, "deletes messages"),
    Code.UPDATE_AND_CREATE_ACL_CONFIG: Rule(ADMIN, "makes accounts, administrators too"),
    Code.DELETE_ACL_CONFIG: Rule(ADMIN, "removes accounts"),
    Code.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG: Rule(ADMIN, "lets addresses in without a key"),
    Code.GET_BROKER_CLUSTER_ACL_INFO: Rule(ADMIN, "shows the files of accounts"),
    Code.GET_BROKER_CLUSTER_ACL_CONFIG: Rule(ADMIN, "shows every account's secret"),
}

NAMESERVER_RULES: Mapping[Code, Rule] = {
    # ---- Brokers
    # Brokers do not sign: their addresses must be white, or they run in the nameserver's process.
    Code.REGISTER_BROKER: _always(ADMIN, "says where a topic's messages go"),
    Code.UNREGISTER_BROKER: _always(ADMIN, "takes a broker from all routes"),
    Code.QUERY_DATA_VERSION: _always(ADMIN, "keeps a broker's routes alive"),
    Code.WIPE_WRITE_PERM_OF_BROKER: _always(ADMIN, "stops all sends to a broker"),
    Code.ADD_WRITE_PERM_OF_BROKER: _always(ADMIN, "allows sends to a broker"),
    Code.DELETE_TOPIC_IN_NAMESRV: _always(ADMIN, "takes a topic's routes away"),
    Code.UPDATE_NAMESRV_CONFIG: _always(ADMIN, "changes the nameserver for everybody"),
    Code.GET_NAMESRV_CONFIG: _always(ADMIN, "shows paths of the machine"),
    # ---- Key-value table
    Code.PUT_KV_CONFIG: _always(
        VALUE, "sets what others rely on; Spark's sink notes its brokers by topic"
    ),
    Code.DELETE_KV_CONFIG: _always(
        VALUE, "removes what others rely on; Spark's sink takes its notes back"
    ),
    Code.GET_KV_CONFIG: _always(SIGNED, "shows what clients need: order of topics, brokers"),
    Code.GET_KVLIST_BY_NAMESPACE: _always(SIGNED, "shows what clients need: order of topics"),
    # ---- Routes
    # Every client needs these names and addresses before it can connect to a broker.
    Code.GET_ROUTEINFO_BY_TOPIC: _always(SIGNED, "shows a topic's brokers, and no message"),
    Code.GET_BROKER_CLUSTER_INFO: _always(SIGNED, "shows brokers, and no message"),
    Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: _always(SIGNED, "shows names of topics"),
    Code.GET_TOPICS_BY_CLUSTER: _always(SIGNED, "shows names of topics"),
    Code.GET_SYSTEM_TOPIC_LIST_FROM_NS: _always(SIGNED, "shows names of topics"),
    Code.GET_UNIT_TOPIC_LIST: _always(SIGNED, "shows names of topics"),
    Code.GET_HAS_UNIT_SUB_TOPIC_LIST: _always(SIGNED, "shows names of topics"),
    Code.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: _always(SIGNED, "shows names of topics"),
}

UNSERVED_CODES: Mapping[Code, Rule] = {
    Code.CHECK_TRANSACTION_STATE: _always(UNSERVED, _CLIENT),
    Code.NOTIFY_CONSUMER_IDS_CHANGED: _always(UNSERVED, _CLIENT),
    Code.RESET_CONSUMER_CLIENT_OFFSET: _always(UNSERVED, _CLIENT),
    Code.GET_CONSUMER_STATUS_FROM_CLIENT: _always(UNSERVED, _CLIENT),
    Code.PUSH_REPLY_MESSAGE_TO_CLIENT: _always(UNSERVED, _CLIENT),
    Code.QUERY_BROKER_OFFSET: _always(UNSERVED, _NO_HANDLER),
    Code.GET_TOPIC_CONFIG_LIST: _always(UNSERVED, _NO_HANDLER),
    Code.GET_TOPIC_NAME_LIST: _always(UNSERVED, _NO_HANDLER),
    Code.TRIGGER_DELETE_FILES: _always(UNSERVED, _NO_HANDLER),
    Code.REGISTER_FILTER_SERVER: _always(UNSERVED, _NO_HANDLER),
    Code.REGISTER_MESSAGE_FILTER_CLASS: _always(UNSERVED, _NO_HANDLER),
}

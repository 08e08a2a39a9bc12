"""Table of the commands of mqadmin 4.9.7 and their translations into ``orbitmq`` commands.

`Value` passes its value on with an option of ours, `Argument` as an argument. `Flag` has no value,
`Switch` has the value true or false, `Ignored` has no effect here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from orbitmq.cli.mqadmin import special
from orbitmq.cli.mqadmin.options import Alias, Argument, Flag, Ignored, Option, Switch, Value

__all__ = ["ALIASES", "OTHER_NAMES"]

BROKER = Value("b", "brokerAddr", "--broker")
CLUSTER = Value("c", "clusterName", "--cluster")
TOPIC = Argument("t", "topic")
GROUP = Argument("g", "groupName")


def _alias(
    verb: str,
    in_words: str,
    *options: Option,
    special: Callable[[Mapping[str, str]], list[str]] | None = None,
) -> Alias:
    return Alias(tuple(verb.split()), in_words, options, special)


ALIASES: Final[Mapping[str, Alias]] = {
    "updateTopic": _alias(
        "topic put",
        "Create or change a topic",
        TOPIC,
        BROKER,
        CLUSTER,
        Value("r", "readQueueNums", "--read-queues"),
        Value("w", "writeQueueNums", "--write-queues"),
        Value("p", "perm", "--perm"),
        Switch("o", "order", "--order", "--no-order"),
        Switch("u", "unit", "--unit"),
        Switch("s", "hasUnitSub", "--unit-sub"),
    ),
    "deleteTopic": _alias(
        "topic delete",
        "Delete a topic",
        TOPIC,
        Value("c", "clusterName", "--cluster", required=True),
    ),
    "updateSubGroup": _alias(
        "group put",
        "Create or change a group",
        GROUP,
        BROKER,
        CLUSTER,
        Switch("s", "consumeEnable", "--consume", "--no-consume"),
        Switch("m", "consumeFromMinEnable", "--from-min", "--no-from-min"),
        Switch("d", "consumeBroadcastEnable", "--broadcast", "--no-broadcast"),
        Value("q", "retryQueueNums", "--retry-queues"),
        Value("r", "retryMaxTimes", "--retry-times"),
        Value("i", "brokerId", "--broker-id"),
        Value("w", "whichBrokerWhenConsumeSlowly", "--slow-broker-id"),
        Switch("a", "notifyConsumerIdsChanged", "--notify", "--no-notify"),
    ),
    "deleteSubGroup": _alias(
        "group delete",
        "Delete a group",
        GROUP,
        BROKER,
        CLUSTER,
        Switch("r", "removeOffset", "", "--keep-offsets"),
        special=special.delete_group,
    ),
    "updateBrokerConfig": _alias(
        "broker config",
        "Change a setting of brokers",
        BROKER,
        CLUSTER,
        Value("k", "key", "--set", required=True),
        Value("v", "value", "--set", required=True),
        special=special.set_of_broker,
    ),
    "updateTopicPerm": _alias(
        "topic perm",
        "Change what may be done with a topic",
        TOPIC,
        Argument("p", "perm"),
        BROKER,
        CLUSTER,
    ),
    "topicRoute": _alias(
        "topic route", "Show where a topic is", TOPIC, Option("l", "list", takes_value=False)
    ),
    "topicStatus": _alias("topic status", "Show how full a topic's queues are", TOPIC),
    "topicClusterList": _alias("topic clusters", "Show the clusters of a topic", TOPIC),
    "brokerStatus": _alias("broker status", "Show what brokers say of themselves", BROKER, CLUSTER),
    "queryMsgById": _alias(
        "message get",
        "Find a message by its broker's id; or resend it, or have a consumer handle it",
        Argument("i", "msgId"),
        Value("g", "consumerGroup", "--group"),
        Value("d", "clientId", "--client"),
        Switch("s", "sendMessage", "message resend"),
        Ignored("u", "unitName"),
        special=special.by_id,
    ),
    "queryMsgByKey": _alias(
        "message get",
        "Find messages by a key",
        Value("t", "topic", "--topic", required=True),
        Value("k", "msgKey", "--key", required=True),
    ),
    "queryMsgByUniqueKey": _alias(
        "message get",
        "Find a message by its producer's id",
        Argument("i", "msgId"),
        Value("t", "topic", "--topic", required=True),
        Value("g", "consumerGroup", "--group"),
        Value("d", "clientId", "--client"),
        Option("a", "showAll", takes_value=False),
        special=special.by_id,
    ),
    "queryMsgByOffset": _alias(
        "message get",
        "Find a message by its place",
        Value("t", "topic", "--topic", required=True),
        Value("b", "brokerName", "--broker", required=True),
        Value("i", "queueId", "--queue", required=True),
        Value("o", "offset", "--offset", required=True),
    ),
    "queryMsgTraceById": _alias(
        "message trace",
        "Show what was traced of a message",
        Argument("i", "msgId"),
        Value("t", "traceTopic", "--trace-topic"),
    ),
    "printMsg": _alias(
        "message print",
        "Print the messages of a topic",
        TOPIC,
        Ignored("c", "charsetName"),
        Value("s", "subExpression", "--tags"),
        Value("b", "beginTimestamp", "--begin"),
        Value("e", "endTimestamp", "--end"),
        Switch("d", "printBody", "--body", "--no-body"),
    ),
    "printMsgByQueue": _alias(
        "message print",
        "Print the messages of a queue",
        TOPIC,
        Value("a", "brokerName", "--broker", required=True),
        Value("i", "queueId", "--queue", required=True),
        Ignored("c", "charsetName"),
        Value("s", "subExpression", "--tags"),
        Value("b", "beginTimestamp", "--begin"),
        Value("e", "endTimestamp", "--end"),
        Ignored("p", "print msg"),
        Switch("d", "printBody", "--body", "--no-body"),
        Switch("f", "calculate", "--count-tags"),
    ),
    "sendMsgStatus": _alias(
        "broker send-check",
        "Send test messages to a broker",
        Argument("b", "brokerName"),
        Value("s", "messageSize", "--size"),
        Value("c", "count", "--amount"),
    ),
    "brokerConsumeStats": _alias(
        "broker lag",
        "Show how far groups are in a broker's queues",
        Value("b", "brokerAddr", "--broker", required=True),
        Ignored("t", "timeoutMillis"),
        Value("l", "level", "--min-lag"),
        Switch("o", "order", "--ordered"),
    ),
    "producerConnection": _alias(
        "producer members",
        "Show who is in a producer group",
        Argument("g", "producerGroup"),
        TOPIC,
    ),
    "consumerConnection": _alias(
        "group members",
        "Show who is in a group",
        Argument("g", "consumerGroup"),
        Ignored("b", "brokerAddr"),
    ),
    "consumerProgress": _alias(
        "group lag",
        "Show how far groups are",
        Argument("g", "groupName", required=False),
        Switch("s", "showClientIP", "--clients"),
    ),
    "consumerStatus": _alias(
        "group running-info",
        "Have consumers say how they are",
        Argument("g", "consumerGroup"),
        Value("i", "clientId", "--client"),
        Ignored("b", "brokerAddr"),
        Flag("s", "jstack", "--stacks"),
    ),
    "cloneGroupOffset": _alias(
        "offset clone",
        "Let one group stand where another stands",
        Argument("s", "srcGroup"),
        Argument("d", "destGroup"),
        TOPIC,
        Switch("o", "offline", "--offline"),
    ),
    "producer": _alias(
        "producer list",
        "List the producers of a broker",
        Value("b", "broker", "--broker", required=True),
    ),
    "clusterList": _alias(
        "cluster status",
        "Show clusters and how their brokers do",
        Flag("m", "moreStats", "--more"),
        Value("i", "interval", "--every"),
        special=special.watched_status,
    ),
    "topicList": _alias(
        "topic list --all", "List topics", Flag("c", "clusterModel", "--with-groups")
    ),
    "updateKvConfig": _alias(
        "nameserver kv-set",
        "Set a value that nameservers keep",
        Argument("s", "namespace"),
        Argument("k", "key"),
        Argument("v", "value"),
    ),
    "deleteKvConfig": _alias(
        "nameserver kv-delete",
        "Delete a value that nameservers keep",
        Argument("s", "namespace"),
        Argument("k", "key"),
    ),
    "wipeWritePerm": _alias(
        "broker deny-writes", "Tell clients not to write to a broker", Argument("b", "brokerName")
    ),
    "addWritePerm": _alias(
        "broker allow-writes", "Tell clients to write to a broker", Argument("b", "brokerName")
    ),
    "resetOffsetByTime": _alias(
        "offset reset",
        "Let a group go on from another moment",
        Argument("g", "group"),
        TOPIC,
        Value("s", "timestamp", "--to", required=True),
        Switch("f", "force", "", "--only-back"),
        Option("c", "cplus", takes_value=False),
    ),
    "skipAccumulatedMessage": _alias(
        "offset skip",
        "Let a group skip all that waits",
        Argument("g", "group"),
        TOPIC,
        Ignored("f", "force"),
    ),
    "updateOrderConf": _alias(
        "topic order",
        "Show, fix or free the queues of an ordered topic",
        TOPIC,
        Value("m", "method", "", required=True),
        Value("v", "orderConf", "--set"),
        special=special.order,
    ),
    "cleanExpiredCQ": _alias(
        "broker clean-queues",
        "Delete consume queues without messages",
        BROKER,
        Value("c", "cluster", "--cluster"),
        special=special.clean_queues,
    ),
    "deleteExpiredCommitLog": _alias(
        "broker clean-log",
        "Delete log files that have expired",
        BROKER,
        Value("c", "cluster", "--cluster"),
        Value("n", "namesrvAddr", "--namesrv"),
        special=special.clean_log,
    ),
    "cleanUnusedTopic": _alias(
        "broker clean-topics",
        "Delete topics that nobody uses",
        BROKER,
        Value("c", "cluster", "--cluster"),
        special=special.clean_topics,
    ),
    "startMonitoring": _alias("cluster monitor", "Look at all groups again and again"),
    "statsAll": _alias(
        "topic stats",
        "Show how many messages come and go",
        Argument("t", "topic", required=False),
        Flag("a", "activeTopic", "--active"),
    ),
    "allocateMQ": _alias(
        "topic allocate",
        "Show which client would get which queues",
        TOPIC,
        Value("i", "ipList", "--clients", required=True),
    ),
    "checkMsgSendRT": _alias(
        "topic send-check",
        "Send test messages to a topic",
        TOPIC,
        Value("a", "amount", "--amount"),
        Value("s", "size", "--size"),
    ),
    "clusterRT": _alias(
        "cluster send-check --watch",
        "Time sends to every broker, again and again",
        Value("a", "amount", "--amount"),
        Value("s", "size", "--size"),
        Value("c", "cluster", "--cluster"),
        Value("i", "interval", "--every"),
        Ignored("p", "print log"),
        Ignored("m", "machine room"),
    ),
    "getNamesrvConfig": _alias("nameserver config", "Show the settings of nameservers"),
    "updateNamesrvConfig": _alias(
        "nameserver config",
        "Change a setting of nameservers",
        Value("k", "key", "--set", required=True),
        Value("v", "value", "--set", required=True),
        special=special.set_of_nameserver,
    ),
    "getBrokerConfig": _alias("broker config", "Show the settings of brokers", BROKER, CLUSTER),
    "getConsumerConfig": _alias("group config", "Show how a group is set up", GROUP),
    "queryCq": _alias(
        "topic entries",
        "Show entries of a consume queue",
        TOPIC,
        Value("q", "queue", "--queue", required=True),
        Value("i", "index", "--from", required=True),
        Value("c", "count", "--count"),
        Value("b", "broker", "--broker"),
        Value("g", "consumer", "--group"),
    ),
    "sendMessage": _alias(
        "message send",
        "Send a message",
        TOPIC,
        Value("p", "body", "--body", required=True),
        Value("k", "key", "--key"),
        Value("c", "tags", "--tag"),
        Value("b", "broker", "--broker"),
        Value("i", "qid", "--queue"),
        Switch("m", "msgTraceEnable", "--trace"),
    ),
    "consumeMessage": _alias(
        "message print",
        "Print messages of a topic or a queue",
        TOPIC,
        Value("b", "brokerName", "--broker"),
        Value("i", "queueId", "--queue"),
        Value("o", "offset", "--offset"),
        Value("c", "MessageNumber", "--limit"),
        Value("s", "beginTimestamp", "--begin"),
        Value("e", "endTimestamp", "--end"),
        Ignored("g", "consumerGroup"),
    ),
    "updateAclConfig": _alias(
        "acl set",
        "Add or change an account",
        Argument("a", "accessKey"),
        Value("s", "secretKey", "--account-secret", required=True),
        BROKER,
        CLUSTER,
        Value("w", "whiteRemoteAddress", "--from"),
        Value("i", "defaultTopicPerm", "--topics"),
        Value("u", "defaultGroupPerm", "--groups"),
        Value("t", "topicPerms", "--topic"),
        Value("g", "groupPerms", "--group"),
        Switch("m", "admin", "--admin", "--no-admin"),
        special=special.account,
    ),
    "deleteAclConfig": _alias(
        "acl delete", "Delete an account", Argument("a", "accessKey"), BROKER, CLUSTER
    ),
    "clusterAclConfigVersion": _alias(
        "acl versions", "Show the versions of account files", BROKER, CLUSTER
    ),
    "updateGlobalWhiteAddr": _alias(
        "acl white-addresses",
        "Set the addresses let in unsigned",
        Argument("g", "globalWhiteRemoteAddresses"),
        BROKER,
        CLUSTER,
        Value("p", "aclFileFullPath", "--acl-file"),
    ),
    "getAclConfig": _alias("acl list", "List accounts", BROKER, CLUSTER),
    "exportMetadata": _alias(
        "cluster export metadata",
        "Write topics and groups to a file",
        BROKER,
        CLUSTER,
        Value("f", "filePath", "--to"),
        Option("t", "topic", takes_value=False),
        Option("g", "subscriptionGroup", takes_value=False),
        Flag("s", "specialTopic", "--special"),
        special=special.export("metadata"),
    ),
    "exportConfigs": _alias(
        "cluster export configs",
        "Write settings to a file",
        Value("c", "clusterName", "--cluster", required=True),
        Value("f", "filePath", "--to"),
        special=special.export("configs"),
    ),
    "exportMetrics": _alias(
        "cluster export metrics",
        "Write numbers to a file",
        Value("c", "clusterName", "--cluster", required=True),
        Value("f", "filePath", "--to"),
        special=special.export("metrics"),
    ),
}
"""Translations by command name, in mqadmin's order."""

OTHER_NAMES: Final[Mapping[str, str]] = {
    "QueryMsgTraceById": "queryMsgTraceById",
    "deleteAccessConfig": "deleteAclConfig",
    "getAccessConfigSubCommand": "getAclConfig",
}
"""Alternative command names of mqadmin."""

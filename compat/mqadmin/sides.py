"""A real broker and one of ours in the same state, both examined with mqadmin.

Both are called ``broker-a`` in ``DefaultCluster``, each behind a nameserver of its own kind. The
state is made with plain requests, the same for either: messages with keys and tags at fixed times,
a group with offsets, a consumer and a producer that are online.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from compat.java_cluster import BrokerSettings, JavaCluster, StoreSizes
from orbitmq._native import Command, dumps_lenient
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.testing import LocalCluster
from tests.broker.conftest import Wire, send_ext

CLUSTER, BROKER = "DefaultCluster", "broker-a"
TOPIC, GROUP = "Orders", "watched"
QUEUES, MESSAGES = 4, 20
LEVELS = "1s 5s 10s"
BEAT_S = 30.0

ACCOUNTS = """
globalWhiteRemoteAddresses:
- 127.0.0.1
accounts:
- accessKey: shopkeeper
  secretKey: 012345678
  defaultTopicPerm: DENY
  defaultGroupPerm: SUB
  topicPerms:
  - Orders=PUB|SUB
"""
"""Both brokers check signatures; clients on this machine need none."""
TRACED = "7F000001000000000000000000000003"

SETTINGS = {"messageDelayLevel": LEVELS, "traceTopicEnable": "true", "aclEnable": "true"}

SIZES = StoreSizes(
    commit_log_file_size=64 << 20,
    consume_queue_file_size=6_000_000,
    index_slots=50_000,
    index_entries=200_000,
)


@dataclass
class Side:
    """One broker, its nameserver, and its clients."""

    name: str
    nameserver: str
    broker: str
    directory: Path
    home: Path
    """Directory of its accounts, which are below ``conf``."""
    clients: list[Wire] = field(default_factory=list)
    message_ids: list[str] = field(default_factory=list)
    _closed: threading.Event = field(default_factory=threading.Event)

    def client(self) -> Wire:
        self.clients.append(Wire(self.broker))
        return self.clients[-1]

    def prepare(self) -> None:
        """Make the state that the commands examine."""
        asking = self.client()
        made = {
            "topic": TOPIC,
            "defaultTopic": "TBW102",
            "readQueueNums": str(QUEUES),
            "writeQueueNums": str(QUEUES),
            "perm": "6",
            "topicFilterType": "SINGLE_TAG",
            "topicSysFlag": "0",
            "order": "false",
        }
        _done(asking.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, made))
        for number in range(MESSAGES):
            properties = {
                "KEYS": f"key{number}",
                "TAGS": f"tag{number % 2}",
                "UNIQ_KEY": f"7F00000100000000000000000000{number:04X}",
                "WAIT": "true",
            }
            ext = send_ext(
                TOPIC,
                queueId=str(number % QUEUES),
                properties="\x02".join(f"{name}\x01{value}" for name, value in properties.items()),
            )
            sent = asking.ask(RequestCode.SEND_MESSAGE, ext, f"body {number}".encode())
            _done(sent)
            self.message_ids.append(sent.get_ext("msgId") or "")
        _done(asking.ask(RequestCode.SEND_MESSAGE, *_trace(self.message_ids[3])))
        self._go_online()
        for queue_id in range(QUEUES):
            committed = {
                "consumerGroup": GROUP,
                "topic": TOPIC,
                "queueId": str(queue_id),
                "commitOffset": str(queue_id),
            }
            _done(asking.ask(RequestCode.UPDATE_CONSUMER_OFFSET, committed))
        self._until_indexed(asking)

    def _go_online(self) -> None:
        consumer, producer = self.client(), self.client()
        _beat(consumer)
        threading.Thread(target=_tell_how_it_is, args=[consumer], daemon=True).start()
        _beat_as_producer(producer)
        staying = threading.Thread(target=_stay, args=[producer, self._closed], daemon=True)
        staying.start()

    def _until_indexed(self, asking: Wire) -> None:
        """Wait for the index: Java builds queues and index a moment after the acknowledgement."""
        ext = {
            "topic": TOPIC,
            "key": f"key{MESSAGES - 1}",
            "maxNum": "1",
            "beginTimestamp": "0",
            "endTimestamp": str(2**62),
        }
        deadline = time.monotonic() + 60
        while asking.ask(RequestCode.QUERY_MESSAGE, ext).code != ResponseCode.SUCCESS:
            assert time.monotonic() < deadline, f"{self.name} has not indexed the last message"

    def close(self) -> None:
        self._closed.set()
        for wire in self.clients:
            wire.close()


def _beat(consumer: Wire) -> None:
    _done(consumer.heartbeat(GROUP, TOPIC, client_id="127.0.0.1@1"))


def _beat_as_producer(producer: Wire) -> None:
    producers = [{"groupName": "makers"}]
    body = {"clientID": "127.0.0.1@2", "consumerDataSet": [], "producerDataSet": producers}
    _done(producer.ask(RequestCode.HEART_BEAT, body=dumps_lenient(body)))


def _stay(producer: Wire, closed: threading.Event) -> None:
    """Send heartbeats repeatedly: brokers drop clients that are silent for two minutes."""
    while not closed.wait(BEAT_S):
        try:
            _beat_as_producer(producer)
        except (AssertionError, OSError):
            return


def _tell_how_it_is(consumer: Wire) -> None:
    """Answer like an idle consumer, as long as its connection is open."""
    properties = {
        "PROP_CLIENT_VERSION": "V4_9_7",
        "PROP_CONSUME_TYPE": "CONSUME_PASSIVELY",
        "PROP_CONSUMEORDERLY": "false",
        "PROP_CONSUMER_START_TIMESTAMP": "1700000000000",
        "PROP_NAMESERVER_ADDR": "nowhere",
        "PROP_THREADPOOL_CORE_SIZE": "1",
    }
    info = {"mqTable": {}, "properties": properties, "statusTable": {}, "subscriptionSet": []}
    beaten = time.monotonic()
    while True:
        try:
            if time.monotonic() - beaten >= BEAT_S:
                beaten = time.monotonic()
                _beat(consumer)
            asked = consumer.next_push()
        except TimeoutError:
            continue
        except (AssertionError, OSError):
            return
        if asked.code == RequestCode.GET_CONSUMER_RUNNING_INFO:
            consumer.send_command(Command(0, opaque=asked.opaque, flag=1, body=dumps_lenient(info)))


def _trace(offset_id: str) -> tuple[dict[str, str], bytes]:
    """Send the record that a tracing producer writes after a send."""
    fields = ["Pub", "1700000000000", "DefaultRegion", "makers", TOPIC, TRACED, "tag1", "key3"]
    fields += ["127.0.0.1:1", "6", "7", "0", offset_id, "true", "127.0.0.1"]
    ext = send_ext("RMQ_SYS_TRACE_TOPIC", properties=f"KEYS\x01{TRACED} key3\x02WAIT\x01true")
    return ext, "\x01".join(fields).encode() + b"\x02"


def _done(answer: object) -> None:
    assert getattr(answer, "code", None) == ResponseCode.SUCCESS, answer


def java_settings() -> BrokerSettings:
    return BrokerSettings(
        name=BROKER,
        cluster=CLUSTER,
        sizes=SIZES,
        extra=SETTINGS | {"defaultTopicQueueNums": "8"},
    )


def of_java(cluster: JavaCluster, home: Path) -> Side:
    return Side("Java", cluster.nameserver, cluster.broker, cluster.directory, home)


def of_ours(cluster: LocalCluster, home: Path) -> Side:
    address = cluster.brokers[BROKER].config.address
    return Side("ours", cluster.address, address, cluster.data, home)

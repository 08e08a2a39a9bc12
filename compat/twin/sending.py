"""Requests that store messages: sends, batches, messages sent back."""

from __future__ import annotations

from compat.twin.sides import Request
from compat.twin.world import AUTO_CREATED, CREATED, FORBIDDEN, GROUPS, VERSIONS, World
from orbitmq._native import encode_batch
from orbitmq.protocol.codes import RequestCode

SHORT = {
    "producerGroup": "a",
    "topic": "b",
    "defaultTopic": "c",
    "defaultTopicQueueNums": "d",
    "queueId": "e",
    "sysFlag": "f",
    "bornTimestamp": "g",
    "flag": "h",
    "properties": "i",
    "reconsumeTimes": "j",
    "unitMode": "k",
    "maxReconsumeTimes": "l",
    "batch": "m",
}
DELAY_LEVELS = ["0", "1", "3", "18", "19", "99", "-1", "x"]


def properties(world: World) -> str:
    pairs = []
    if world.chance(0.5):
        pairs.append(("TAGS", world.one(["a", "b", "c", "tag with blanks", "t\u00e4g"])))
    if world.chance(0.5):
        keys = " ".join(world.key() for _ in range(world.number(1, 3)))
        pairs.append(("KEYS", keys))
    if world.chance(0.3):
        pairs.append(("UNIQ_KEY", f"u{world.number(0, 500)}"))
    if world.chance(0.3):
        pairs.append(("WAIT", world.one(["true", "false"])))
    if world.chance(0.12):
        pairs.append(("DELAY", world.one(DELAY_LEVELS)))
    if world.chance(0.2):
        pairs.append((f"user{world.number(0, 3)}", world.one(["1", "\u4e2d\u6587", "x" * 300])))
    if world.chance(0.1):
        pairs.append(("CLUSTER", "another"))
    world.rng.shuffle(pairs)
    text = "\x02".join(f"{name}\x01{value}" for name, value in pairs)
    return text + world.one(["", "", "\x02", "\x02broken", "\x02\x01v", "\x02n\x01"])


def body(world: World) -> bytes:
    size = world.number(0, 600) if world.chance(0.97) else world.one([4000, 20_000, 65_536, 65_537])
    return world.rng.randbytes(size)


def target(world: World) -> tuple[str, int]:
    topic = world.topic()
    if world.chance(0.04):
        topic = world.one([f"%RETRY%{world.one(GROUPS)}", f"%DLQ%{world.one(GROUPS)}"])
    queue_id = world.number(0, world.write_queues(topic) - 1)
    if topic == "Single" and world.chance(0.3):
        queue_id = world.one([-1, -5])
    elif world.chance(0.04):
        queue_id = world.one([4, 6, 17, 2**31 - 1])
    return topic, queue_id


def fields(world: World, topic: str, queue_id: int) -> dict[str, str]:
    ext = {
        "producerGroup": world.one(["makers", "others"]),
        "topic": topic,
        "defaultTopic": world.one(["TBW102", "TBW102", "TBW102", "Orders", "none"])
        if topic not in AUTO_CREATED
        else "TBW102",
        "defaultTopicQueueNums": "4",
        "queueId": str(queue_id),
        "sysFlag": world.one(["0", "0", "0", "0", "1", "769", "8", "1024"]),
        "bornTimestamp": world.one(["1700000000000", "0", "-1", "9223372036854775807"]),
        "flag": str(world.one([0, 0, 1, -1, 2**31 - 1])),
    }
    if world.chance(0.9):
        ext["properties"] = properties(world)
    if world.chance(0.5):
        ext["reconsumeTimes"] = str(world.one([0, 0, 1, 15, 16, 40]))
    if world.chance(0.3):
        ext["unitMode"] = world.one(["true", "false", "TRUE", "x"])
    if world.chance(0.2):
        ext["maxReconsumeTimes"] = str(world.one([0, 1, 3, 16]))
    if world.chance(0.3):
        ext["batch"] = "false"
    return ext


def send(world: World) -> Request:
    topic, queue_id = target(world)
    ext = fields(world, topic, queue_id)
    code = RequestCode.SEND_MESSAGE
    if world.chance(0.5):
        code = RequestCode.SEND_MESSAGE_V2
        ext = {SHORT[name]: value for name, value in ext.items()}
    flag = 2 if world.chance(0.01) and topic in CREATED else world.one([0, 0, 0, 4, 64])
    version = world.one(VERSIONS) if world.chance(0.2) else 407
    return Request(code, ext, body(world), flag, version, writes=True)


def batch(world: World) -> Request:
    topic, queue_id = target(world)
    ext = fields(world, topic, queue_id)
    ext["batch"] = "true" if world.chance(0.95) else "false"
    messages = [
        (world.number(0, 9), world.rng.randbytes(world.number(0, 200)), batched(world))
        for _ in range(world.number(1, 5))
    ]
    content = encode_batch(messages)
    if world.chance(0.05):
        content = world.one([b"", b"\0" * 30, content + b"\0", content[:-1], b"\xff" * 20])
    ext = {SHORT[name]: value for name, value in ext.items()}
    return Request(RequestCode.SEND_BATCH_MESSAGE, ext, content, writes=True)


def batched(world: World) -> dict[str, str]:
    pairs = {}
    if world.chance(0.5):
        pairs["KEYS"] = world.key()
    if world.chance(0.5):
        pairs["TAGS"] = world.one(["a", "b"])
    if world.chance(0.5):
        pairs["WAIT"] = "true"
    return pairs


def send_back(world: World) -> Request:
    ext = {
        "offset": str(world.physical_offset()),
        "group": world.one(GROUPS),
        "delayLevel": str(world.one([0, 0, 1, 5, 18, 30, -1])),
    }
    if world.chance(0.5):
        ext |= {"originMsgId": "ABC", "originTopic": "Orders"}
    if world.chance(0.5):
        ext["unitMode"] = world.one(["true", "false"])
    if world.chance(0.4):
        ext["maxReconsumeTimes"] = str(world.one([0, 1, 16]))
    version = world.one(VERSIONS) if world.chance(0.3) else 407
    return Request(RequestCode.CONSUMER_SEND_MSG_BACK, ext, version=version, writes=True)


def forbidden_send(world: World) -> Request:
    ext = fields(world, world.one(FORBIDDEN), 0)
    return Request(RequestCode.SEND_MESSAGE, ext, b"x", writes=True)

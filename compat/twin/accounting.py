"""Requests about accounts, with valid, unknown and wrong signatures.

Some have every right, some few, and what the accounts are changes all the time: whoever was
refused a moment ago may be let in now. No field is empty: Java's broker reads an empty one of a
binary header as none, takes its text for "null", and finds no signature right.
"""

from __future__ import annotations

from dataclasses import replace

from compat.twin.sides import Request
from compat.twin.world import World
from orbitmq._native import dumps_lenient
from orbitmq.protocol.codes import RequestCode
from orbitmq.remoting.hooks import signing

ACCOUNT_CODES = {
    int(RequestCode.UPDATE_AND_CREATE_ACL_CONFIG),
    int(RequestCode.DELETE_ACL_CONFIG),
    int(RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG),
    int(RequestCode.GET_BROKER_CLUSTER_ACL_INFO),
    int(RequestCode.GET_BROKER_CLUSTER_ACL_CONFIG),
}

ROOT, ROOT_SECRET = "administrator", "s3cret-s3cret"
ACCOUNTS = f"""
globalWhiteRemoteAddresses:
- 10.10.103.*
accounts:
- accessKey: {ROOT}
  secretKey: {ROOT_SECRET}
  admin: true
- accessKey: shopkeeper
  secretKey: '012345678'
  admin: false
  defaultTopicPerm: DENY
  defaultGroupPerm: SUB
  topicPerms:
  - Orders=PUB|SUB
  - Prices=SUB
- accessKey: sundial
  secretKey: '135791113'
  admin: false
  defaultTopicPerm: DENY
  defaultGroupPerm: SUB
  topicPerms:
  - Garden=SUB
"""
SUNDIAL, SUNDIAL_SECRET = "sundial", "135791113"

KEYS = ["shopkeeper", "newcomer", "traveller", "neighbour"]
ONLY_LOOKED_AT = ["bystander", "passer-by", "sh0rt"]
"""Nobody signs with these, so they can be changed in part. Java's broker takes what a request says
of an account for all there is, until it reads its file again, seconds later."""
SECRETS = ["012345678", "876543210"]
PERMISSIONS = ["DENY", "PUB", "SUB", "PUB|SUB", "SUB|PUB"]
BAD_PERMISSIONS = ["ALL", "pub", "PUB,SUB", ""]
SENT_TO = ["Orders", "News"]
TOPICS = [*SENT_TO, "Prices"]
GROUPS = ["clerks", "couriers"]
ADDRESSES = ["192.168.1.*", "10.0.0.1", "10.0.1-9.*", "172.16.0.*"]
WHITE_HERE = "127.0.0.1"


def change_account(world: World) -> Request:
    is_looked_at = world.chance(0.3)
    key = world.one(ONLY_LOOKED_AT if is_looked_at else KEYS)
    given = {
        "secretKey": world.one(SECRETS),
        "admin": world.one(["false", "false", "false", "true"]),
        "whiteRemoteAddress": world.one([*ADDRESSES, WHITE_HERE]),
        "defaultTopicPerm": world.one(PERMISSIONS),
        "defaultGroupPerm": world.one(PERMISSIONS),
        "topicPerms": resources(world, TOPICS),
        "groupPerms": resources(world, GROUPS),
    }
    if is_looked_at:
        given = {name: value for name, value in given.items() if world.chance(0.7)}
    if world.chance(0.1):
        given["secretKey"] = world.one(["short", "sixsix"])
    return Request(RequestCode.UPDATE_AND_CREATE_ACL_CONFIG, {"accessKey": key, **given})


def resources(world: World, names: list[str]) -> str:
    permissions = BAD_PERMISSIONS if world.chance(0.1) else PERMISSIONS
    chosen = world.rng.sample(names, world.number(1, len(names)))
    return ",".join(f"{name}={world.one(permissions)}" for name in chosen)


def delete_account(world: World) -> Request:
    return Request(
        RequestCode.DELETE_ACL_CONFIG, {"accessKey": world.one([*KEYS, *ONLY_LOOKED_AT, "nobody1"])}
    )


def change_white(world: World) -> Request:
    count = world.number(1, 3)
    addresses = world.rng.sample(ADDRESSES, count)
    ext = {"globalWhiteAddrs": ",".join(addresses)}
    if world.chance(0.2):
        ext["aclFileFullPath"] = world.one(["nowhere.yml", "plain_acl.yml"])
    return Request(RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG, ext)


def look(world: World) -> Request:
    codes = [
        RequestCode.GET_BROKER_CLUSTER_ACL_INFO,
        RequestCode.GET_BROKER_CLUSTER_ACL_CONFIG,
    ]
    return Request(world.one(codes), {})


def send(world: World) -> Request:
    topic = world.one([*SENT_TO, "%RETRY%clerks"])
    ext = {
        "producerGroup": "makers",
        "topic": topic,
        "defaultTopic": "TBW102",
        "defaultTopicQueueNums": "4",
        "queueId": "0",
        "sysFlag": "0",
        "bornTimestamp": "1700000000000",
        "flag": "0",
        "properties": "WAIT\x01true",
        "reconsumeTimes": "0",
        "group": world.one(GROUPS),
    }
    return Request(RequestCode.SEND_MESSAGE, ext, b"body")


def pull(world: World) -> Request:
    """From a topic nobody sends to: Java's broker shows what was sent a moment later."""
    return _pull(world.one(GROUPS), "Empty" if world.chance(0.5) else "Prices", 100)


def _pull(group: str, topic: str, offset: int) -> Request:
    ext = {
        "consumerGroup": group,
        "topic": topic,
        "queueId": "0",
        "queueOffset": str(offset),
        "maxMsgNums": "8",
        "sysFlag": "4",
        "commitOffset": "0",
        "suspendTimeoutMillis": "0",
        "subscription": "*",
        "subVersion": "0",
    }
    return Request(RequestCode.PULL_MESSAGE, ext)


def heartbeat(world: World) -> Request:
    topics = world.rng.sample(TOPICS, 2)
    consumer = {
        "groupName": world.one(GROUPS),
        "consumeType": "CONSUME_PASSIVELY",
        "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
        "messageModel": "CLUSTERING",
        "subscriptionDataSet": [{"topic": topic, "subString": "*"} for topic in topics],
    }
    body = {"clientID": "127.0.0.1@one", "consumerDataSet": [consumer], "producerDataSet": []}
    return Request(RequestCode.HEART_BEAT, {}, dumps_lenient(body))


def change_topic(world: World) -> Request:
    """For administrators alone."""
    ext = {
        "topic": world.one(["Orders", "Prices", "Empty"]),
        "defaultTopic": "TBW102",
        "readQueueNums": "4",
        "writeQueueNums": "4",
        "perm": "6",
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": "0",
        "order": "false",
    }
    return Request(RequestCode.UPDATE_AND_CREATE_TOPIC, ext)


def commit(world: World) -> Request:
    ext = {
        "consumerGroup": world.one(GROUPS),
        "topic": world.one(TOPICS),
        "queueId": "0",
        "commitOffset": "1",
    }
    return Request(RequestCode.UPDATE_CONSUMER_OFFSET, ext)


def hide_sundial() -> Request:
    """Change the sundial's account in part: Java's broker then takes it for all there is of it."""
    ext = {
        "accessKey": SUNDIAL,
        "secretKey": SUNDIAL_SECRET,
        "admin": "false",
        "defaultTopicPerm": "DENY",
        "defaultGroupPerm": "SUB",
    }
    return signed(Request(RequestCode.UPDATE_AND_CREATE_ACL_CONFIG, ext), ROOT, ROOT_SECRET)


def read_sundial() -> Request:
    """Pull as the sundial from a topic only it may read, and that does not exist."""
    return signed(_pull("gardeners", "Garden", 0), SUNDIAL, SUNDIAL_SECRET)


def look_at_version() -> Request:
    """Query the number of changes to the account file."""
    return signed(Request(RequestCode.GET_BROKER_CLUSTER_ACL_INFO, {}), ROOT, ROOT_SECRET)


KINDS = [
    (100, change_account),
    (30, delete_account),
    (30, change_white),
    (100, look),
    (250, send),
    (200, pull),
    (200, heartbeat),
    (100, commit),
    (100, change_topic),
]
WEIGHTS = [weight for weight, _ in KINDS]
CHANGES = {change_account, delete_account, change_white}


def next_request(world: World) -> Request:
    ((_, kind),) = world.rng.choices(KINDS, WEIGHTS)
    request = kind(world)
    if kind in CHANGES and not world.chance(0.1):
        return signed(request, ROOT, ROOT_SECRET)
    if world.chance(0.1):
        return request  # by nobody
    if world.chance(0.1):
        # Signed, and changed since.
        request = signed(request, ROOT, ROOT_SECRET)
        return replace(request, ext={**(request.ext or {}), "more": "1"})
    key, secret = world.one(
        [
            (ROOT, ROOT_SECRET),
            (world.one(KEYS), world.one(SECRETS)),
            (world.one(KEYS), world.one(SECRETS)),
            ("nobody1", SECRETS[0]),
        ]
    )
    return signed(request, key, secret)


def signed(request: Request, key: str, secret: str) -> Request:
    ext = dict(request.ext or {})
    signing(key, secret)(request.code, ext, request.body)
    return replace(request, ext=ext)

"""Random requests of every code: each is answered with a reason, and service continues.

``ORBITMQ_FUZZ_SEED=random`` looks for new ones; a failure names the seed that repeats it.
"""

from __future__ import annotations

import builtins
from collections import Counter
from typing import Any

from orbitmq._native import Command, dumps_lenient, loads_lenient
from orbitmq.broker.state.groups import GroupTable
from orbitmq.broker.state.offsets import ConsumerOffsets
from orbitmq.broker.state.topics import TopicTable
from orbitmq.config import BrokerConfig
from orbitmq.errors import MalformedJson, NoRoute, WireError
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.protocol.members import Members
from orbitmq.rpc.route_table import TopicRoute
from tests.broker.conftest import Encoding, Wire
from tests.hostile.conftest import Victim
from tests.hostile.random_requests import BODIES, REGISTER, ROUTE, Chance

JSON_REQUESTS = 3000
REGISTRATIONS = 1000
REQUESTS = 6000
TABLES = 800
PER_BURST = 50
PYTHON_ERRORS = tuple(
    name + ": "
    for name, value in vars(builtins).items()
    if isinstance(value, type) and issubclass(value, Exception)
)
"""An answer that begins with one of these shows a missing check."""
ENCODINGS: tuple[Encoding, ...] = ("json", "binary")
AT_NAMESERVER = {RequestCode.REGISTER_BROKER, RequestCode.QUERY_DATA_VERSION}


def has_reason(request: int, answer: Command) -> None:
    remark = answer.remark or ""
    assert not remark.startswith(PYTHON_ERRORS), f"request {request}: {remark}"
    assert "values to unpack" not in remark, f"request {request}: {remark}"


def still_saves_groups(wire: Wire) -> None:
    body = dumps_lenient({"groupName": "after-the-fuzz"})
    created = wire.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)
    assert created.code == ResponseCode.SUCCESS, created.remark
    table = loads_lenient(wire.ask(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG).body)
    assert "after-the-fuzz" in table["subscriptionGroupTable"]


def test_json_bodies_with_mistakes_are_answered_with_a_reason(
    own_victim: Victim, seed: int
) -> None:
    chance = Chance(seed)
    broker, nameserver = Wire(own_victim.broker), Wire(own_victim.nameserver)
    codes = sorted(BODIES)
    for number in range(JSON_REQUESTS):
        code = int(chance.rng.choice(codes))
        wire = nameserver if code in AT_NAMESERVER else broker
        ext = REGISTER if code == RequestCode.REGISTER_BROKER else {"brokerAddr": "127.0.0.1:1"}
        has_reason(code, wire.ask(code, ext, chance.json_body(code)))
        if number % 500 == 0:
            own_victim.serves_others()
    still_saves_groups(broker)
    own_victim.serves_others()
    nameserver.close()
    broker.close()


def test_compressed_registrations_with_mistakes_are_answered_with_a_reason(
    own_victim: Victim, seed: int
) -> None:
    chance = Chance(seed)
    nameserver = Wire(own_victim.nameserver)
    answers = Counter[int]()
    for _ in range(REGISTRATIONS):
        ext = REGISTER | {"compressed": "true"}
        answer = nameserver.ask(RequestCode.REGISTER_BROKER, ext, chance.compressed_registration())
        has_reason(RequestCode.REGISTER_BROKER, answer)
        answers[answer.code] += 1
    assert answers[ResponseCode.SUCCESS] > REGISTRATIONS / 20, "good ones are among them"
    assert answers[ResponseCode.SYSTEM_ERROR] > REGISTRATIONS / 20
    listed = nameserver.ask(RequestCode.GET_BROKER_CLUSTER_INFO)
    assert "fuzzed" in loads_lenient(listed.body)["brokerAddrTable"]
    own_victim.serves_others()
    nameserver.close()


def test_random_requests_of_any_code_are_answered(own_victim: Victim, seed: int) -> None:
    chance = Chance(seed)
    codes = [*map(int, RequestCode), 0, -1, 9999]
    for address in (own_victim.broker, own_victim.nameserver):
        encoding = chance.rng.choice(ENCODINGS)
        wire = Wire(address, encoding)
        for _ in range(REQUESTS // 2 // PER_BURST):
            posted = {}
            for _ in range(PER_BURST):
                code = chance.rng.choice(codes)
                flag = chance.rng.choice([0, 0, 0, 0, 2])
                if encoding == "binary" and code >= 1 << 15:
                    continue  # The binary header has no room for this code.
                opaque = wire.post(
                    code,
                    chance.ext(),
                    chance.body(code),
                    flag=flag,
                    version=chance.rng.choice([0, 28, 317, 407]),
                )
                posted[opaque] = code
            # Held pulls and codes unknown to a nameserver are not answered.
            wire.ask(RequestCode.GET_KV_CONFIG, {"namespace": "n", "key": "k"})
            for opaque, code in posted.items():
                if (answer := wire._responses.pop(opaque, None)) is not None:
                    has_reason(code, answer)
        wire.close()
        own_victim.serves_others()
    wire = Wire(own_victim.broker)
    still_saves_groups(wire)
    wire.close()


def test_routes_and_table_files_with_mistakes_cause_only_known_errors(seed: int) -> None:
    chance = Chance(seed)
    topic = BODIES[RequestCode.REGISTER_BROKER]["topicConfigSerializeWrapper"]
    group = BODIES[RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP]
    for _ in range(TABLES):
        body = dumps_lenient(chance.spoiled(chance.spoiled(ROUTE)))
        try:
            found = TopicRoute.decode("t", body)
        except NoRoute as error:
            assert "'t'" in str(error)
        else:
            assert len(found.publish_queues) + len(found.subscribe_queues) < 100
        tables: list[tuple[Any, Any]] = [
            (TopicTable(BrokerConfig(), lambda: 0), topic),
            (
                GroupTable(auto_create=True, clock=lambda: 0),
                {"subscriptionGroupTable": {"g": group}},
            ),
            (ConsumerOffsets(), {"offsetTable": {"t@g": {"0": 5, "1": 6}}}),
        ]
        for table, value in tables:
            content = dumps_lenient(chance.spoiled(chance.spoiled(value)))
            try:
                members = Members.read(content)
                members.table(next(key for key in value if key != "dataVersion"))
            except (WireError, MalformedJson):
                continue  # The backup is read instead.
            table.load(members)
            dumps_lenient(table.as_json())

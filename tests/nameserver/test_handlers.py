"""Every request over a real socket, in both header encodings."""

from __future__ import annotations

import asyncio
import json
import struct
import threading
import zlib
from pathlib import Path
from typing import Any

import pytest

from orbitmq import persist
from orbitmq._native import body_crc, loads_lenient
from orbitmq.config import parse_properties
from orbitmq.nameserver import kv
from tests.nameserver.calling import Encoding, broker, run, running


@pytest.fixture(params=["json", "binary"])
def encoding(request: pytest.FixtureRequest) -> Encoding:
    value: Encoding = request.param
    return value


def test_a_route_is_returned_in_both_json_dialects(tmp_path: Path, encoding: Encoding) -> None:
    async def test() -> None:
        async with running(tmp_path, encoding) as cluster:
            caller = await cluster.caller()
            await caller.register("brökér", topics={"T": {"topicName": "T", "perm": 6}})
            await caller.register("brökér", address="10.0.0.2:10911", broker_id=1)
            old = await caller.ask(105, topic="T", version=400)
            assert old.body.decode() == (
                '{"brokerDatas":[{"brokerAddrs":{0:"10.0.0.1:10911",1:"10.0.0.2:10911"},'
                '"brokerName":"brökér","cluster":"C1"}],"filterServerTable":{},'
                '"queueDatas":[{"brokerName":"brökér","perm":6,"readQueueNums":16,'
                '"topicSysFlag":0,"writeQueueNums":16}]}'
            )
            new = await caller.ask(105, topic="T", version=401)
            assert new.body.decode() == (
                '{"brokerDatas":[{"brokerAddrs":{"0":"10.0.0.1:10911","1":"10.0.0.2:10911"},'
                '"brokerName":"br\\u00F6k\\u00E9r","cluster":"C1"}],"filterServerTable":{},'
                '"queueDatas":[{"brokerName":"br\\u00F6k\\u00E9r","perm":6,"readQueueNums":16,'
                '"topicSysFlag":0,"writeQueueNums":16}]}'
            )
            asked = await caller.ask(105, topic="T", version=300, acceptStandardJsonOnly="true")
            assert asked.body == new.body

    run(test)


def test_the_route_of_an_unknown_topic_is_refused(tmp_path: Path, encoding: Encoding) -> None:
    async def test() -> None:
        async with running(tmp_path, encoding) as cluster:
            answer = await (await cluster.caller()).ask(105, topic="T9")
            assert answer.code == 17
            assert answer.remark == (
                "No topic route info in name server for the topic: T9"
                "\nSee http://rocketmq.apache.org/docs/faq/ for further details."
            )

    run(test)


def test_cluster_info_and_topic_lists_are_returned(tmp_path: Path, encoding: Encoding) -> None:
    async def test() -> None:
        async with running(tmp_path, encoding) as cluster:
            caller = await cluster.caller()
            assert (await caller.ask(206)).body == b'{"topicList":[]}'
            assert (await caller.ask(304)).body == b'{"topicList":[]}'
            await caller.register()
            assert (await caller.ask(106)).body == (
                b'{"brokerAddrTable":{"broker-a":{"brokerAddrs":{0:"10.0.0.1:10911"},'
                b'"brokerName":"broker-a","cluster":"C1"}},"clusterAddrTable":{"C1":["broker-a"]}}'
            )
            assert (await caller.ask(206)).body == b'{"topicList":["T1","T2"]}'
            assert (await caller.ask(224, cluster="C1")).body == b'{"topicList":["T1","T2"]}'
            assert (await caller.ask(224, cluster="C2")).body == b'{"topicList":[]}'
            assert (await caller.ask(304)).body == (
                b'{"brokerAddr":"10.0.0.1:10911","topicList":["C1","broker-a"]}'
            )
            assert (await caller.ask(311)).body == b'{"topicList":["T2"]}'
            assert (await caller.ask(312)).body == b'{"topicList":["T2"]}'
            assert (await caller.ask(313)).body == b'{"topicList":[]}'
            assert (await caller.ask(216, topic="T1", clusterName="C9")).code == 0
            assert (await caller.ask(216, topic="T1")).code == 0
            assert (await caller.ask(206)).body == b'{"topicList":["T2"]}'

    run(test)


def test_write_permission_is_wiped_and_added(tmp_path: Path, encoding: Encoding) -> None:
    async def test() -> None:
        async with running(tmp_path, encoding) as cluster:
            caller = await cluster.caller()
            await caller.register()
            assert (await caller.ask(205, brokerName="broker-a")).ext == {"wipeTopicCount": "2"}
            assert (await caller.route("T1"))["queueDatas"][0]["perm"] == 4
            await caller.register()
            assert (await caller.route("T1"))["queueDatas"][0]["perm"] == 4
            assert (await caller.ask(327, brokerName="broker-a")).ext == {"addTopicCount": "2"}
            assert (await caller.route("T2"))["queueDatas"][0]["perm"] == 6
            await caller.register(counter=2)
            assert (await caller.route("T2"))["queueDatas"][0]["perm"] == 7

    run(test)


def test_registration_is_answered_with_the_master_and_the_ordered_topics(
    tmp_path: Path, encoding: Encoding
) -> None:
    async def test() -> None:
        async with running(tmp_path, encoding) as cluster:
            caller = await cluster.caller()
            first = await caller.register()
            assert (first.code, first.ext or {}, first.body) == (0, {}, b"")
            await caller.ask(100, namespace="ORDER_TOPIC_CONFIG", key="T1", value="broker-a:4")
            slave = await caller.register(address="10.0.0.2:10911", broker_id=1)
            assert slave.ext == {"masterAddr": "10.0.0.1:10911", "haServerAddr": "10.0.0.1:10912"}
            assert slave.body == b'{"table":{"T1":"broker-a:4"}}'

    run(test)


def test_registrations_are_decoded_in_all_three_forms(tmp_path: Path, encoding: Encoding) -> None:
    def framed(text: bytes) -> bytes:
        return struct.pack(">i", len(text)) + text

    async def test() -> None:
        async with running(tmp_path, encoding) as cluster:
            caller = await cluster.caller()
            stream = (
                framed(b'{"counter":3,"timestamp":9}')
                + struct.pack(">i", 1)
                + framed(b"Z 3 5 6 SINGLE_TAG")
                + framed(b'["f:1"]')
            )
            body = zlib.compress(stream, 9)
            ext = broker("z", address="10.0.0.7:1") | {"haServerAddr": "10.0.0.7:2"}
            crc = str(body_crc(body))
            answer = await caller.ask(103, body, **ext, compressed="true", bodyCrc32=crc)
            assert answer.code == 0, answer.remark
            route = await caller.route("Z")
            assert route["filterServerTable"] == {"10.0.0.7:1": ["f:1"]}
            assert route["queueDatas"][0]["writeQueueNums"] == 5

            ext = broker("old", address="10.0.0.8:1") | {"haServerAddr": "10.0.0.1:2"}
            body = b'{"dataVersion":{},"topicConfigTable":{"O":{"topicName":"O"}}}'
            assert (await caller.ask(103, body, version=36, **ext)).code == 0
            assert (await caller.route("O"))["brokerDatas"][0]["brokerName"] == "old"

            ext = broker("none", address="10.0.0.9:1") | {"haServerAddr": "10.0.0.1:2"}
            assert (await caller.ask(103, **ext)).code == 0
            assert "none" in loads_lenient((await caller.ask(106)).body)["brokerAddrTable"]

    run(test)


@pytest.mark.parametrize(
    ("body", "more"),
    [
        (b"{", {}),
        (b"[1]", {}),
        (b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"T":1}}}', {}),
        (b"not zlib", {"compressed": "true"}),
        (zlib.compress(struct.pack(">i", 1 << 30)), {"compressed": "true"}),
        (zlib.compress(b"\0"), {"compressed": "true"}),
        (b"{}", {"bodyCrc32": "12345"}),
    ],
)
def test_a_broken_registration_changes_nothing(
    tmp_path: Path, body: bytes, more: dict[str, Any]
) -> None:
    async def test() -> None:
        async with running(tmp_path) as cluster:
            caller = await cluster.caller()
            ext = broker() | {"haServerAddr": "10.0.0.1:2"} | more
            answer = await caller.ask(103, body, **ext)
            assert answer.code == 1
            if "bodyCrc32" in more:
                assert answer.remark == "crc32 not match"
            assert loads_lenient((await caller.ask(106)).body)["brokerAddrTable"] == {}

    run(test)


def test_data_versions_are_compared(tmp_path: Path, encoding: Encoding) -> None:
    async def test() -> None:
        async with running(tmp_path, encoding) as cluster:
            caller = await cluster.caller()
            same = b'{"counter":1,"timestamp":7}'
            unknown = await caller.ask(322, same, **broker())
            assert (unknown.ext, unknown.body) == ({"changed": "true"}, b"")
            await caller.register()
            equal = await caller.ask(322, same, **broker())
            assert (equal.ext, equal.body) == ({"changed": "false"}, same)
            other = await caller.ask(322, b'{"counter":2,"timestamp":7}', **broker())
            assert (other.ext, other.body) == ({"changed": "true"}, same)

    run(test)


def test_an_unregistered_broker_leaves_the_routes(tmp_path: Path, encoding: Encoding) -> None:
    async def test() -> None:
        async with running(tmp_path, encoding) as cluster:
            caller = await cluster.caller()
            await caller.register()
            assert (await caller.ask(104, **broker())).code == 0
            assert await caller.route("T1") == 17

    run(test)


def test_kv_values_are_stored_and_saved(tmp_path: Path, encoding: Encoding) -> None:
    async def test() -> None:
        async with running(tmp_path, encoding) as cluster:
            caller = await cluster.caller()
            missing = await caller.ask(101, namespace="N", key="k")
            assert (missing.code, missing.remark) == (22, "No config item, Namespace: N Key: k")
            assert (await caller.ask(219, namespace="N")).code == 22
            await caller.ask(100, namespace="N", key="k", value="v=1;é")
            await caller.ask(100, namespace="N", key="l", value="")
            assert (await caller.ask(101, namespace="N", key="k")).ext == {"value": "v=1;é"}
            await caller.ask(102, namespace="N", key="l")
        file = tmp_path / "kvConfig.json"
        assert json.loads(file.read_bytes()) == {"configTable": {"N": {"k": "v=1;é"}}}
        assert file.with_name("kvConfig.json.bak").exists()
        async with running(tmp_path, encoding) as cluster:
            caller = await cluster.caller()
            assert loads_lenient((await caller.ask(219, namespace="N")).body) == {
                "table": {"k": "v=1;é"}
            }
            await caller.ask(102, namespace="N", key="k")
            assert (await caller.ask(219, namespace="N")).body == b'{"table":{}}'

    run(test)


def test_ordered_topics_show_in_routes_when_enabled(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as cluster:
            caller = await cluster.caller()
            await caller.register()
            await caller.ask(100, namespace="ORDER_TOPIC_CONFIG", key="T1", value="broker-a:4")
            assert "orderTopicConf" not in await caller.route("T1")
            assert (await caller.ask(318, b"orderMessageEnable=true")).code == 0
            assert (await caller.route("T1"))["orderTopicConf"] == "broker-a:4"
            assert "orderTopicConf" not in await caller.route("T2")

    run(test)


def test_settings_are_returned_changed_and_saved(tmp_path: Path, encoding: Encoding) -> None:
    async def test() -> None:
        async with running(tmp_path, encoding) as cluster:
            caller = await cluster.caller()
            told = parse_properties((await caller.ask(319)).body.decode())
            assert told["productEnvName"] == "center"
            assert told["serverChannelMaxIdleTimeSeconds"] == "120"
            change = b"orderMessageEnable=true\nserverWorkerThreads=x\nnoSuchKey=1"
            assert (await caller.ask(318, change)).code == 0
            told = parse_properties((await caller.ask(319)).body.decode())
            assert told["orderMessageEnable"] == "true"
            assert told["serverWorkerThreads"] == "8"
            assert "noSuchKey" not in told
            assert parse_properties((tmp_path / "namesrv.properties").read_text()) == told

    run(test)


def test_changed_settings_keep_the_rest_of_the_file(tmp_path: Path) -> None:
    """Without its TLS lines a nameserver would restart open to everybody."""
    file = tmp_path / "namesrv.properties"
    before = (
        "# Ours.\ntls.server.mode=enforcing\ntls.server.keyPassword=hush\nnoSuchKey=1\n"
        "orderMessageEnable=false\n"
    )
    file.write_text(before)
    file.chmod(0o600)

    async def test() -> None:
        async with running(tmp_path) as cluster:
            caller = await cluster.caller()
            assert (await caller.ask(318, b"orderMessageEnable=true")).code == 0

    run(test)
    assert file.read_text() == before.replace("Enable=false", "Enable=true")
    for path in (file, file.with_name(file.name + ".bak")):
        assert path.stat().st_mode & 0o777 == 0o600, "the password is for nobody else"


def test_concurrent_kv_changes_are_saved_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saves = []
    save = persist.save

    def counted(path: Path, content: bytes) -> None:
        saves.append(threading.current_thread())
        save(path, content)

    monkeypatch.setattr(persist, "save", counted)
    callers, values = 20, 10

    async def test() -> None:
        async with running(tmp_path) as cluster:

            async def put(number: int) -> None:
                caller = await cluster.caller()
                for value in range(values):
                    key = f"{number}-{value}"
                    assert (await caller.ask(100, namespace="N", key=key, value="v")).code == 0
                    kept = json.loads((tmp_path / "kvConfig.json").read_bytes())
                    assert key in kept["configTable"]["N"], "acknowledged and not on disk"

            await asyncio.gather(*(put(number) for number in range(callers)))

    run(test)
    assert len(saves) < callers * values / 2
    assert threading.main_thread() not in saves, "the event loop waited for the disk"


def test_the_size_of_the_kv_table_is_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kv, "MAX_CHARS", 1000)

    async def test() -> None:
        async with running(tmp_path) as cluster:
            caller = await cluster.caller()
            for key in ("k", "l"):
                put = await caller.ask(100, namespace="N", key=key, value="x" * 300)
                assert put.code == 0, put.remark
            full = await caller.ask(100, namespace="N", key="m", value="x" * 300)
            assert full.code == 1
            assert "of at most 1000 characters" in (full.remark or "")
            assert (await caller.ask(101, namespace="N", key="m")).code == 22
            # A smaller value may replace another one, and a new one fits after one was removed.
            assert (await caller.ask(100, namespace="N", key="k", value="y")).code == 0
            await caller.ask(102, namespace="N", key="l")
            assert (await caller.ask(100, namespace="N", key="m", value="x" * 300)).code == 0
        async with running(tmp_path) as cluster:
            caller = await cluster.caller()
            assert (await caller.ask(100, namespace="N", key="n", value="x" * 600)).code == 1

    run(test)


def test_saving_kv_values_keeps_other_content_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "kvConfig.json"
    file.write_text('{"configTable":{"N":{"k":"v"}},"madeBy":"somebody else"}')

    async def test() -> None:
        async with running(tmp_path) as cluster:
            caller = await cluster.caller()
            assert (await caller.ask(100, namespace="N", key="l", value="w")).code == 0

    run(test)
    assert json.loads(file.read_text()) == {
        "configTable": {"N": {"k": "v", "l": "w"}},
        "madeBy": "somebody else",
    }


@pytest.mark.parametrize(
    ("change", "code", "remark"),
    [
        (b"kvConfigPath=/etc/passwd\norderMessageEnable=true", 16, "Can not update config path"),
        (b"configStorePath=/etc/cron.d/x", 16, "Can not update config path"),
        (b"kvConfig\\u0050ath=x", 16, "Can not update config path"),
        (b"rocketmqHome=/x", 16, "Can not update config rocketmqHome by a request"),
        (b"a=\\uXYZ", 1, "string2Properties error"),
    ],
)
def test_protected_and_invalid_settings_are_not_changed(
    tmp_path: Path, change: bytes, code: int, remark: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        async with running(tmp_path) as cluster:
            caller = await cluster.caller()
            before = (await caller.ask(319)).body
            answer = await caller.ask(318, change)
            assert (answer.code, answer.remark) == (code, remark)
            assert (await caller.ask(319)).body == before
        logged = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
        assert len(logged) == (code == 16), "what may not be changed is logged, slips are not"
        assert all("refused to change" in line and "127.0.0.1" in line for line in logged)
        assert not (tmp_path / "namesrv.properties").exists()

    run(test)


def test_an_unknown_code_gets_no_answer(tmp_path: Path, encoding: Encoding) -> None:
    async def test() -> None:
        async with running(tmp_path, encoding) as cluster:
            caller = await cluster.caller()
            caller.tell(9999)
            caller.tell(34)
            # The next answer belongs to the next request.
            assert (await caller.ask(206)).code == 0

    run(test)


@pytest.mark.parametrize(
    ("code", "answer_code", "remark"),
    [
        (100, 1, "namespace or key is null"),
        (101, 22, "No config item, Namespace: null Key: null"),
        (102, 0, None),
        (103, 1, "HeaderFault: field brokerName is missing"),
        (104, 1, "HeaderFault: field brokerId is missing"),
        (205, 0, None),
        (216, 0, None),
        (219, 22, "No config item, Namespace: null"),
        (224, 0, None),
        (327, 0, None),
    ],
)
def test_requests_with_missing_fields_are_refused(
    tmp_path: Path, code: int, answer_code: int, remark: str | None
) -> None:
    async def test() -> None:
        async with running(tmp_path) as cluster:
            caller = await cluster.caller()
            answer = await caller.ask(code)
            assert (answer.code, answer.remark) == (answer_code, remark)
            nameless = await caller.ask(105)
            assert (nameless.code, "topic: null" in (nameless.remark or "")) == (17, True)

    run(test)


def test_a_put_without_a_value_removes_the_value(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as cluster:
            caller = await cluster.caller()
            await caller.ask(100, namespace="N", key="k", value="v")
            assert (await caller.ask(100, namespace="N", key="k")).code == 0
            assert (await caller.ask(101, namespace="N", key="k")).code == 22

    run(test)

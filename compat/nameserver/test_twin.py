"""A seeded random session sent to both nameservers: the same answers all the way.

Left out of the session, because Java answers by the order of its hash tables: a broker name in two
clusters or an address under two names when its connection closes, and a topic whose brokers
disagree about its system flag; and a registration without a name, address or cluster, which Java
enters as null and we refuse. Left out of the comparison: the order of lists, the words of a
failure that Java writes with a stack frame, and which broker a list of system topics names.
"""

from __future__ import annotations

import json
import random
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat.nameserver.asking import Asker, Encoding, comparable
from compat.nameserver.conftest import Pair
from compat.nameserver.tools import pause, within
from orbitmq._native import body_crc
from orbitmq.config import parse_properties

REQUESTS = 5000
NAMES = ("broker-a", "broker-b", "brökér")
TOPICS = {"T0": 0, "T1": 1, "T2": 2, "T3": 3, "Tü": 0}
NAMESPACES = ("ORDER_TOPIC_CONFIG", "N")
Request = tuple[int, dict[str, str], bytes | None, int]


class Session:
    """Chooses requests; each broker address has its own connection on either side."""

    def __init__(self, seed: int, addresses: tuple[str, str], encoding: Encoding) -> None:
        self._choose = random.Random(seed)
        self._addresses = addresses
        self._encoding = encoding
        self._askers: dict[str, tuple[Asker, Asker]] = {}

    def askers(self, who: str) -> tuple[Asker, Asker]:
        if who not in self._askers:
            java, orbit = (Asker(address, self._encoding) for address in self._addresses)
            self._askers[who] = (java, orbit)
        return self._askers[who]

    def close(self, who: str) -> None:
        for asker in self._askers.pop(who, ()):
            asker.close()

    def close_all(self) -> None:
        for who in list(self._askers):
            self.close(who)

    def run(self, count: int) -> None:
        for number in range(count):
            if self._choose.random() < 0.02:
                self._lose_a_connection()
                continue
            who, request = self._request()
            java, orbit = (comparable(asker.ask(*request)) for asker in self.askers(who))
            assert orbit == java, f"request {number}: {request}"

    def _lose_a_connection(self) -> None:
        brokers = [who for who in self._askers if who != "client"]
        if not brokers:
            return
        self.close(self._choose.choice(brokers))
        deadline = within(30)
        while True:  # Each side notices in its own time.
            java, orbit = (comparable(asker.ask(106)) for asker in self.askers("client"))
            lists = [comparable(asker.ask(206)) for asker in self.askers("client")]
            if java == orbit and lists[0] == lists[1]:
                return
            assert within(0) < deadline, (java, orbit, lists)
            pause(0.01)

    # ---- Requests

    def _request(self) -> tuple[str, Request]:
        kinds = {
            self._register: 25,
            self._unregister: 4,
            self._version: 8,
            self._route: 25,
            self._list: 12,
            self._kv: 12,
            self._permission: 5,
            self._delete_topic: 3,
            self._broken: 6,
        }
        (kind,) = self._choose.choices(list(kinds), list(kinds.values()))
        return kind()

    def _broker(self) -> tuple[str, dict[str, str]]:
        name = self._choose.randrange(len(NAMES))
        address = f"10.0.{name}.{self._choose.randint(1, 3)}:10911"
        broker_id = self._choose.choice([0, 0, 0, 1, 2])
        return address, {
            "brokerName": NAMES[name],
            "brokerAddr": address,
            "clusterName": "C1" if name < 2 else "C2",
            "brokerId": str(broker_id),
        }

    def _data_version(self) -> dict[str, int]:
        return {"counter": self._choose.randint(1, 3), "timestamp": 7}

    def _register(self) -> tuple[str, Request]:
        choose = self._choose
        address, ext = self._broker()
        ext["haServerAddr"] = address.replace("10911", "10912")
        filters = choose.choice([[], [], ["10.9.9.9:1"]])
        form = choose.choice(["plain", "plain", "compressed", "old", "none"])
        version = 36 if form == "old" else 407
        topics = choose.sample(sorted(TOPICS), choose.randint(0, len(TOPICS)))
        if form == "compressed":
            topics = [topic for topic in topics if TOPICS[topic] == 0]
            body = self._compressed(topics, filters)
            ext["compressed"] = "true"
        else:
            wrapper = {
                "dataVersion": self._data_version(),
                "topicConfigTable": {topic: self._topic(topic) for topic in topics},
            }
            whole = {"filterServerList": filters, "topicConfigSerializeWrapper": wrapper}
            body = json.dumps(wrapper if form == "old" else whole).encode()
        if choose.random() < 0.3:
            ext["bodyCrc32"] = str(body_crc(body) if choose.random() < 0.8 else 12345)
        if form == "none" and "bodyCrc32" not in ext:
            return address, (103, ext, None, version)
        return address, (103, ext, body, version)

    def _topic(self, topic: str) -> dict[str, object]:
        return {
            "topicName": topic,
            "readQueueNums": self._choose.randint(1, 9),
            "writeQueueNums": self._choose.randint(1, 9),
            "perm": self._choose.choice([6, 6, 7, 4, 2]),
            "topicSysFlag": TOPICS[topic],
            "topicFilterType": "SINGLE_TAG",
            "order": False,
        }

    def _compressed(self, topics: list[str], filters: list[str]) -> bytes:
        def framed(text: str) -> bytes:
            return struct.pack(">i", len(text.encode())) + text.encode()

        lines = [f"{topic} {self._choose.randint(1, 9)} 3 6 SINGLE_TAG" for topic in topics]
        stream = framed(json.dumps(self._data_version())) + struct.pack(">i", len(lines))
        return zlib.compress(stream + b"".join(map(framed, lines)) + framed(json.dumps(filters)), 9)

    def _unregister(self) -> tuple[str, Request]:
        _, ext = self._broker()
        return "client", (104, ext, None, 407)

    def _version(self) -> tuple[str, Request]:
        address, ext = self._broker()
        return address, (322, ext, json.dumps(self._data_version()).encode(), 407)

    def _route(self) -> tuple[str, Request]:
        ext = {"topic": self._choose.choice([*TOPICS, "unknown"])}
        if self._choose.random() < 0.3:
            ext["acceptStandardJsonOnly"] = self._choose.choice(["true", "TRUE", "false", "x"])
        return "client", (105, ext, None, self._choose.choice([300, 400, 401, 407, 450]))

    def _list(self) -> tuple[str, Request]:
        code = self._choose.choice([106, 206, 224, 304, 311, 312, 313])
        ext = {"cluster": self._choose.choice(["C1", "C2", "C3"])} if code == 224 else {}
        return "client", (code, ext, None, 407)

    def _kv(self) -> tuple[str, Request]:
        code = self._choose.choice([100, 100, 101, 101, 102, 219])
        ext = {"namespace": self._choose.choice(NAMESPACES)}
        if code != 219:
            ext["key"] = self._choose.choice([*TOPICS, "k"])
        if code == 100:
            ext["value"] = self._choose.choice(["broker-a:4;broker-b:4", "é", 'a "b" \\'])
        return "client", (code, ext, None, 407)

    def _permission(self) -> tuple[str, Request]:
        ext = {"brokerName": self._choose.choice([*NAMES, "unknown"])}
        return "client", (self._choose.choice([205, 327]), ext, None, 407)

    def _delete_topic(self) -> tuple[str, Request]:
        ext = {"topic": self._choose.choice([*TOPICS, "unknown"])}
        if self._choose.random() < 0.6:
            ext["clusterName"] = self._choose.choice(["C1", "C2", "C3"])
        return "client", (216, ext, None, 407)

    def _broken(self) -> tuple[str, Request]:
        """Return a valid request with a field removed, a malformed number, or a truncated body."""
        kinds = [self._register, self._unregister, self._version, self._route, self._kv]
        who, (code, ext, body, version) = self._choose.choice([*kinds, self._permission])()
        harm = self._choose.choice(["field", "number", "body"])
        ext.pop("bodyCrc32", None)  # One fault at a time.
        if harm == "number" and "brokerId" in ext:
            ext["brokerId"] = self._choose.choice(["", "x", "1.5"])
        elif harm == "body" and body and code == 103:
            body = body[: len(body) // 2]
        elif code != 103:
            ext.pop(self._choose.choice(sorted(ext)))
        return who, (code, ext, body, version)


@pytest.fixture(params=["json", "binary"])
def session(request: pytest.FixtureRequest, pair: Pair) -> Iterator[Session]:
    session = Session(497, pair.addresses, request.param)
    yield session
    session.close_all()


def test_random_sessions_are_answered_alike(session: Session) -> None:
    session.run(REQUESTS)


def test_an_unknown_code_gets_no_answer(pair: Pair) -> None:
    for address in pair.addresses:
        asker = Asker(address)
        asker.tell(9999, {})
        assert asker.ask(206).code == 0
        asker.close()


@pytest.mark.parametrize(
    ("change", "differs"),
    [
        (b"orderMessageEnable=true", False),
        (b"orderMessageEnable=nonsense\nnoSuchKey=1", False),
        (b"serverWorkerThreads=x", False),
        (None, False),
        (b"kvConfigPath=/x\norderMessageEnable=true", False),
        (b"configStorePath=/x", False),
        (b"a=\\uXYZ", False),
        # Java accepts anything but its two paths.
        (b"rocketmqHome=/x", True),
    ],
)
def test_settings_are_changed_alike(pair: Pair, change: bytes | None, differs: bool) -> None:
    told = []
    for address in pair.addresses:
        asker = Asker(address)
        answer = asker.ask(318, {}, change)
        settings = parse_properties(asker.ask(319).body.decode())
        of_the_process = ("rocketmqHome", "kvConfigPath", "configStorePath", "listenPort")
        our_own = ("aclEnable",)
        for key in of_the_process + our_own:
            settings.pop(key, None)
        told.append((answer.code, answer.remark, settings))
        asker.close()
    java, orbit = told
    if differs:
        assert (java[0], orbit[0]) == (0, 16)
    else:
        assert orbit == java


def test_values_are_kept_in_the_same_file(pair: Pair, tmp_path: Path) -> None:
    for address in pair.addresses:
        asker = Asker(address)
        asker.ask(100, {"namespace": "kept", "key": "é", "value": 'a;"b"'})
        asker.close()
    java = pair.java.directory / "home" / "namesrv" / "kvConfig.json"
    orbit = pair.orbit.directory / "namesrv" / "kvConfig.json"
    kept = [json.loads(path.read_bytes())["configTable"]["kept"] for path in (java, orbit)]
    assert kept == [{"é": 'a;"b"'}] * 2
    assert orbit.read_bytes().startswith(b'{"configTable":{')
    assert java.read_bytes().startswith(b'{"configTable":{')

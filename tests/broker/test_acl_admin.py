"""Accounts changed by requests: rights, validation, and the account files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from orbitmq._native import Command, loads_lenient
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.testing import LocalCluster
from tests.broker.conftest import Wire, broker_address, send_ext
from tests.broker.test_acl import ACL_ERROR, Signed

ACCOUNTS = """
globalWhiteRemoteAddresses: [10.10.103.*]
accounts:
- accessKey: manager1
  secretKey: s3cret-s3cret
  admin: true
- accessKey: shopkeeper
  secretKey: 012345678
  topicPerms: [orders=PUB]
"""
ELSEWHERE = "accounts: [{accessKey: elsewhere, secretKey: elsewhere1, defaultTopicPerm: PUB}]"

Login = Callable[[str, str], Signed]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    conf = tmp_path / "home" / "conf"
    (conf / "acl").mkdir(parents=True)
    (conf / "plain_acl.yml").write_text(ACCOUNTS)
    (conf / "plain_acl.yml").chmod(0o640)
    (conf / "acl" / "more.yml").write_text(ELSEWHERE)
    return conf.parent


@pytest.fixture(params=["false", "true"], ids=["as in 4.9.7", "strict"])
def cluster(request: pytest.FixtureRequest, home: Path) -> Iterator[LocalCluster]:
    settings = {"aclEnable": "true", "rocketmqHome": str(home), "aclStrict": request.param}
    with LocalCluster(settings=settings) as running:
        yield running


@pytest.fixture
def login(cluster: LocalCluster) -> Iterator[Login]:
    made: list[Signed] = []

    def make(key: str, secret: str) -> Signed:
        made.append(Signed(broker_address(cluster), "json", key, secret))
        return made[-1]

    yield make
    for wire in made:
        wire.close()


@pytest.fixture
def manager(login: Login) -> Signed:
    return login("manager1", "s3cret-s3cret")


def update(wire: Signed, **fields: str) -> Command:
    return wire.signed(RequestCode.UPDATE_AND_CREATE_ACL_CONFIG, fields)


def sends(wire: Signed, topic: str) -> bool:
    return wire.signed(RequestCode.SEND_MESSAGE, send_ext(topic), b"x").code == 0


def entries(path: Path) -> dict[str, dict[str, object]]:
    return {one["accessKey"]: one for one in yaml.safe_load(path.read_text())["accounts"]}


def test_an_account_is_added_changed_and_removed(manager: Signed, login: Login, home: Path) -> None:
    path = home / "conf" / "plain_acl.yml"
    made = {"accessKey": "newcomer", "secretKey": "newcomer1", "topicPerms": "a=PUB,b=PUB|SUB"}
    assert update(manager, **made, defaultGroupPerm="SUB").code == ResponseCode.SUCCESS
    newcomer = login("newcomer", "newcomer1")
    assert sends(newcomer, "a")
    assert not sends(newcomer, "c")
    assert path.stat().st_mode & 0o777 == 0o640

    changed = {"accessKey": "newcomer", "secretKey": "newcomer2", "topicPerms": "c=PUB"}
    assert update(manager, **changed).code == ResponseCode.SUCCESS
    assert not sends(newcomer, "c"), "the old secret is none any more"
    newcomer = login("newcomer", "newcomer2")
    assert sends(newcomer, "c")
    assert not sends(newcomer, "a")
    entry = entries(path)["newcomer"]
    assert entry["defaultGroupPerm"] == "SUB", "what was not given stays"
    assert list(entries(path)) == ["manager1", "shopkeeper", "newcomer"]

    gone = {"accessKey": "newcomer"}
    assert manager.signed(RequestCode.DELETE_ACL_CONFIG, gone).code == ResponseCode.SUCCESS
    assert not sends(newcomer, "c")
    again = manager.signed(RequestCode.DELETE_ACL_CONFIG, gone)
    assert again.code == ResponseCode.DELETE_ACL_CONFIG_FAILED
    assert again.remark == (
        "The accesskey[newcomer] corresponding to accessConfig has been deleted failed."
    )
    assert "012345678" in path.read_text(), "a secret of digits keeps its zero"
    assert sends(login("shopkeeper", "012345678"), "orders")


def test_an_account_is_changed_in_the_file_that_has_it(manager: Signed, home: Path) -> None:
    update(manager, accessKey="elsewhere", secretKey="elsewhere2", defaultTopicPerm="SUB")
    entry = entries(home / "conf" / "acl" / "more.yml")["elsewhere"]
    assert (entry["secretKey"], entry["defaultTopicPerm"]) == ("elsewhere2", "SUB")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"accessKey": "short", "secretKey": "12345678"}, "length should longer than 6"),
        ({"accessKey": "newcomer"}, "cannot be null"),
        ({"topicPerms": "orders"}, "The expected resource format is 'Res=Perm'"),
        ({"topicPerms": "orders=ALL"}, "The expected permissions are"),
        ({"whiteRemoteAddress": "10.1.2.9-3"}, "10.1.2.9-3"),
    ],
)
def test_invalid_accounts_are_refused(
    manager: Signed, home: Path, fields: dict[str, str], words: str
) -> None:
    if len(fields) == 1 and "accessKey" not in fields:
        fields = {"accessKey": "newcomer", "secretKey": "newcomer1"} | fields
    answer = update(manager, **fields)
    assert answer.code == ResponseCode.UPDATE_AND_CREATE_ACL_CONFIG_FAILED
    assert words in (answer.remark or "")
    assert (home / "conf" / "plain_acl.yml").read_text() == ACCOUNTS


def test_white_addresses_are_changed_by_administrators(
    manager: Signed, cluster: LocalCluster, home: Path
) -> None:
    code = RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG
    stranger = Wire(broker_address(cluster))
    victim = home / "victim.txt"
    victim.write_text("precious")
    for file in (str(victim), "/etc/passwd", "conf/plain_acl.yml"):
        fields = {"globalWhiteAddrs": "127.0.0.1", "aclFileFullPath": file}
        answer = manager.signed(code, fields)
        assert answer.code == ResponseCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG_FAILED
        assert answer.remark == "The globalWhiteAddresses[127.0.0.1] has been updated failed."
    assert victim.read_text() == "precious"
    assert stranger.send("orders").code != 0
    assert manager.signed(code, {"globalWhiteAddrs": "nonsense"}).code == 211
    more = str(home / "conf" / "acl" / "more.yml")
    fields = {"globalWhiteAddrs": "127.0.0.1,10.1.2.*", "aclFileFullPath": more}
    assert manager.signed(code, fields).code == 0
    assert stranger.send("orders").code == 0
    stranger.close()


def test_versions_and_accounts_are_returned(manager: Signed, home: Path) -> None:
    asked = RequestCode.GET_BROKER_CLUSTER_ACL_INFO
    before = json.loads(manager.signed(asked).get_ext("version") or "{}")
    update(manager, accessKey="newcomer", secretKey="newcomer1")
    told = manager.signed(asked).ext or {}
    after = json.loads(told["version"])
    assert after["counter"] == before["counter"] + 1
    assert after["timestamp"] > 1_700_000_000_000
    files = json.loads(told["allAclFileVersion"])
    assert files.keys() == {
        str(home / "conf" / "plain_acl.yml"),
        str(home / "conf" / "acl" / "more.yml"),
    }
    assert (told["brokerName"], told["clusterName"]) == ("broker-a", "DefaultCluster")
    config = loads_lenient(manager.signed(RequestCode.GET_BROKER_CLUSTER_ACL_CONFIG).body)
    assert config["globalWhiteAddrs"] == ["10.10.103.*"]
    keys = [one["accessKey"] for one in config["plainAccessConfigs"]]
    assert keys == ["manager1", "shopkeeper", "newcomer", "elsewhere"]
    assert config["plainAccessConfigs"][0]["admin"] is True


def test_accounts_are_changed_by_administrators_when_checks_are_strict(
    cluster: LocalCluster, login: Login
) -> None:
    (broker,) = cluster.brokers.values()
    answer = update(login("shopkeeper", "012345678"), accessKey="newcomer", secretKey="newcomer1")
    if broker.config.acl_strict:
        assert (answer.remark or "").startswith(ACL_ERROR + "Need admin permission")
    else:
        assert answer.code == 0
    unsigned = Wire(broker_address(cluster))
    for code in range(50, 55):
        assert (unsigned.ask(code).remark or "").startswith(ACL_ERROR)
    unsigned.close()


def test_account_changes_are_refused_when_access_control_is_off() -> None:
    with LocalCluster() as cluster:
        wire = Wire(broker_address(cluster))
        fields = {"accessKey": "newcomer", "secretKey": "newcomer1", "globalWhiteAddrs": "*"}
        codes = [wire.ask(code, fields).code for code in range(50, 55)]
        assert codes == [209, 210, 1, 211, 1]
        wire.close()

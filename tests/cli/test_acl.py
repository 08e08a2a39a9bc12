"""``orbitmq acl`` as an administrator, and its refusal for others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from orbitmq.testing import LocalCluster
from tests.cli.conftest import Run

ACCOUNTS = """
accounts:
- accessKey: manager1
  secretKey: s3cret-s3cret
  admin: true
"""
MANAGER = ("--access-key", "manager1", "--secret-key", "s3cret-s3cret")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    home = tmp_path_factory.mktemp("home")
    (home / "conf").mkdir()
    (home / "conf" / "plain_acl.yml").write_text(ACCOUNTS)
    with LocalCluster(settings={"aclEnable": "true", "rocketmqHome": str(home)}) as cluster:
        yield cluster


def test_accounts_are_set_listed_and_deleted(run: Run, cluster: LocalCluster) -> None:
    def ask(*words: str) -> Any:
        return run(*words, *MANAGER, "-o", "json").json

    made = ("acl", "set", "shopkeeper", "-b", "broker-a", "-s", "012345678", "--topics", "DENY")
    ask(*made, "--topic", "orders=PUB", "--topic", "bills=SUB")
    accounts = {one["accessKey"]: one for one in ask("acl", "list")["accounts"]}
    assert accounts["shopkeeper"]["topicPerms"] == ["orders=PUB", "bills=SUB"]
    assert accounts["shopkeeper"]["secretKey"] == "***"
    shown = ask("acl", "list", "--show-secrets")["accounts"]
    assert {one["secretKey"] for one in shown} == {"s3cret-s3cret", "012345678"}
    ask("acl", "white-addresses", "10.9.8.*", "-c", "DefaultCluster")
    assert ask("acl", "versions")[0]["version"] >= 1
    ask("mqadmin", "deleteAccessConfig", "-a", "shopkeeper", "-c", "DefaultCluster")
    assert [one["accessKey"] for one in ask("acl", "list")["accounts"]] == ["manager1"]
    run("acl", "delete", "shopkeeper", "-b", "broker-a", *MANAGER, code=5)
    assert "Say where" in run("acl", "delete", "shopkeeper", *MANAGER, code=2).err


def test_an_account_stays_an_administrator_when_its_secret_changes(run: Run) -> None:
    def is_admin() -> bool:
        answer = run("acl", "list", *MANAGER, "-o", "json").json
        (found,) = [one for one in answer["accounts"] if one["accessKey"] == "second1"]
        return bool(found["admin"])

    place = ("second1", "-c", "DefaultCluster")
    run("acl", "set", *place, "-s", "012345678", "--admin", *MANAGER)
    run("acl", "set", *place, "-s", "876543210", *MANAGER)
    assert is_admin()
    of_mqadmin = ("-a", "second1", "-s", "012345678", "-c", "DefaultCluster")
    run("mqadmin", "updateAclConfig", *of_mqadmin, *MANAGER)
    assert not is_admin()


def test_unsigned_and_wrongly_signed_commands_are_refused(run: Run) -> None:
    unsigned = run("acl", "list", code=1)
    assert "AclException" in unsigned.err
    wrong = ("--access-key", "manager1", "--secret-key", "wrong-wrong")
    assert "AclException" in run("topic", "create", "T", *wrong, code=1).err
    assert "belong together" in run("topic", "list", "--access-key", "manager1", code=2).err
    assert run("topic", "create", "T", *MANAGER).code == 0

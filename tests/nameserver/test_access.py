"""Accounts at the nameserver, for those who want them there, too."""

from __future__ import annotations

import asyncio
from pathlib import Path

from orbitmq._native import Command
from orbitmq.config import NameserverConfig
from orbitmq.nameserver.app import Nameserver
from orbitmq.protocol.codes import RequestCode
from orbitmq.remoting.client import RemotingClient
from orbitmq.remoting.hooks import signing

ACCOUNTS = """
accounts:
  - {accessKey: shopkeeper, secretKey: shopkeeper1}
  - {accessKey: manager1, secretKey: manager-secret, admin: true}
"""
KV = {"namespace": "n", "key": "k", "value": "v"}


async def ask(address: str, code: int, ext: dict[str, str], key: str, secret: str) -> Command:
    client = RemotingClient()
    given = dict(ext)
    if key:
        signing(key, secret)(code, given, None)
    try:
        return await client.invoke(address, code, ext=given)
    finally:
        await client.close()


async def attack(home: Path, data: Path) -> list[int]:
    config = NameserverConfig()
    config.acl_enable, config.rocketmq_home = True, str(home)
    config.listen_port = 0
    config.kv_config_path = str(data / "kv.json")
    nameserver = Nameserver(config, hosts=["127.0.0.1"])
    await nameserver.start()
    cluster_info = int(RequestCode.GET_BROKER_CLUSTER_INFO)
    put = int(RequestCode.PUT_KV_CONFIG)
    try:
        answers = [
            await ask(nameserver.address, cluster_info, {}, "", ""),
            await ask(nameserver.address, cluster_info, {}, "shopkeeper", "wrong-secret"),
            await ask(nameserver.address, cluster_info, {}, "shopkeeper", "shopkeeper1"),
            await ask(nameserver.address, put, KV, "shopkeeper", "shopkeeper1"),
            await ask(nameserver.address, put, KV, "manager1", "manager-secret"),
        ]
    finally:
        await nameserver.stop()
    return [answer.code for answer in answers]


def test_requests_must_be_signed_and_changes_by_an_administrator(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "plain_acl.yml").write_text(ACCOUNTS)
    assert asyncio.run(attack(tmp_path, tmp_path)) == [1, 1, 0, 1, 0]

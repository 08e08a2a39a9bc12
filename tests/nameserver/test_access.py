"""Access control at the nameserver, with the same attacks as against the broker."""

from __future__ import annotations

import asyncio
import os
import ssl
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from orbitmq._native import Command
from orbitmq.config import NameserverConfig
from orbitmq.nameserver import app
from orbitmq.nameserver.app import Nameserver
from orbitmq.protocol.codes import RequestCode
from orbitmq.remoting.tls import Tls, client_context
from tests.broker.test_acl import ACL_ERROR, Signed

ACCOUNTS = """
accounts:
  - {accessKey: shopkeeper, secretKey: shopkeeper1}
  - {accessKey: manager1, secretKey: manager-secret, admin: true}
"""
KV = {"namespace": "n", "key": "k", "value": "v"}
READ = {"namespace": "n", "key": "k"}
LIMIT_S = 40.0


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "plain_acl.yml").write_text(ACCOUNTS)
    return tmp_path


@asynccontextmanager
async def guarded(home: Path) -> AsyncIterator[str]:
    config = NameserverConfig()
    config.acl_enable, config.rocketmq_home = True, str(home)
    config.listen_port = 0
    config.kv_config_path = str(home / "kv.json")
    nameserver = Nameserver(config, hosts=["127.0.0.1"])
    await nameserver.start()
    try:
        yield nameserver.address
    finally:
        await nameserver.stop()


def attacked(home: Path, attack: Callable[[str], None]) -> None:
    async def run() -> None:
        async with guarded(home) as address:
            await asyncio.to_thread(attack, address)

    asyncio.run(run())


@contextmanager
def login(
    address: str, key: str, secret: str, tls: ssl.SSLContext | None = None, encoding: str = "json"
) -> Iterator[Signed]:
    wire = Signed(address, "binary" if encoding == "binary" else "json", key, secret, tls)
    try:
        yield wire
    finally:
        wire.close()


def refused(answer: Command, text: str) -> None:
    assert answer.code == 1
    assert (answer.remark or "").startswith(ACL_ERROR + text), answer.remark


@pytest.mark.parametrize("encoding", ["json", "binary"])
@pytest.mark.parametrize("encrypted", [False, True], ids=["plain", "tls"])
def test_unsigned_forged_and_forbidden_requests_are_refused(
    home: Path, encoding: str, encrypted: bool
) -> None:
    tls = client_context(Tls(verify=False) if encrypted else False)

    def attack(address: str) -> None:
        look, put = RequestCode.GET_BROKER_CLUSTER_INFO, RequestCode.PUT_KV_CONFIG
        with login(address, "shopkeeper", "wrong-secret", tls, encoding) as wrong:
            refused(wrong.ask(look), "No accessKey is configured")
            refused(wrong.ask(RequestCode.REGISTER_BROKER, {"brokerName": "b"}), "No accessKey")
            refused(wrong.signed(look), "Check signature failed for accessKey=shopkeeper")
        with login(address, "stranger", "shopkeeper1", tls, encoding) as stranger:
            refused(stranger.signed(look), "No acl config for stranger")
        with login(address, "manager1", "manager-secret", tls, encoding) as manager:
            signed = dict(KV)
            manager._sign(put, signed, b"")
            assert manager.ask(put, signed).code == 0
            failed = "Check signature failed for accessKey=manager1"
            refused(manager.ask(put, signed | {"value": "w"}), failed)
            refused(manager.ask(put, signed | {"more": "m"}), failed)
            refused(manager.ask(put, signed, b"a body"), failed)
            assert manager.signed(RequestCode.GET_KV_CONFIG, READ).get_ext("value") == "v"
        with login(address, "shopkeeper", "shopkeeper1", tls, encoding) as shopkeeper:
            assert shopkeeper.signed(look).code == 0
            refused(shopkeeper.signed(put, KV), "Need admin permission for request code=100")
            # A signature for a query is not valid for a change.
            signed = dict(KV)
            shopkeeper._sign(RequestCode.GET_KV_CONFIG, signed, b"")
            refused(shopkeeper.ask(put, signed), "Need admin permission")

    attacked(home, attack)


def test_account_files_are_reread_when_they_change(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "RELOAD_S", 0.02)

    def attack(address: str) -> None:
        look = RequestCode.GET_BROKER_CLUSTER_INFO
        with login(address, "shopkeeper", "another-secret") as shopkeeper:
            refused(shopkeeper.signed(look), "Check signature failed")
            path = home / "conf" / "plain_acl.yml"
            path.write_text(ACCOUNTS.replace("shopkeeper1", "another-secret"))
            changed = path.stat()
            os.utime(path, ns=(changed.st_atime_ns, changed.st_mtime_ns + 1_000_000_000))
            deadline = time.monotonic() + LIMIT_S
            while shopkeeper.signed(look).code != 0:
                assert time.monotonic() < deadline, "the new file is not read"
                time.sleep(0.02)

    attacked(home, attack)

"""Plain and TLS connections on one port: server modes and certificates."""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import uvloop

from orbitmq._native import Command
from orbitmq.cluster import Standalone
from orbitmq.config import BrokerConfig, NameserverConfig, TlsSettings
from orbitmq.errors import ConfigError, ConnectionLost
from orbitmq.remoting import listener as accepting
from orbitmq.remoting import tls as server_tls
from orbitmq.remoting.client import RemotingClient
from orbitmq.remoting.connection import Connection
from orbitmq.remoting.router import Router
from orbitmq.remoting.server import Server
from orbitmq.remoting.tls import ServerTls, Tls, client_context, own_connections_context
from tests.certificates import Authority, Certified

ECHO = 1
LIMIT_S = 20.0


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def certified(authority: Authority) -> Certified:
    return authority.sign("server")


Run = Callable[[Callable[[], Awaitable[None]]], None]


@pytest.fixture(params=["uvloop", "asyncio"])
def run(request: pytest.FixtureRequest) -> Run:
    factory = uvloop.new_event_loop if request.param == "uvloop" else asyncio.new_event_loop

    def run(test: Callable[[], Awaitable[None]]) -> None:
        async def limited() -> None:
            async with asyncio.timeout(LIMIT_S):
                await test()

        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(limited())

    return run


def tls_of(**settings: str) -> TlsSettings:
    """Return settings; ``server_certPath`` stands for the key ``tls.server.certPath``."""
    made = TlsSettings()
    keys = {f"tls.{name.replace('_', '.')}": text for name, text in settings.items()}
    assert made.take(keys) == list(keys)
    return made


def with_files(certified: Certified, **settings: str) -> TlsSettings:
    files = {"server_certPath": str(certified.cert), "server_keyPath": str(certified.key)}
    return tls_of(**files, **settings)


@asynccontextmanager
async def serving(
    settings: TlsSettings, max_idle_s: float = 120
) -> AsyncIterator[tuple[Server, str]]:
    router = Router()

    def echo(request: Command, _connection: Connection) -> Command:
        return Command(0, opaque=request.opaque, flag=1, body=request.body)

    router.add(echo, [ECHO])
    server = Server(router, tls=ServerTls.of(settings), max_idle_s=max_idle_s)
    port = await server.listen("127.0.0.1", 0)
    try:
        yield server, f"127.0.0.1:{port}"
    finally:
        await server.close()


async def asks(address: str, tls: Tls | bool = False, body: bytes = b"x") -> bytes:
    client = RemotingClient(tls=client_context(tls))
    try:
        return (await client.invoke(address, ECHO, body=body, timeout_ms=10_000)).body
    finally:
        await client.close()


async def until(true: Callable[[], bool]) -> None:
    while not true():  # noqa: ASYNC110 (nobody tells)
        await asyncio.sleep(0.005)


def test_permissive_mode_serves_plain_and_tls_on_one_port(run: Run) -> None:
    async def test() -> None:
        async with serving(TlsSettings()) as (server, address):
            large = bytes(range(256)) * 8192
            for tls in (False, Tls(verify=False)):
                assert await asks(address, tls) == b"x"
                assert await asks(address, tls, large) == large
            with pytest.raises(ConnectionLost, match="certificate verify failed"):
                await asks(address, True)
            await until(lambda: not server.connections)

    run(test)


def test_enforcing_mode_refuses_plain_connections(
    run: Run, certified: Certified, authority: Authority
) -> None:
    async def test() -> None:
        async with serving(with_files(certified, server_mode="enforcing")) as (server, address):
            assert await asks(address, Tls(ca_file=authority.cert)) == b"x"
            with pytest.raises(ConnectionLost):
                await asks(address)
            await until(lambda: not server.connections)

    run(test)


def test_disabled_mode_refuses_handshakes(run: Run) -> None:
    async def test() -> None:
        async with serving(tls_of(server_mode="disabled")) as (_, address):
            assert await asks(address) == b"x"
            with pytest.raises(ConnectionLost):
                await asks(address, Tls(verify=False))

    run(test)


def test_a_required_client_certificate_must_be_of_the_right_authority(
    run: Run, certified: Certified, authority: Authority, tmp_path: Path
) -> None:
    settings = with_files(
        certified,
        server_need_client_auth="require",
        server_authClient="true",
        server_trustCertPath=str(authority.cert),
    )
    known, stranger = authority.sign("client"), Authority(tmp_path, "other").sign("stranger")

    async def test() -> None:
        async with serving(settings) as (server, address):
            own = Tls(ca_file=authority.cert, cert_file=known.cert, key_file=known.key)
            assert await asks(address, own) == b"x"
            for wrong in (
                Tls(ca_file=authority.cert),
                Tls(ca_file=authority.cert, cert_file=stranger.cert, key_file=stranger.key),
            ):
                with pytest.raises(ConnectionLost):
                    await asks(address, wrong)
            await until(lambda: not server.connections)

    run(test)


def test_an_optional_client_certificate_may_be_missing(
    run: Run, certified: Certified, authority: Authority, tmp_path: Path
) -> None:
    settings = with_files(
        certified,
        server_need_client_auth="optional",
        server_authClient="true",
        server_trustCertPath=str(authority.cert),
    )
    stranger = Authority(tmp_path, "other").sign("stranger")

    async def test() -> None:
        async with serving(settings) as (_, address):
            assert await asks(address, Tls(ca_file=authority.cert)) == b"x"
            shown = Tls(ca_file=authority.cert, cert_file=stranger.cert, key_file=stranger.key)
            with pytest.raises(ConnectionLost):
                await asks(address, shown)

    run(test)


def test_a_key_may_have_a_password(run: Run, authority: Authority) -> None:
    hidden = authority.sign("hidden", password="secret")
    right = with_files(hidden, server_keyPassword="secret")

    async def test() -> None:
        async with serving(right) as (_, address):
            assert await asks(address, Tls(ca_file=authority.cert)) == b"x"

    run(test)
    for wrong in (with_files(hidden, server_keyPassword="guess"), with_files(hidden)):
        with pytest.raises(ConfigError, match=r"hidden\.crt"):
            ServerTls.of(wrong)


def test_a_certificate_is_replaced_while_the_server_runs(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(server_tls, "LOOK_AGAIN_S", -1.0)
    old, new = Authority(tmp_path / "old"), Authority(tmp_path / "new")
    served = old.sign("server")

    async def test() -> None:
        async with serving(with_files(served)) as (_, address):
            assert await asks(address, Tls(ca_file=old.cert)) == b"x"
            served.cert.write_text("no certificate")
            assert await asks(address, Tls(ca_file=old.cert)) == b"x"
            assert "the current one stays in use" in caplog.text
            newer = new.sign("server")
            served.cert.write_bytes(newer.cert.read_bytes())
            served.key.write_bytes(newer.key.read_bytes())
            assert await asks(address, Tls(ca_file=new.cert)) == b"x"
            with pytest.raises(ConnectionLost, match="certificate verify failed"):
                await asks(address, Tls(ca_file=old.cert))

    run(test)


@pytest.mark.parametrize("beginning", [b"", b"\x16", b"\x16\x03\x01\x02\x00\x01"])
def test_an_unfinished_handshake_is_closed_after_its_timeout(
    run: Run, beginning: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accepting, "HANDSHAKE_TIMEOUT_S", 0.2)

    async def test() -> None:
        async with serving(TlsSettings(), max_idle_s=0.2) as (_, address):
            host, _, port = address.rpartition(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(beginning)
            assert await reader.read() == b""
            writer.close()

    run(test)


def test_many_unfinished_handshakes_keep_no_client_out(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accepting, "MAX_HANDSHAKES", 5)

    async def test() -> None:
        async with serving(TlsSettings()) as (_, address):
            host, _, port = address.rpartition(":")
            halves = [await asyncio.open_connection(host, int(port)) for _ in range(12)]
            for _, writer in halves:
                writer.write(b"\x16\x03\x01")
            # All but the newest five are closed; one more client connects and is served.
            ends = (reader.read() for reader, _ in halves[:7])
            for end in await asyncio.gather(*ends, return_exceptions=True):
                assert end == b"" or isinstance(end, ConnectionResetError)
            assert await asks(address, Tls(verify=False)) == b"x"
            for _, writer in halves:
                writer.close()

    run(test)


def test_closing_a_server_does_not_wait_for_handshakes(run: Run) -> None:
    async def test() -> None:
        async with serving(TlsSettings()) as (server, address):
            host, _, port = address.rpartition(":")
            with (
                socket.create_connection((host, int(port))) as silent,
                socket.create_connection((host, int(port))) as half,
            ):
                half.sendall(b"\x16\x03\x01")
                assert await asks(address) == b"x"
                began = time.monotonic()
                await server.close()
                assert time.monotonic() - began < 5
                for left in (silent, half):
                    left.settimeout(5)
                    assert left.recv(1) == b""

    run(test)


def test_invalid_tls_settings_prevent_the_start(certified: Certified, tmp_path: Path) -> None:
    for settings, words in (
        (tls_of(test_mode_enable="false", server_mode="enforcing"), "needs tls.server.certPath"),
        (with_files(certified, server_need_client_auth="require"), "authClient=true"),
        (tls_of(server_certPath=str(tmp_path / "nowhere.pem")), r"nowhere\.pem"),
    ):
        with pytest.raises(ConfigError, match=words):
            ServerTls.of(settings)
    # In Java such a server serves only plain connections.
    assert ServerTls.of(tls_of(test_mode_enable="false")) is None


def test_tls_settings_are_read_from_the_configuration_and_their_own_file(tmp_path: Path) -> None:
    file = tmp_path / "tls.properties"
    file.write_text("tls.server.certPath=/of/the/file.pem\ntls.client.authServer=true\n")
    for config in (BrokerConfig(), NameserverConfig()):
        config.take({"tls.server.mode": "enforcing", "tls.config.file": str(file)})
        config.tls.read_own_file()
        assert config.tls.server_mode == "enforcing"
        assert config.tls.server_cert_path == "/of/the/file.pem"
        assert config.tls.client_auth_server
        assert not [key for key in config.as_properties() if key.startswith("tls.")]
        assert config.refused({"tls.server.keyPassword": "x"}) == ["tls.server.keyPassword"]
    with pytest.raises(ConfigError, match=r"tls\.config\.file"):
        tls_of(config_file=str(tmp_path / "nowhere")).read_own_file()


def test_the_servers_own_connections_follow_the_client_settings(authority: Authority) -> None:
    assert own_connections_context(TlsSettings(), use_tls=False) is None
    trusting = own_connections_context(TlsSettings(), use_tls=True)
    assert trusting is not None
    assert trusting.verify_mode is ssl.CERT_NONE
    careful = own_connections_context(
        tls_of(enable="true", client_authServer="true", client_trustCertPath=str(authority.cert)),
        use_tls=False,
    )
    assert careful is not None
    assert careful.verify_mode is ssl.CERT_REQUIRED


def test_a_standalone_cluster_works_on_one_enforcing_port(run: Run, tmp_path: Path) -> None:
    async def test() -> None:
        settings = {"tls.server.mode": "enforcing", "mappedFileSizeCommitLog": str(1 << 20)}
        standalone = Standalone(tmp_path, port=0, settings=settings)
        await standalone.start()
        try:
            client = RemotingClient(tls=client_context(Tls(verify=False)))
            answer = await client.invoke(standalone.address, 106)  # Cluster info.
            assert standalone.config.broker_name.encode() in answer.body
            await client.close()
        finally:
            await standalone.stop()

    run(test)

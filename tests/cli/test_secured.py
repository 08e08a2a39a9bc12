"""Commands and a cluster that requires TLS, a certificate and a signature.

How to get in is said by options, by the environment or by a file; the first of them wins.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from orbitmq.testing import LocalCluster
from tests.certificates import Authority, Certified
from tests.cli.conftest import Run

ACCOUNTS = """
accounts:
- accessKey: manager1
  secretKey: s3cret-s3cret
  admin: true
- accessKey: shopkeeper
  secretKey: 012345678
  defaultTopicPerm: DENY
  defaultGroupPerm: SUB
  topicPerms: [orders=PUB|SUB]
"""
PASSWORD = "open sesame"


class Guarded:
    """A cluster, and the credentials for it."""

    def __init__(self, directory: Path) -> None:
        self.authority = Authority(directory / "authority")
        self.own = self.authority.sign("client", PASSWORD)
        self.stranger = Authority(directory / "other").sign("stranger")
        conf = directory / "home" / "conf"
        conf.mkdir(parents=True)
        (conf / "plain_acl.yml").write_text(ACCOUNTS)
        accounts = {"aclEnable": "true", "rocketmqHome": str(conf.parent)}
        self.cluster = LocalCluster(settings=accounts | self.authority.cluster_settings())

    def way_in(self, own: Certified | None = None, **changes: str | None) -> dict[str, str]:
        """Return the manager's credentials by option; changed, or left out if None."""
        own = own or self.own
        words: dict[str, str | None] = {
            "tls-ca": str(self.authority.cert),
            "tls-cert": str(own.cert),
            "tls-key": str(own.key),
            "tls-key-password": PASSWORD,
            "access-key": "manager1",
            "secret-key": "s3cret-s3cret",
        }
        words |= {name.replace("_", "-"): value for name, value in changes.items()}
        return {name: value for name, value in words.items() if value is not None}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    made = Guarded(tmp_path_factory.mktemp("guarded"))
    with made.cluster:
        yield made


@pytest.fixture(scope="module")
def cluster(guarded: Guarded) -> LocalCluster:
    return guarded.cluster


@pytest.fixture(autouse=True)
def _nothing_else_says_how(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [*os.environ]:
        if name.startswith("ORBITMQ_") or name == "ROCKETMQ_HOME":
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))


def by_options(way: dict[str, str]) -> tuple[str, ...]:
    return tuple(word for name, value in way.items() for word in (f"--{name}", value))


Prepare = Callable[[dict[str, str], pytest.MonkeyPatch, Path], tuple[str, ...]]


def by_environment(
    way: dict[str, str], monkeypatch: pytest.MonkeyPatch, _directory: Path
) -> tuple[str, ...]:
    for name, value in way.items():
        monkeypatch.setenv(f"ORBITMQ_{name.upper().replace('-', '_')}", value)
    return ()


def by_file(
    way: dict[str, str], monkeypatch: pytest.MonkeyPatch, directory: Path
) -> tuple[str, ...]:
    path = directory / ".config" / "orbitmq" / "cluster.conf"
    path.parent.mkdir(parents=True)
    path.write_text("".join(f"{name}={value}\n" for name, value in way.items()))
    return ()


def by_named_file(
    way: dict[str, str], monkeypatch: pytest.MonkeyPatch, directory: Path
) -> tuple[str, ...]:
    path = directory / "here.conf"
    path.write_text("".join(f"{name}={value}\n" for name, value in way.items()))
    monkeypatch.setenv("ORBITMQ_CONFIG", str(path))
    return ()


def by_mqadmins_file(
    way: dict[str, str], monkeypatch: pytest.MonkeyPatch, directory: Path
) -> tuple[str, ...]:
    """mqadmin keeps keys in its own file; certificates are given otherwise."""
    keys = {name: way.pop(name) for name in ("access-key", "secret-key")}
    (directory / "conf").mkdir()
    text = f"accessKey: {keys['access-key']}\nsecretKey: {keys['secret-key']}\n"
    (directory / "conf" / "tools.yml").write_text(text)
    monkeypatch.setenv("ROCKETMQ_HOME", str(directory))
    return by_options(way)


@pytest.mark.parametrize(
    "prepare",
    [
        lambda way, _monkeypatch, _directory: by_options(way),
        *(by_environment, by_file, by_named_file, by_mqadmins_file),
    ],
    ids=["options", "environment", "file", "named-file", "tools.yml"],
)
def test_credentials_are_taken_from_options_environment_or_file(
    run: Run, guarded: Guarded, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, prepare: Prepare
) -> None:
    way = prepare(guarded.way_in(), monkeypatch, tmp_path)
    assert run("topic", "create", "orders", *way, "-o", "json").json["done"]
    assert run("mqadmin", "clusterList", *way, "-o", "json").json[0]["answers"]


def test_every_kind_of_command_works_on_a_secured_cluster(run: Run, guarded: Guarded) -> None:
    way = by_options(guarded.way_in())
    run("topic", "create", "kinds", *way)
    assert run("produce", "kinds", *way, "-o", "json", stdin="a\nb\n").json["sent"] == 2
    sent = run("message", "send", "kinds", "--body", "c", *way, "-o", "json").json
    found = run("message", "get", sent["messageId"], "-t", "kinds", *way, "-o", "json").json
    assert found["body"] == "c"
    tailed = run("tail", "kinds", "--from", "earliest", "--no-follow", "--format", "body", *way)
    assert sorted(tailed.out.split()) == ["a", "b", "c"]
    eating = ("consume", "kinds", "-g", "eaters", "--from", "earliest", "--limit", "1")
    assert run(*eating, *way).out
    load = ("bench", "-t", "kinds", "--seconds", "0.1", "--in-flight", "2")
    assert run(*load, *way, "-o", "json").json["failed"] == 0
    explained = run("explain", "group", "eaters", "--watch-s", "0", *way, "-o", "json", code=3)
    assert explained.json[0]["verdict"] == "nobody-online"


def test_commands_with_incomplete_credentials_are_refused(
    run: Run, guarded: Guarded, tmp_path: Path
) -> None:
    elsewhere = str(Authority(tmp_path / "elsewhere").cert)
    for way, code in (
        ({"access-key": "manager1", "secret-key": "s3cret-s3cret"}, 6),  # Plain connection.
        (guarded.way_in(tls_cert=None, tls_key=None), 6),
        (guarded.way_in(guarded.stranger, tls_key_password=None), 6),
        (guarded.way_in(tls_ca=elsewhere), 6),
        (guarded.way_in(tls_key_password="wrong"), 2),
        (guarded.way_in(secret_key=None), 2),
        (guarded.way_in(secret_key=None, access_key=None), 1),
        (guarded.way_in(secret_key="wrong-wrong"), 1),
        (guarded.way_in(access_key="shopkeeper", secret_key="012345678"), 1),
    ):
        refused = run("topic", "create", "orders-of-others", *by_options(way), code=code)
        assert "Error: " in refused.err, way
        assert refused.out == ""
        for secret in (PASSWORD, "s3cret-s3cret", "wrong"):
            assert secret not in refused.err, "secrets are not shown"


def test_options_override_the_environment_and_the_environment_the_file(
    run: Run, guarded: Guarded, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    way = by_options(guarded.way_in(access_key=None, secret_key=None))
    by_file({"access-key": "stranger", "secret-key": "of-the-file"}, monkeypatch, tmp_path)
    assert "No acl config for stranger" in run("topic", "create", "orders", *way, code=1).err
    by_environment(
        {"access-key": "manager1", "secret-key": "of-the-environment"}, monkeypatch, tmp_path
    )
    refused = run("topic", "create", "orders", *way, code=1)
    assert "Check signature failed for accessKey=manager1" in refused.err
    run("topic", "create", "orders", *way, "--secret-key", "s3cret-s3cret")


def test_an_unusable_configuration_file_is_reported(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "mine.conf"
    monkeypatch.setenv("ORBITMQ_CONFIG", str(path))
    assert "which is not there" in run("topic", "list", code=2).err
    path.write_text("acess-key=x\n")
    assert "there is no option acess-key" in run("topic", "list", code=2).err
    path.write_text("a=\\uXX\n")
    assert "mine.conf" in run("topic", "list", code=2).err


def test_a_shell_completes_topics_of_a_secured_cluster(
    run: Run, guarded: Guarded, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The script runs in a shell, which completes as if the key had been pressed."""
    by_file(guarded.way_in(), monkeypatch, tmp_path)
    run("topic", "create", "completed-one")
    run("topic", "create", "completed-two")
    script = """
eval "$(orbitmq completion bash)"
complete -p orbitmq
COMP_WORDS=(orbitmq topic status completed-); COMP_CWORD=3
_orbitmq_completion orbitmq
printf '%s\\n' "${COMPREPLY[@]}"
COMPREPLY=(); COMP_WORDS=(orbitmq topic stat); COMP_CWORD=2
_orbitmq_completion orbitmq
printf '%s\\n' "${COMPREPLY[@]}"
"""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    shell = subprocess.run(
        ["bash", "--noprofile", "--norc", "-c", script],
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
    )
    lines = shell.stdout.split("\n")
    assert "_orbitmq_completion" in lines[0], "it is what the shell asks from now on"
    assert lines[1:3] == ["completed-one", "completed-two"], shell.stderr
    assert lines[3:5] == ["stats", "status"]

"""``orbitmq up`` and ``orbitmq broker`` as processes, as a user runs them."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from orbitmq._native import (
    Command,
    FrameReader,
    decode_records,
    dumps_lenient,
    loads_lenient,
)
from orbitmq.protocol.codes import RequestCode
from orbitmq.remoting.hooks import signing
from tests.cli.conftest import run_command

SEND = {
    "producerGroup": "p",
    "topic": "hello",
    "defaultTopic": "TBW102",
    "defaultTopicQueueNums": "1",
    "queueId": "0",
    "sysFlag": "0",
    "bornTimestamp": "0",
    "flag": "0",
}
PULL = {
    "consumerGroup": "g",
    "topic": "hello",
    "queueId": "0",
    "queueOffset": "0",
    "maxMsgNums": "32",
    "sysFlag": "4",
    "commitOffset": "0",
    "suspendTimeoutMillis": "0",
    "subscription": "*",
    "subVersion": "0",
}


def ask(port: int, code: int, ext: dict[str, str], body: bytes = b"") -> Command:
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(Command(code, ext=ext, body=body, opaque=1).encode())
        reader = FrameReader()
        while True:
            if answers := reader.feed(connection.recv(1 << 16)):
                return answers[0]


@contextmanager
def running(*words: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run a command; yield it and the first line it prints."""
    environment = {k: v for k, v in os.environ.items() if k != "NAMESRV_ADDR"}
    process = subprocess.Popen(
        [sys.executable, "-m", "orbitmq.cli", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    try:
        assert process.stdout is not None
        yield process, process.stdout.readline()
    finally:
        process.kill()
        process.communicate()


def port_of(line: str) -> int:
    return int(line.split("127.0.0.1:")[1].split(",")[0].split("]")[0])


def test_one_port_serves_everything_and_a_signal_leaves_it_clean(tmp_path: Path) -> None:
    for expected in ([b"one"], [b"one", b"two"]):
        with running("up", "--data", str(tmp_path), "--port", "0") as (process, line):
            assert "OrbitMQ is up" in line
            port = port_of(line)
            assert ask(port, RequestCode.SEND_MESSAGE, SEND, expected[-1]).code == 0
            route = loads_lenient(
                ask(port, RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "TBW102"}).body
            )
            (broker,) = route["brokerDatas"]
            assert list(broker["brokerAddrs"].values()) == [f"127.0.0.1:{port}"]
            found = decode_records(ask(port, RequestCode.PULL_MESSAGE, PULL).body)
            assert [record.body for record in found] == expected
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
        assert not (tmp_path / "abort").exists()


def test_the_broker_is_a_master_for_any_broker_id(tmp_path: Path) -> None:
    with running("up", "--data", str(tmp_path), "--port", "0", "--set", "brokerId=5") as (_, line):
        answer = ask(port_of(line), RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "TBW102"})
        (broker,) = loads_lenient(answer.body)["brokerDatas"]
        assert list(broker["brokerAddrs"]) in (["0"], [0])


ACCOUNTS = """
accounts:
- {accessKey: shopkeeper, secretKey: shopkeeper1, defaultTopicPerm: PUB|SUB, defaultGroupPerm: SUB}
"""
REGISTER = {
    "brokerName": "DefaultBroker", "brokerAddr": "10.9.9.9:10911", "clusterName": "DefaultCluster",
    "brokerId": "0", "haServerAddr": "10.9.9.9:10912",
}  # fmt: skip


def test_the_nameserver_requires_accounts_when_acl_is_enabled(tmp_path: Path) -> None:
    (tmp_path / "home" / "conf").mkdir(parents=True)
    (tmp_path / "home" / "conf" / "plain_acl.yml").write_text(ACCOUNTS)
    sets = ["--set", "aclEnable=true", "--set", f"rocketmqHome={tmp_path / 'home'}"]
    sign = signing("shopkeeper", "shopkeeper1")

    def signed(code: int, ext: dict[str, str], body: bytes = b"") -> Command:
        given = dict(ext)
        sign(code, given, body)
        return ask(port, code, given, body)

    with running("up", "--data", str(tmp_path / "data"), "--port", "0", *sets) as (_, line):
        port = port_of(line)
        table = {"topicConfigTable": {"hello": {"topicName": "hello", "readQueueNums": 4}}}
        body = dumps_lenient({"topicConfigSerializeWrapper": table})
        look = {"topic": "TBW102"}
        for ask_ in (partial(ask, port), signed):
            for code in (RequestCode.REGISTER_BROKER, RequestCode.UNREGISTER_BROKER):
                answer = ask_(code, REGISTER, body)
                assert "AclException" in (answer.remark or ""), "a route is not taken over"
        for unsigned in (int(RequestCode.GET_ROUTEINFO_BY_TOPIC), 9999):
            assert "AclException" in (ask(port, unsigned, look).remark or "")
        route = loads_lenient(signed(RequestCode.GET_ROUTEINFO_BY_TOPIC, look).body)
        (broker,) = route["brokerDatas"]
        assert list(broker["brokerAddrs"].values()) == [f"127.0.0.1:{port}"]
        assert signed(RequestCode.SEND_MESSAGE, SEND, b"x").code == 0
        # Notes of the Spark sink need the right to write to its topic, and no more.
        pin = {"namespace": "ORBITMQ_SINK_BROKERS", "key": "sender@hello", "value": "b"}
        assert signed(RequestCode.PUT_KV_CONFIG, pin).code == 0
        other = pin | {"namespace": "ORDER_TOPIC_CONFIG"}
        assert "Need admin" in (signed(RequestCode.PUT_KV_CONFIG, other).remark or "")


def test_a_second_start_names_the_process_that_holds_the_directory(tmp_path: Path) -> None:
    with running("up", "--data", str(tmp_path), "--port", "0") as (process, _):
        with running("up", "--data", str(tmp_path), "--port", "0") as (second, line):
            assert second.wait(60) == 1
            assert line == ""
            assert second.stderr is not None
            said = second.stderr.read()
        assert f"is held by process {process.pid}" in said


def test_a_broker_reads_rocketmqs_file_and_warns_of_unsupported_settings(tmp_path: Path) -> None:
    file = tmp_path / "broker.conf"
    file.write_text(
        f"brokerName=b1\nlistenPort=0\nbrokerIP1=127.0.0.1\nstorePathRootDir={tmp_path / 'store'}\n"
        "timerWheelEnable=true\nmappedFileSizeCommitLog=1048576\n"
    )
    with running("broker", "-c", str(file), "--host", "127.0.0.1") as (process, line):
        assert line.startswith("The broker[b1, 127.0.0.1:")
        assert ask(port_of(line), RequestCode.SEND_MESSAGE, SEND, b"x").code == 0
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
        assert process.stderr is not None
        assert "timerWheelEnable is a setting of RocketMQ that has no" in process.stderr.read()
    assert (tmp_path / "store" / "config" / "topics.json").exists()


def test_an_invalid_setting_is_reported_in_one_line(tmp_path: Path) -> None:
    with running("up", "--data", str(tmp_path), "--set", "nonsense") as (process, _):
        assert process.wait(60) == 2
        assert process.stderr is not None
        assert "is not of the form KEY=VALUE" in process.stderr.read()


BROKERS_SLIPS = {
    "flushDiskTyp=SYNC_FLUSH": "unknown key flushDiskTyp, did you mean flushDiskType?",
    "flushDiskType=SYNC": "flushDiskType='SYNC' is none of ASYNC_FLUSH, SYNC_FLUSH, did you mean",
    "aclEnable=yes": "aclEnable='yes' is neither true nor false",
}
NAMESERVERS_SLIPS = {
    "orderMessageEnabl=true": "unknown key orderMessageEnabl, did you mean orderMessageEnable?",
    "tls.server.mode=on": "tls.server.mode='on' is none of disabled, permissive, enforcing",
}


@pytest.mark.parametrize("program", ["up", "broker", "mqbroker", "nameserver", "mqnamesrv"])
def test_no_server_starts_with_invalid_settings(tmp_path: Path, program: str) -> None:
    slips = NAMESERVERS_SLIPS if program in ("nameserver", "mqnamesrv") else BROKERS_SLIPS
    if program == "up":
        words = ["--data", str(tmp_path / "store"), "--port", "0"]
        words += [word for slip in slips for word in ("--set", slip)]
    else:
        file = tmp_path / "any.conf"
        file.write_text("\n".join(["listenPort=0", *slips]))
        words = ["-c", str(file), "--host", "127.0.0.1"]
    command = [sys.executable, "-m", "orbitmq.cli", program]
    if program.startswith("mq"):
        command = [str(Path(sys.executable).parent / program)]
    done = subprocess.run(
        [*command, *words],
        env=os.environ | {"HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout.count("boot success")) == (2, 0), done
    for complaint in slips.values():
        assert complaint in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("key", ["listenPort", "storePathRootDir", "namesrvAddr"])
def test_up_refuses_settings_that_it_would_override(tmp_path: Path, key: str) -> None:
    words = ["up", "--data", str(tmp_path / "store"), "--port", "0", "--set", f"{key}=10911"]
    done = run_command(*words)
    assert done.code == 2
    assert f"{key} cannot be set here: " in done.err


def cpu_s(pid: int) -> float:
    """Return the processor time a process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_an_idle_server_uses_little_processor_time(tmp_path: Path) -> None:
    """With hundreds of topics and all periodic tasks: less than a twentieth of a processor."""
    with running("up", "--data", str(tmp_path), "--port", "0") as (process, line):
        for number in range(300):
            sent = SEND | {"topic": f"topic-{number}", "defaultTopicQueueNums": "4"}
            assert ask(port_of(line), RequestCode.SEND_MESSAGE, sent, b"x").code == 0
        deadline = time.monotonic() + 60
        while True:  # Pending writes are not idle time.
            before = cpu_s(process.pid)
            time.sleep(2)
            if cpu_s(process.pid) - before < 0.1:
                break
            assert time.monotonic() < deadline, "it does not come to rest"

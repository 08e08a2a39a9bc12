"""RocketMQ's quick start with commands of the original names and options."""

from __future__ import annotations

import pytest

from orbitmq import Consumer, Message, Producer
from orbitmq.config import BrokerConfig
from tests.cli.processes import LIMIT_S, Home, line_of, quick_start

COUNT = 10


def test_the_quick_start_works_word_for_word(home: Home) -> None:
    namesrv, broker, address = quick_start(home)
    assert (home.path / "store" / "commitlog").is_dir()

    with Producer(address, group="quick-start") as producer:
        for number in range(COUNT):
            producer.send(Message("TopicTest", f"Hello RocketMQ {number}".encode()))
    with Consumer(address, "TopicTest", group="please_rename", consume_from="first") as consumer:
        messages = iter(consumer)
        assert len({next(messages).body for _ in range(COUNT)}) == COUNT
    assert "TopicTest" in home.run("mqadmin", "topicList", "-n", address).stdout
    assert "broker-a" in home.run("mqadmin", "clusterlist", NAMESRV_ADDR=address).stdout

    logs = home.path / "logs" / "rocketmqlogs"
    assert "boot success" in (logs / "namesrv.log").read_text()
    assert "boot success" in (logs / "broker.log").read_text()

    for word, name, process in (("broker", "mqbroker", broker), ("namesrv", "mqnamesrv", namesrv)):
        ran = home.run("mqshutdown", word)
        assert ran.returncode == 0
        assert ran.stdout.splitlines() == [
            f"The {name}({process.pid}) is running...",
            f"Send shutdown request to {name}({process.pid}) OK",
        ]
        assert process.wait(LIMIT_S) == 0
        ran = home.run("mqshutdown", word)
        assert (ran.returncode, ran.stdout) == (255, f"No {name} running.\n")
    assert not (home.path / "store" / "abort").exists()


def test_mqbroker_and_mqnamesrv_print_their_settings(home: Home) -> None:
    (home.path / "broker.conf").write_text("brokerName=mine\n")
    conf = str(home.path / "broker.conf")
    every = home.run("mqbroker", "-c", conf, "-p").stdout.splitlines()
    important = home.run("mqbroker", "-c", conf, "-m", "-n", "a:1").stdout.splitlines()
    assert {"brokerName=mine", "flushDiskType=ASYNC_FLUSH"} <= set(every) & set(important)
    assert "namesrvAddr=a:1" in important
    assert "slaveReadEnable=false" in every
    assert "slaveReadEnable=false" not in important
    assert "listenPort=9876" in home.run("mqnamesrv", "-n", "ignored:1", "-p").stdout.splitlines()


@pytest.mark.parametrize("script", ["mqnamesrv", "mqbroker"])
def test_scripts_print_help_and_refuse_wrong_options(home: Home, script: str) -> None:
    asked = home.run(script, "-h")
    assert asked.returncode == 0
    assert "--configFile" in asked.stdout
    wrong = home.run(script, "--no-such-option")
    assert wrong.returncode == 1
    assert "--no-such-option" in wrong.stderr
    assert "--configFile" in wrong.stderr


def test_a_refused_setting_is_reported_in_one_line(home: Home) -> None:
    (home.path / "broker.conf").write_text("enableLmq=true\nlistenPort=0\n")
    ran = home.run("mqbroker", "-c", str(home.path / "broker.conf"), "--host", "127.0.0.1")
    assert ran.returncode == 2
    assert "Error: enableLmq=true is not supported: there are no light queues" in ran.stderr
    assert not list(home.run_directory.glob("*.pid"))
    bad = home.run("mqbroker", "-n", "nowhere")
    assert (bad.returncode, "The Name Server Address[nowhere] illegal" in bad.stderr) == (2, True)


def test_the_log_directory_can_have_the_name_of_the_broker(home: Home) -> None:
    (home.path / "broker.conf").write_text(
        "isolateLogEnable=true\nbrokerName=own\nlistenPort=0\nbrokerIP1=127.0.0.1\n"
        "mappedFileSizeCommitLog=1048576\ntransientStorePoolEnable=true\n"
    )
    conf = str(home.path / "broker.conf")
    broker = home.start("mqbroker", "-c", conf, "--host", "127.0.0.1")
    line_of(broker.stdout, "The broker[own, ")
    log = (home.path / "logs" / "rocketmqlogs" / "own_0" / "broker.log").read_text()
    assert log.count("transientStorePoolEnable=true has no effect: ") == 1


def test_mqadmin_lists_its_commands_and_their_help(home: Home) -> None:
    listed = home.run("mqadmin")
    assert listed.returncode == 0
    assert "updateTopic" in listed.stdout
    assert home.run("mqadmin", "help", "UPDATETOPIC").stdout.startswith("mqadmin updateTopic: ")
    unknown = home.run("mqadmin", "help", "nonsense")
    assert unknown.returncode == 2
    assert "The sub command nonsense not exist." in unknown.stderr


def test_mqshutdown_prints_its_usage_for_wrong_arguments(home: Home) -> None:
    for words in ((), ("nonsense",)):
        ran = home.run("mqshutdown", *words)
        assert (ran.returncode, ran.stdout) == (1, "Useage: mqshutdown broker | namesrv\n")


def test_important_settings_are_a_subset_of_all_settings() -> None:
    shown = BrokerConfig().as_properties(important=True)
    assert shown.items() <= BrokerConfig().as_properties().items()

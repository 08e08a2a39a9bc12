"""Settings: RocketMQ's keys and defaults, Java's file format, what a request may change."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from orbitmq.config import (
    BrokerConfig,
    NameserverConfig,
    decode,
    delay_levels_ms,
    format_properties,
    parse_properties,
    rewrite_properties,
)
from orbitmq.config.address import (
    choose_address,
    interface_addresses,
    local_address,
    resolved,
)
from orbitmq.config.settings import LetsPass
from orbitmq.errors import ConfigError, MalformedProperties


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=b", {"a": "b"}),
        ("a : b", {"a": "b"}),
        ("a b = c", {"a": "b = c"}),
        ("  a\t=\f b  ", {"a": "b  "}),
        ("# a=b\n ! c=d\n\n \n e=f", {"e": "f"}),
        ("a", {"a": ""}),
        ("=b", {"": "b"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=b\\\n   c\\\r\n\td", {"a": "bcd"}),
        ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        ("a=b\\\n# no comment", {"a": "b# no comment"}),
        ("a=b\\\n\nc=d", {"a": "b", "c": "d"}),
        ("a\\=\\:\\ b=c", {"a=: b": "c"}),
        ("a=\\t\\n\\r\\f\\q\\\\", {"a": "\t\n\r\fq\\"}),
        ("a=\\u00e9\\uD83D\\uDE00", {"a": "é😀"}),
        ("a=b\r\nc=d\re=f", {"a": "b", "c": "d", "e": "f"}),
        ("a=b\\", {"a": "b"}),
        ("", {}),
    ],
)
def test_properties_are_read_as_java_reads_them(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected


def test_a_broken_unicode_escape_is_refused() -> None:
    with pytest.raises(MalformedProperties, match="four hexadecimal digits"):
        parse_properties("a=\\u12g4")


def test_files_are_utf8_or_else_latin1() -> None:
    assert decode("a=é".encode()) == "a=é"
    assert decode("a=é".encode("iso-8859-1")) == "a=é"


_TEXT = st.text(st.characters(exclude_categories=["Cs"]))


@given(st.dictionaries(_TEXT, _TEXT))
def test_what_is_written_reads_back(properties: dict[str, str]) -> None:
    text = format_properties(properties)
    assert text.isascii()
    assert parse_properties(text) == properties


def _load(tmp_path: Path, text: str, lets_pass: LetsPass = "rocketmq") -> BrokerConfig:
    path = tmp_path / "broker.conf"
    path.write_text(text)
    return BrokerConfig.load(path, lets_pass=lets_pass)


def test_a_broker_conf_is_read(tmp_path: Path) -> None:
    config = _load(
        tmp_path,
        "brokerName = broker-a\nlistenPort=20911\nbrokerIP1=10.0.0.7\nflushDiskType=SYNC_FLUSH\n"
        "autoCreateTopicEnable=FALSE\nlongPollingEnable=False\nconsumerFallbehindThreshold=+99\n"
        "checkCRCOnRecover=false\nenableDLegerCommitLog=false\nnamesrvAddr=a:1; b:2;\n",
    )
    assert config.broker_name == "broker-a"
    assert config.address == "10.0.0.7:20911"
    assert config.flush_disk_type == "SYNC_FLUSH"
    assert config.auto_create_topic_enable is False
    assert config.long_polling_enable is False
    assert config.consumer_fallbehind_threshold == 99
    assert config.check_crc_on_recover is False
    assert config.nameservers == ["a:1", "b:2"]
    assert "brokerIP1" in config.given
    assert "brokerIP2" not in config.given


ANY: tuple[LetsPass, ...] = ("nothing", "rocketmq", "anything")


@pytest.mark.parametrize("lets_pass", ANY)
@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("listenPort=abc", "listenPort='abc' is not a number of 32 bits"),
        ("listenPort=10912 ", "listenPort='10912 ' is not a number"),
        ("listenPort=4294967296", "listenPort='4294967296' is not a number of 32 bits"),
        ("listenPort=1_0", "listenPort='1_0'"),
        ("aclEnable=yes", "aclEnable='yes' is neither true nor false"),
        ("aclEnable=", "aclEnable='' is neither true nor false"),
        (
            "flushDiskType=SYNC",
            "flushDiskType='SYNC' is none of ASYNC_FLUSH, SYNC_FLUSH, did you mean SYNC_FLUSH?",
        ),
        ("flushDiskTyp=SYNC_FLUSH", "unknown key flushDiskTyp, did you mean flushDiskType?"),
        ("flush_disk_type=SYNC_FLUSH", "unknown key flush_disk_type, did you mean flushDiskType?"),
        ("brokerNmae=x", "unknown key brokerNmae, did you mean brokerName?"),
        ("brokerip1=x", "unknown key brokerip1, did you mean brokerIP1?"),
        ("tls.server.mod=x", "unknown key tls.server.mod, did you mean tls.server.mode?"),
        ("tls.server.mode=on", "tls.server.mode='on' is none of disabled, permissive, enforcing"),
    ],
)
def test_a_bad_value_or_a_slip_is_refused_wherever_it_stands(
    line: str, complaint: str, lets_pass: LetsPass, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as refused:
        _load(tmp_path, line, lets_pass)
    assert str(refused.value).startswith(f"{tmp_path / 'broker.conf'}: {complaint}")


def test_everything_wrong_in_a_file_is_named_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        _load(tmp_path, "brokerNmae=x\nlistenPort=x\nbrokerName=y\n")
    assert "brokerNmae, did you mean brokerName?; listenPort='x' is not" in str(refused.value)


@pytest.mark.parametrize(
    ("kind", "key"),
    [
        (BrokerConfig, "timerWheelEnable"),
        (BrokerConfig, "orderMessageEnable"),
        (NameserverConfig, "deleteTopicWithBrokerRegistration"),
        (NameserverConfig, "flushDiskType"),
    ],
)
def test_a_setting_of_rocketmq_that_has_no_effect_is_warned_of_in_a_file_only(
    kind: type[BrokerConfig] | type[NameserverConfig],
    key: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    file = tmp_path / "any.conf"
    file.write_text(f"{key}=x\n")
    config = kind.load(file)
    assert f"{key} is a setting of RocketMQ that has no effect here" in caplog.text
    assert config.as_properties()[key] == "x"
    with pytest.raises(ConfigError, match=f"{key} is a setting of RocketMQ that has no effect"):
        kind().take({key: "x"})


def test_a_strange_key_is_refused_but_in_files_that_rocketmq_starts_with(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for lets_pass in ANY[:2]:
        with pytest.raises(ConfigError, match="unknown key auditPluginLevel"):
            _load(tmp_path, "auditPluginLevel=3\n", lets_pass)
    config = _load(tmp_path, "auditPluginLevel=3\nrmqAddressServerDomain=x.y\n", "anything")
    assert config.as_properties()["auditPluginLevel"] == "3"
    assert config.as_properties()["rmqAddressServerDomain"] == "x.y"
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "unknown key auditPluginLevel" in caplog.text


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.conf: No such file"):
        BrokerConfig.load(tmp_path / "none.conf")


def test_all_is_shown_under_the_names_java_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    shown = BrokerConfig().as_properties()
    assert shown["messageDelayLevel"].startswith("1s 5s 10s")
    assert shown["isEnableBatchPush"] == "false"
    assert shown["useTLS"] == "false"
    assert shown["brokerIP1"] == local_address()
    assert shown["haSlaveFallbehindMax"] == "268435456"
    assert "namesrvAddr" not in shown
    assert "storePathCommitLog" not in shown
    assert "dLegerGroup" not in shown


def test_the_environment_names_nameservers_and_the_file_wins(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", "env:9876")
    assert BrokerConfig().nameservers == ["env:9876"]
    assert _load(tmp_path, "namesrvAddr=file:9876").nameservers == ["file:9876"]


def test_a_request_changes_harmless_settings_only() -> None:
    config = BrokerConfig()
    request = {
        "fileReservedTime": "48",
        "maxMessageSize": "many",
        "longPollingEnable": "yes",
        "storePathRootDir": "/etc",
        "rocketmqHome": "/tmp",
        "filterServerNums": "1",
        "messageStorePlugIn": "x.Y",
        "aclEnable": "false",
        "noSuchKey": "1",
    }
    root = config.store_path_root_dir
    assert config.refused(request) == [
        "storePathRootDir",
        "rocketmqHome",
        "filterServerNums",
        "messageStorePlugIn",
        "aclEnable",
    ]
    assert config.update(request) == ["fileReservedTime", "longPollingEnable"]
    assert config.long_polling_enable is False  # Java's reading of a request's texts
    assert config.file_reserved_time == 48
    assert config.max_message_size == 4 << 20
    assert config.store_path_root_dir == root
    assert "noSuchKey" not in config.as_properties()


def test_no_text_that_could_name_something_is_live() -> None:
    texts = {
        setting.key
        for kind in (BrokerConfig, NameserverConfig)
        for setting in kind._settings.values()
        if setting.remote and setting.kind is str
    }
    assert texts == {"deleteWhen", "regionId"}


def test_role_and_id_follow_each_other() -> None:
    master = BrokerConfig(broker_id=3, listen_port=20_000)
    master.settle()
    assert (master.broker_id, master.ha_listen_port) == (0, 20_001)
    slave = BrokerConfig(broker_id=3, broker_role="SLAVE")
    slave.settle()
    assert slave.broker_id == 3
    with pytest.raises(ConfigError, match="Slave's brokerId must be > 0"):
        BrokerConfig(broker_role="SLAVE").settle()


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"namesrv_addr": "nowhere"}, "Name Server Address"),
        ({"listen_port": 70_000}, "listenPort=70000 is not a port"),
        ({"message_delay_level": "1s  2s"}, "messageDelayLevel: '' is not a number"),
    ],
)
def test_settings_nothing_can_be_started_with(settings: dict[str, object], complaint: str) -> None:
    config = BrokerConfig()
    for name, value in settings.items():
        setattr(config, name, value)
    with pytest.raises(ConfigError, match=complaint):
        config.settle()


def test_delay_levels() -> None:
    levels = BrokerConfig().delay_levels_ms
    assert len(levels) == 18
    assert levels[:5] == [1000, 5000, 10_000, 30_000, 60_000]
    assert levels[-1] == 7_200_000
    assert delay_levels_ms("1d 2h ") == [86_400_000, 7_200_000]
    for text in ("", "1", "s", "1x", "1s,2s", "1.5s"):
        with pytest.raises(ConfigError):
            delay_levels_ms(text)


def test_the_nameserver_has_its_own_defaults() -> None:
    config = NameserverConfig()
    assert config.listen_port == 9876
    assert config.kv_config_path == str(Path.home() / "namesrv" / "kvConfig.json")
    assert config.refused({"kvConfigPath": "", "listenPort": "", "orderMessageEnable": ""}) == [
        "kvConfigPath",
        "listenPort",
    ]


@pytest.mark.parametrize(
    ("addresses", "chosen"),
    [
        (["127.0.0.1", "10.0.0.5", "172.17.0.1"], "10.0.0.5"),
        (["192.168.1.2", "10.0.0.5"], "10.0.0.5"),
        (["192.168.1.2", "192.168.7.7", "fe80::1"], "192.168.7.7"),
        (["127.0.0.1", "::1", "fe80::1", "fd00::2"], "[fe80::1]"),
        (["127.0.0.1", "::1"], None),
    ],
)
def test_the_address_others_are_told(addresses: list[str], chosen: str | None) -> None:
    assert choose_address(addresses) == chosen


def test_this_machine_has_addresses() -> None:
    assert "127.0.0.1" in interface_addresses()
    assert local_address()


@pytest.mark.parametrize(
    ("host", "address"),
    [("10.1.2.3", "10.1.2.3"), ("localhost", "127.0.0.1"), ("[fd00::1]", "fd00::1")],
)
def test_a_host_of_any_form_has_an_address(host: str, address: str) -> None:
    assert resolved(host) == address


def test_a_host_that_is_none_is_told() -> None:
    with pytest.raises(ConfigError, match=r"brokerIP1=no-such-host\.invalid is neither"):
        resolved("no-such-host.invalid")


CONF = (
    "# Ask Anna first.\r\n"
    "  tls.server.mode = enforcing\r\n"
    "orderMessageEnable: \\\r\n   false\r\n"
    "\r\n"
    "! grün\r\n"
    "made.by=somebody else"
)


def test_a_rewritten_file_keeps_every_line_but_those_of_changed_keys() -> None:
    changes = {"orderMessageEnable": "true", "serverSelectorThreads": "4"}
    for encoding in ("utf-8", "iso-8859-1"):
        after = rewrite_properties(CONF.encode(encoding), changes).decode(encoding)
        assert after == (
            "# Ask Anna first.\r\n"
            "  tls.server.mode = enforcing\r\n"
            "orderMessageEnable=true\r\n"
            "\r\n"
            "! grün\r\n"
            "made.by=somebody else\n"
            "serverSelectorThreads=4\n"
        )
    assert rewrite_properties(CONF.encode(), {}) == CONF.encode()


@example(":\\\r", {"a": ""})
@given(
    st.text("ab=:\\# !\n\r\t\x0c", max_size=40),
    st.dictionaries(st.sampled_from(["a", "b", "ab", "a b"]), st.text("ab \\=\n", max_size=4)),
)
def test_a_rewritten_file_says_what_it_said_and_the_changes(
    text: str, changes: dict[str, str]
) -> None:
    if text.endswith("\\"):
        text += "\n"
    after = rewrite_properties(text.encode(), changes)
    assert parse_properties(after.decode()) == parse_properties(text) | changes

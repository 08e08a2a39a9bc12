"""Statements of the settings: the page shows them, they are true, and a start follows them."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest

from orbitmq.config import BrokerConfig, NameserverConfig, TlsSettings
from orbitmq.config.broker import SHOWN_ONLY
from orbitmq.config.reference import page
from orbitmq.config.settings import Setting, Use
from orbitmq.errors import ConfigError

ROOT = Path(__file__).parent.parent
SETTINGS = {
    (kind.__name__, setting.key): setting
    for kind in (BrokerConfig, NameserverConfig, TlsSettings)
    for setting in kind.known().values()
}


def test_the_page_is_current() -> None:
    written = (ROOT / "docs" / "settings.md").read_text()
    assert written == page(), "run make docs"


def test_the_page_names_every_key() -> None:
    text = page()
    assert not [key for _, key in SETTINGS if f"| `{key}` |" not in text]


def is_read(setting: Setting) -> bool:
    """True when the program looks at a setting: at the attribute, or at its name in a table."""
    pattern = re.compile(rf"""\.{setting.name}\b|"{setting.name}\"""")
    others = ("client", "admin", "spark")
    for file in (ROOT / "src" / "orbitmq").rglob("*.py"):
        if file.relative_to(ROOT / "src" / "orbitmq").parts[0] not in others:
            text = re.sub(rf"self\.{setting.name} = .*", "", file.read_text())
            if pattern.search(text):
                return True
    return False


@pytest.mark.parametrize(
    "setting",
    [one for one in SETTINGS.values() if one.meaning != SHOWN_ONLY],
    ids=lambda setting: setting.key,
)
def test_what_a_setting_says_is_true(setting: Setting) -> None:
    """A setting that is said to work is read somewhere; one without an effect is read nowhere."""
    assert setting.meaning.text
    if setting.meaning.use is Use.WORKS:
        assert is_read(setting), "declare it as idle, or read it"
    elif setting.meaning.use in (Use.IDLE, Use.WARNED):
        assert not is_read(setting), "declare what it does"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("transientStorePoolEnable", "true"),
        ("enableConsumeQueueExt", "true"),
        ("enableCalcFilterBitMap", "true"),
        ("filterServerNums", "2"),
    ],
)
def test_a_setting_without_effect_is_warned_of_once_with_the_reason(
    key: str, value: str, caplog: pytest.LogCaptureFixture
) -> None:
    config = BrokerConfig()
    config.take({key: value})
    config.check()
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert f"{key}={value} has no effect: " in record.getMessage()


def test_the_defaults_are_silent(caplog: pytest.LogCaptureFixture) -> None:
    BrokerConfig().check()
    NameserverConfig().check()
    assert not caplog.records


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("enableLmq", "true"),
        ("enableMultiDispatch", "true"),
        ("messageStorePlugIn", "org.example.Plugin"),
        ("duplicationEnable", "true"),
    ],
)
def test_a_setting_that_must_not_be_ignored_is_refused(key: str, value: str) -> None:
    config = BrokerConfig()
    config.take({key: value})
    with pytest.raises(ConfigError, match=f"{key}={value} is not supported: .*leave the setting"):
        config.check()


def test_a_nameserver_warns_of_cluster_test(caplog: pytest.LogCaptureFixture) -> None:
    config = NameserverConfig()
    config.take({"clusterTest": "true"})
    config.check()
    assert "clusterTest=true has no effect: no request for a topic is sent" in caplog.text


def test_a_request_that_changes_what_is_read_at_start_is_told_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    config = BrokerConfig()
    assert config.update({"flushIntervalCommitLog": "100"}) == ["flushIntervalCommitLog"]
    assert "flushIntervalCommitLog is read at start" in caplog.text
    caplog.clear()
    config.update({"fileReservedTime": "48"})
    assert not caplog.records


def test_important_settings_are_those_that_java_marks() -> None:
    important = {setting.key for setting in BrokerConfig.known().values() if setting.important}
    assert important == {
        "accessMessageInMemoryMaxRatio",
        "aclEnable",
        "autoCreateSubscriptionGroup",
        "autoCreateTopicEnable",
        "brokerClusterName",
        "brokerIP1",
        "brokerId",
        "brokerName",
        "brokerRole",
        "cleanFileForciblyEnable",
        "commitIntervalCommitLog",
        "deleteWhen",
        "fetchNamesrvAddrByAddressServer",
        "fileReservedTime",
        "flushCommitLogTimed",
        "flushDiskType",
        "flushIntervalCommitLog",
        "haMasterAddress",
        "maxTransferBytesOnMessageInDisk",
        "maxTransferBytesOnMessageInMemory",
        "maxTransferCountOnMessageInDisk",
        "maxTransferCountOnMessageInMemory",
        "messageIndexEnable",
        "messageIndexSafe",
        "msgTraceTopicName",
        "namesrvAddr",
        "rejectTransactionMessage",
        "storePathCommitLog",
        "storePathDLedgerCommitLog",
        "storePathRootDir",
        "traceTopicEnable",
        "transactionCheckInterval",
        "transactionCheckMax",
        "transactionTimeOut",
        "transientStorePoolEnable",
    }

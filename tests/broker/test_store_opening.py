"""Settings with which a store is not opened, because they would have no effect."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from orbitmq.broker.open_store import open_store
from orbitmq.config import BrokerConfig
from orbitmq.errors import ConfigError


def config_of(root: Path, **settings: str) -> BrokerConfig:
    config = BrokerConfig()
    config.take({"storePathRootDir": str(root), "mappedFileSizeCommitLog": str(1 << 20)} | settings)
    return config


@pytest.mark.parametrize(
    ("key", "value", "way_out"),
    [
        ("storePathCommitLog", "elsewhere", "move it there, or make that a link to it"),
        ("readOnlyCommitLogStorePaths", "elsewhere", "move these files to"),
        ("enableDLegerCommitLog", "true", "leave the setting out"),
        ("brokerRole", "SLAVE", "set brokerRole=ASYNC_MASTER"),
        ("brokerRole", "SYNC_MASTER", "set brokerRole=ASYNC_MASTER"),
        ("enableLmq", "true", "leave the setting out"),
        ("enableMultiDispatch", "true", "leave the setting out"),
        ("messageStorePlugIn", "a.Plugin", "leave the setting out"),
        ("duplicationEnable", "true", "leave the setting out"),
    ],
)
def test_unsupported_settings_are_refused_before_files_are_created(
    tmp_path: Path, key: str, value: str, way_out: str
) -> None:
    root = tmp_path / "store"
    with pytest.raises(ConfigError, match=f"{key}={value} is not supported: .*{way_out}"):
        open_store(config_of(root, **{key: value}), [1000])
    assert not root.exists()


def test_a_log_path_equal_or_linked_to_the_default_is_accepted(tmp_path: Path) -> None:
    root, elsewhere = tmp_path / "store", tmp_path / "elsewhere"
    open_store(config_of(root, storePathCommitLog=f"{root}/./commitlog"), [1000]).close()
    (root / "commitlog").rename(elsewhere)
    (root / "commitlog").symlink_to(elsewhere)
    open_store(config_of(root, storePathCommitLog=str(elsewhere)), [1000]).close()


def test_settings_without_effect_are_logged_when_the_store_opens(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    open_store(config_of(tmp_path, transientStorePoolEnable="true"), [1000]).close()
    (warning,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert "transientStorePoolEnable=true has no effect: " in warning.getMessage()

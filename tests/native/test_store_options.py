"""Options: RocketMQ's defaults, and what no store could work with."""

from pathlib import Path

import pytest

from orbitmq import Store, StoreOptions, errors


def test_the_defaults_are_rocketmq_s() -> None:
    usual = StoreOptions()
    assert usual.commit_log_file_size == 1 << 30
    assert usual.consume_queue_file_size == 300_000 * 20
    assert (usual.index_enabled, usual.index_slots, usual.index_entries) == (
        True,
        5_000_000,
        20_000_000,
    )
    assert (usual.flush, usual.flush_interval_ms, usual.flush_least_pages) == ("async", 500, 4)
    assert usual.flush_thorough_interval_ms == 10_000
    assert (usual.queue_flush_interval_ms, usual.queue_flush_least_pages) == (1000, 2)
    assert usual.checkpoint_interval_ms == 60_000
    assert usual.max_body_bytes == 4 << 20
    assert usual.check_crc_on_recover
    seconds = [1, 5, 10, 30, *range(60, 601, 60), 1200, 1800, 3600, 7200]
    assert usual.delay_levels_ms == [1000 * delay for delay in seconds]


def test_what_is_given_is_kept() -> None:
    options = StoreOptions(flush="sync", delay_levels_ms=[1, 2], index_enabled=False)
    assert (options.flush, options.delay_levels_ms, options.index_enabled) == (
        "sync",
        [1, 2],
        False,
    )


def test_a_flush_mode_nobody_knows() -> None:
    with pytest.raises(ValueError, match="sometimes"):
        StoreOptions(flush="sometimes")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "names"),
    [
        (StoreOptions(commit_log_file_size=100), "commit_log_file_size"),
        (StoreOptions(commit_log_file_size=1 << 40), "commit_log_file_size"),
        (StoreOptions(consume_queue_file_size=1), "consume_queue_file_size"),
        (StoreOptions(index_slots=0), "index_slots"),
        (StoreOptions(delay_levels_ms=[-1]), "delay_levels_ms"),
    ],
)
def test_sizes_no_store_could_work_with(tmp_path: Path, options: StoreOptions, names: str) -> None:
    with pytest.raises(errors.InvalidOptions, match=names) as caught:
        Store.open(tmp_path / "store", options, create=True)
    assert caught.value.fault is errors.Fault.CALLER
    assert not (tmp_path / "store").exists(), "a refusal leaves nothing behind"

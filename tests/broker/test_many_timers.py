"""A million timed messages: their memory use, and a restart."""

from __future__ import annotations

from pathlib import Path

from .test_timers import DAY_MS, HOUR_MS, MINUTE_MS, Bench

MILLION = 1_000_000
SOON = 1_000
"""Number of messages due within two minutes; half of all others in eight, the rest later."""
MOST_KB = 120_000


def anonymous_kb() -> int:
    """Return the anonymous memory of this process; mapped store files do not count."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1])
    raise AssertionError("no RssAnon")


def test_a_million_timers_need_bounded_memory_and_survive_a_restart(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "store")
    start, before_kb = bench.now, anonymous_kb()
    later_ms = (8 * MINUTE_MS, 3 * HOUR_MS, 8 * MINUTE_MS, 30 * DAY_MS)
    for number in range(MILLION):
        in_ms = 2 * MINUTE_MS if number < SOON else later_ms[number % 4]
        bench.hold(str(number), in_ms)
    assert anonymous_kb() - before_kb < MOST_KB
    bench.save()
    bench.come_back()
    assert anonymous_kb() - before_kb < MOST_KB
    delivered = bench.run(start + 3 * MINUTE_MS, 10_000)
    assert [body for _, body in delivered] == [b"%d" % number for number in range(SOON)]
    assert len(bench.service) == (MILLION - SOON) // 2
    # Messages due in hours have not moved; only their next step is kept in memory.
    bench.run(start + 5 * MINUTE_MS, MINUTE_MS)
    assert len(bench.service) == (MILLION - SOON) // 2
    bench.store.close()

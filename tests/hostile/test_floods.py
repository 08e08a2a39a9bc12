"""Peers that send as fast as they can, and one client beside them with single requests."""

from __future__ import annotations

import itertools
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from orbitmq._native import Command
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.protocol.flags import CommandFlag
from tests.broker.conftest import Wire, send_ext
from tests.hostile.conftest import Victim

FLOODER = Path(__file__).with_name("flooder.py")
FLOODING = 20
ASKED = 100
MOST_BETWEEN = 6000
"""Requests of others that may be handled while one waits: some turns of the broker's loop.

A share is a share of time, so that a slower machine handles fewer requests in it.
"""


@contextmanager
def flooded(victim: Victim, request: bytes) -> Iterator[None]:
    """Have twenty peers send one request repeatedly and read nothing."""
    with subprocess.Popen(
        [sys.executable, str(FLOODER), victim.broker, str(FLOODING)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as flooder:
        assert flooder.stdin is not None
        assert flooder.stdout is not None
        flooder.stdin.write(request.hex().encode() + b"\n")
        flooder.stdin.flush()
        assert flooder.stdout.readline() == b"flooding\n"
        yield
        flooder.stdin.close()
    assert flooder.returncode == 0


@pytest.mark.parametrize("flag", [CommandFlag.ONEWAY, 0], ids=["one-way", "unread answers"])
def test_a_client_with_single_requests_is_served_beside_a_flood(
    victim: Victim, flag: int, record_property: Callable[[str, object], None]
) -> None:
    topic = f"flooded-{flag}"
    request = Command(RequestCode.SEND_MESSAGE, ext=send_ext(topic), body=b"x", flag=flag).encode()
    offsets, took_ms = [], []
    with victim.keeps(within_mib=150):
        polite = Wire(victim.broker)
        with flooded(victim, request):
            for _ in range(ASKED):
                began = time.monotonic()
                sent = polite.send(topic)
                took_ms.append((time.monotonic() - began) * 1000)
                assert sent.code == ResponseCode.SUCCESS, sent.remark
                offsets.append(int(sent.get_ext("queueOffset") or 0))
        polite.close()
    # All are in one queue: its offsets count the requests handled in between.
    between = [after - before for before, after in itertools.pairwise(offsets)]
    often = statistics.quantiles(between, n=20)[18]  # A machine may stall once.
    p99_ms = statistics.quantiles(took_ms, n=100)[98]
    record_property("p99_ms", p99_ms)
    print(
        f"beside {FLOODING} that flood: median {statistics.median(took_ms):.1f} ms, "
        f"p99 {p99_ms:.1f} ms, {often:.0f} requests of others in between (19 of 20)"
    )
    assert often < MOST_BETWEEN

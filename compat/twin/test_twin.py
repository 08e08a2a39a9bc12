"""The twin test: one session, a real 4.9.7 broker and ours, the same answers.

A seed makes the session. Each request goes to both brokers, in the same order and over the same
number of connections; the next one follows when both have answered. After what `normalise` leaves
out, answers must be equal, and so must be what the brokers push to their clients. Every run of the
suite has the same session; ``TWIN_SEED=random`` looks for new ones, a number repeats one,
``TWIN_REQUESTS`` makes it longer, ``TWIN_DIFFERENCES`` lets it go on after the first difference.
"""

from __future__ import annotations

import os
import random
import time
from collections import deque
from pathlib import Path

import pytest

from compat.conftest import MakeCluster
from compat.java_cluster import BrokerSettings, StoreSizes
from compat.twin.accounting import ACCOUNT_CODES
from compat.twin.closing import closing
from compat.twin.session import next_request, opening
from compat.twin.sides import Encoding, Request, Side
from compat.twin.twins import Twins, shown
from compat.twin.world import BROKER, CLUSTER, World
from orbitmq.protocol.codes import RequestCode
from orbitmq.testing import LocalCluster

SEED = "497"
REQUESTS = int(os.environ.get("TWIN_REQUESTS", "5000"))
REQUESTS_THAT_MEET_ALL = 3000
MOMENT_EVERY = 400
QUIET_EVERY = 4 * MOMENT_EVERY
PUSHES_EVERY = 200
PUTS_SHOWN = 2

SETTINGS = {
    # Small limits, so that a session meets them; delays so long that none is over meanwhile.
    "messageDelayLevel": " ".join(f"{hours}h" for hours in range(1, 19)),
    "maxMessageSize": "65536",
    "maxTransferCountOnMessageInMemory": "32",
    "maxTransferBytesOnMessageInMemory": "16384",
    "maxTransferCountOnMessageInDisk": "8",
    "maxTransferBytesOnMessageInDisk": "8192",
    # No half message is checked during the session.
    "transactionCheckInterval": "3600000",
}
LOOKED_AT_ELSEWHERE = {
    *ACCOUNT_CODES,
    # OrbitMQ's own, unknown to Java's broker.
    *(int(RequestCode.ORBIT_SEND_ONCE), int(RequestCode.ORBIT_END_BATCH)),
    int(RequestCode.ORBIT_BULK_READ),
}
SIZES = StoreSizes(commit_log_file_size=1 << 20)


def _about(request: Request, difference: str | None) -> str | None:
    return None if difference is None else f"{shown(request)}\n    differs in {difference}"


@pytest.mark.parametrize("encoding", ["json", "binary"])
def test_both_brokers_give_the_same_answers(
    make_java_cluster: MakeCluster, tmp_path: Path, encoding: Encoding
) -> None:
    chosen = os.environ.get("TWIN_SEED") or SEED
    seed = random.SystemRandom().randrange(1 << 32) if chosen == "random" else int(chosen)
    print(f"TWIN_SEED={seed} TWIN_REQUESTS={REQUESTS} ({encoding} headers)")
    cluster = make_java_cluster(BrokerSettings(BROKER, CLUSTER, SIZES, extra=SETTINGS))
    cluster.start_broker()
    written = (cluster.directory / "broker.conf").read_text()
    conf = dict(line.split("=", 1) for line in written.splitlines())
    for place in ("namesrvAddr", "listenPort", "storePathRootDir", "storePathCommitLog"):
        del conf[place]
    with LocalCluster(data=tmp_path / "ours", settings=conf) as ours:
        (broker,) = ours.brokers.values()
        java_side = Side(cluster.broker, encoding, dispatches_later=True)
        our_side = Side(broker.config.address, encoding, dispatches_later=False)
        try:
            twins = Twins(java_side, our_side)
            run(World(seed), twins)
            if REQUESTS >= REQUESTS_THAT_MEET_ALL:
                served = {int(code) for code in broker.router.codes}
                assert served - twins.asked.keys() == LOOKED_AT_ELSEWHERE
        finally:
            java_side.close()
            our_side.close()


def pass_moment(world: World, twins: Twins, *, is_quiet: bool) -> None:
    """Let a moment pass in which neither broker stores anything, and remember it."""
    twins.java.receive_for(0.005)
    moment = time.time_ns() // 1_000_000
    world.moments.append(moment)
    if is_quiet:
        world.quiet_moments.append(moment)
    twins.java.receive_for(1.1 if is_quiet else 0.005)


def run(world: World, twins: Twins) -> None:
    differences = []
    limit = int(os.environ.get("TWIN_DIFFERENCES", "1"))
    twins.java.settle()
    requests = list(opening(world))
    puts: deque[str] = deque(maxlen=PUTS_SHOWN)
    for number in range(REQUESTS):
        if number % MOMENT_EVERY == 0:
            pass_moment(world, twins, is_quiet=number % QUIET_EVERY == 0 and number > 0)
        request = requests[number] if number < len(requests) else next_request(world)
        difference = twins.ask(world, request)
        if difference is None and number % PUSHES_EVERY == 0:
            difference = twins.pushes_differ()
        if difference is not None:
            before = "".join(f"\n    after the put {put}" for put in puts)
            text = f"request {number}: {shown(request)}\n    differs in {difference}{before}"
            differences.append(text)
            if len(differences) >= limit:
                break
        if request.writes:
            puts.append(f"{number}: {shown(request)}")
    if not differences:
        twins.pushes_differ()
        ends = closing(world, lambda request: _about(request, twins.ask(world, request)))
        differences += [difference for difference in ends if difference is not None]
        if (pushed := twins.pushes_differ()) is not None:
            differences.append(pushed)
    assert not differences, "\n".join(differences)

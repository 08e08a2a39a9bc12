"""The twin test of access control: accounts are changed, used and abused on both brokers.

In a session of its own, because without access control a Java broker fails at requests about
accounts or leaves them unanswered. ``TWIN_SEED`` works here, too.

A Java broker reads its file of accounts every five seconds, when it has changed, and a change that
is asked for while it reads is lost for the next five. So that this is nobody's luck, all is asked
in the time between two readings. That one is over shows on a sundial: an account changed in part,
which the broker lets in again only when it has read the rest of it.
"""

from __future__ import annotations

import os
import random
import select
import time
from contextlib import ExitStack
from pathlib import Path

from compat.conftest import MakeCluster
from compat.java_cluster import BrokerSettings
from compat.twin.accounting import (
    ACCOUNT_CODES,
    ACCOUNTS,
    hide_sundial,
    look_at_version,
    next_request,
    read_sundial,
)
from compat.twin.sides import Encoding, Side
from compat.twin.test_twin import SIZES
from compat.twin.twins import Twins, shown
from compat.twin.world import BROKER, CLUSTER, World
from orbitmq.protocol.codes import ResponseCode
from orbitmq.testing import LocalCluster

SEED = "497"
REQUESTS = 2000
SETTINGS = {"aclEnable": "true"}
BETWEEN_READINGS_S = 2.5  # Of five seconds: the next one may be late, and so may be an answer.
READING_TIMEOUT_S = 60.0
POLL_PAUSE_S = 0.05
ENCODINGS: tuple[Encoding, ...] = ("json", "binary")


def test_both_brokers_give_the_same_verdict_on_requests(
    make_java_cluster: MakeCluster, tmp_path: Path
) -> None:
    chosen = os.environ.get("TWIN_SEED") or SEED
    seed = random.SystemRandom().randrange(1 << 32) if chosen == "random" else int(chosen)
    print(f"TWIN_SEED={seed}")
    cluster = make_java_cluster(BrokerSettings(BROKER, CLUSTER, SIZES, extra=SETTINGS))
    homes = cluster.directory / "home", tmp_path / "home"
    for home in homes:
        (home / "conf").mkdir(parents=True, exist_ok=True)
        (home / "conf" / "plain_acl.yml").write_text(ACCOUNTS)
    cluster.start_broker()
    names = {"brokerName": BROKER, "brokerClusterName": CLUSTER, "rocketmqHome": str(homes[1])}
    with (
        LocalCluster(data=tmp_path / "ours", settings=SETTINGS | names) as ours,
        ExitStack() as end,
    ):
        (broker,) = ours.brokers.values()
        both: list[Twins] = []
        for encoding in ENCODINGS:
            sides = [
                Side(address, encoding, dispatches_later=False)
                for address in (cluster.broker, broker.config.address)
            ]
            for side in sides:
                end.callback(side.close)
            both.append(Twins(*sides))
        run(World(seed), both)
    for twins in both:
        assert twins.asked.keys() >= ACCOUNT_CODES


def run(world: World, both: list[Twins]) -> None:
    ends = time.monotonic()
    for number in range(REQUESTS):
        if time.monotonic() >= ends:
            await_reading(world, both[0])
            ends = time.monotonic() + BETWEEN_READINGS_S
        request = next_request(world)
        twins = world.one(both)
        difference = twins.ask(world, request)
        about = f"request {number}: {shown(request)}"
        assert difference is None, f"{about}\n    differs in {difference}"


def await_reading(world: World, twins: Twins) -> None:
    """Return just after the Java broker has read its account file with all changes."""
    deadline = time.monotonic() + READING_TIMEOUT_S
    while True:
        assert twins.ask(world, hide_sundial()) is None
        while not is_lit(twins):
            assert time.monotonic() < deadline, "the Java broker does not read its accounts again"
            select.select([], [], [], POLL_PAUSE_S)
        if twins.ask(world, look_at_version()) is None:
            return  # Otherwise it was reading during the change: its content is old.


def is_lit(twins: Twins) -> bool:
    answer = twins.ask_one(twins.java, read_sundial())
    return answer.code == ResponseCode.TOPIC_NOT_EXIST

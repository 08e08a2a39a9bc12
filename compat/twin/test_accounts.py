"""The twin test of brokers that check who asks: accounts are changed, used and abused on both.

In a session of its own, because without access control a Java broker fails at requests about
accounts or leaves them unanswered. ``TWIN_SEED`` works here, too.
"""

from __future__ import annotations

import os
import random
from contextlib import ExitStack
from pathlib import Path

from compat.conftest import MakeCluster
from compat.java_cluster import BrokerSettings
from compat.twin.accounting import (
    ACCOUNT_CODES,
    ACCOUNTS,
    next_request,
)
from compat.twin.sides import Encoding, Side
from compat.twin.test_twin import SIZES
from compat.twin.twins import Twins, shown
from compat.twin.world import BROKER, CLUSTER, World
from orbitmq.testing import LocalCluster

SEED = "497"
REQUESTS = 2000
SETTINGS = {"aclEnable": "true"}
ENCODINGS: tuple[Encoding, ...] = ("json", "binary")


def test_two_brokers_one_verdict(make_java_cluster: MakeCluster, tmp_path: Path) -> None:
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
    for number in range(REQUESTS):
        request = next_request(world)
        twins = world.one(both)
        difference = twins.ask(world, request)
        about = f"request {number}: {shown(request)}"
        assert difference is None, f"{about}\n    differs in {difference}"

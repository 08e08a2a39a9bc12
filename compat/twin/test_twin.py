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
from collections import Counter, deque
from pathlib import Path

import pytest

from compat.conftest import MakeCluster
from compat.java_cluster import BrokerSettings, StoreSizes
from compat.twin import normalise
from compat.twin.closing import closing
from compat.twin.session import next_request, opening
from compat.twin.sides import Encoding, Request, Side
from compat.twin.world import BROKER, CLUSTER, World
from orbitmq._native import Command, decode_records, loads_lenient
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.testing import LocalCluster

SEED = "497"
REQUESTS = int(os.environ.get("TWIN_REQUESTS", "5000"))
REQUESTS_THAT_MEET_ALL = 3000
MOMENT_EVERY = 400
QUIET_EVERY = 4 * MOMENT_EVERY
PUSHES_EVERY = 200
PUSH_TIMEOUT_S = 5.0
SHOWN = 1500
PUTS_SHOWN = 2

SETTINGS = {
    # Small limits, so that a session meets them; delays so long that none is over meanwhile.
    "messageDelayLevel": " ".join(f"{hours}h" for hours in range(1, 19)),
    "maxMessageSize": "65536",
    "maxTransferCountOnMessageInMemory": "32",
    "maxTransferBytesOnMessageInMemory": "16384",
    "maxTransferCountOnMessageInDisk": "8",
    "maxTransferBytesOnMessageInDisk": "8192",
    # Nobody is asked what became of a half message while the session lasts.
    "transactionCheckInterval": "3600000",
}
LOOKED_AT_ELSEWHERE = {
    # Accounts: in compat/mqadmin, where brokers have some.
    *(50, 51, 52, 53, 54),
    # OrbitMQ's own, which Java's broker does not know.
    *(int(RequestCode.ORBIT_SEND_ONCE), int(RequestCode.ORBIT_BULK_READ)),
}
SIZES = StoreSizes(commit_log_file_size=1 << 20)


class Twins:
    """Both sides, and how their answers compare."""

    def __init__(self, java: Side, ours: Side) -> None:
        self.java, self.ours = java, ours
        self._opaque = 0
        self.asked: Counter[int] = Counter()
        self._views = {
            side: normalise.Side(side.port, [c.port for c in side.channels], side is java)
            for side in (java, ours)
        }

    def ask(self, world: World, request: Request) -> str | None:
        """Send a request to both; returns how the answers differ."""
        self._opaque += 1
        self.asked[int(request.code)] += 1
        for side in (self.java, self.ours):
            side.post(request, self._opaque)
        if not request.wants_answer:
            return None
        theirs, own = self.java.answer(self._opaque), self.ours.answer(self._opaque)
        world.learn(request, theirs)
        if theirs.code == ResponseCode.PULL_OFFSET_MOVED:
            self.java.is_behind = True  # it has put an event
        java, ours = (
            self._seen(request.code, theirs, self.java),
            self._seen(request.code, own, self.ours),
        )
        difference = normalise.compare(java, ours)
        is_search = request.code == RequestCode.SEARCH_OFFSET_BY_TIMESTAMP
        if difference is not None and is_search and self._both_nearest(request, theirs, own):
            return None
        if difference is not None:
            difference += f"\n    java answers {_shown(java)}\n    ours answers {_shown(ours)}"
        return difference

    def _seen(self, code: int, command: Command, side: Side) -> normalise.Seen:
        answer = normalise.seen(code, command)
        for change in normalise.NORMALISATIONS:
            change(answer, self._views[side])
        return answer

    def _both_nearest(self, request: Request, theirs: Command, own: Command) -> bool:
        """Whether each side names the message stored nearest to a time between two of them.

        They may differ: which of two is nearer can be a matter of a millisecond.
        """
        ext = request.ext or {}
        for side, answer in ((self.java, theirs), (self.ours, own)):
            offset, time_ms = int(answer.get_ext("offset") or -1), int(ext["timestamp"])
            distance = {
                near: abs(stored - time_ms)
                for near in (offset - 1, offset, offset + 1)
                if (stored := self._stored_at(side, ext, near)) is not None
            }
            if offset not in distance or distance[offset] > min(distance.values()):
                return False
        return True

    def _stored_at(self, side: Side, ext: dict[str, str], offset: int) -> int | None:
        """When the message at a queue offset was stored on one side."""
        entry = {"index": str(offset), "count": "1"}
        answer = self._ask_one(side, Request(RequestCode.QUERY_CONSUME_QUEUE, ext | entry))
        if offset < 0 or not answer.body:
            return None
        (unit,) = loads_lenient(answer.body)["queueData"]
        place = {"offset": str(unit["physicOffset"])}
        answer = self._ask_one(side, Request(RequestCode.VIEW_MESSAGE_BY_ID, place))
        return decode_records(answer.body)[0].store_timestamp

    def _ask_one(self, side: Side, request: Request) -> Command:
        self._opaque += 1
        side.post(request, self._opaque)
        return side.answer(self._opaque)

    def pushes_differ(self) -> str | None:
        """Compare what the brokers pushed since the last call, connection by connection."""
        for number, (theirs, own) in enumerate(
            zip(self.java.channels, self.ours.channels, strict=True)
        ):
            deadline = time.monotonic() + PUSH_TIMEOUT_S
            while len(theirs.pushes) != len(own.pushes) and time.monotonic() < deadline:
                for side in (self.java, self.ours):
                    side.receive_for(0.01)
            views = []
            for channel, side in ((theirs, self.java), (own, self.ours)):
                seen = [self._seen(push.code, push, side) for push in channel.pushes]
                channel.pushes.clear()
                views.append(sorted(seen, key=normalise.canonical))
            java, ours = views
            if java != ours:
                counts = [Counter(push.code for push in view) for view in views]
                first = next((p for p in zip(java, ours, strict=False) if p[0] != p[1]), None)
                return f"pushes to {number}: java={counts[0]} ours={counts[1]}, first {first}"
        return None


def _about(request: Request, difference: str | None) -> str | None:
    return None if difference is None else f"{_shown(request)}\n    differs in {difference}"


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) < SHOWN else f"{text[:SHOWN]}... ({len(text)} characters)"


@pytest.mark.timeout(180)  # two brokers and a busy machine
@pytest.mark.parametrize("encoding", ["json", "binary"])
def test_two_brokers_one_answer(
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
            text = f"request {number}: {_shown(request)}\n    differs in {difference}{before}"
            differences.append(text)
            if len(differences) >= limit:
                break
        if request.writes:
            puts.append(f"{number}: {_shown(request)}")
    if not differences:
        twins.pushes_differ()
        ends = closing(world, lambda request: _about(request, twins.ask(world, request)))
        differences += [difference for difference in ends if difference is not None]
        if (pushed := twins.pushes_differ()) is not None:
            differences.append(pushed)
    assert not differences, "\n".join(differences)

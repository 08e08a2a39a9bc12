"""Queue shares of members, compared with the results of Java's strategies."""

import hashlib

import pytest

from orbitmq.client.consumer.assignment import (
    AllocateStrategy,
    Averagely,
    AveragelyByCircle,
    ByConfig,
    ConsistentHash,
    MachineRoom,
    MachineRoomNearby,
    allocate,
)
from orbitmq.protocol.bodies import MessageQueue

QUEUES = [MessageQueue("TopicTest", f"broker-{name}", n) for name in "ab" for n in range(4)]
IDS = ["10.0.0.1@c1", "10.0.0.2@c2", "10.0.0.3@c3"]


def _short(queues: list[MessageQueue]) -> str:
    return " ".join(f"{queue.broker_name[-1]}{queue.queue_id}" for queue in queues)


def _shares(strategy: AllocateStrategy, ids: list[str] = IDS) -> list[str]:
    # The lists come in any order; each member sorts them first.
    return [_short(allocate(strategy, own, QUEUES[::-1], ids[::-1])) for own in ids]


@pytest.mark.parametrize(
    ("strategy", "shares"),
    [
        (Averagely(), ["a0 a1 a2", "a3 b0 b1", "b2 b3"]),
        (AveragelyByCircle(), ["a0 a3 b2", "a1 b0 b3", "a2 b1"]),
        (ConsistentHash(), ["a0", "a2 b0", "a1 a3 b1 b2 b3"]),
    ],
)
def test_shares_equal_javas(strategy: AllocateStrategy, shares: list[str]) -> None:
    assert _shares(strategy) == shares


@pytest.mark.parametrize("strategy", [Averagely(), AveragelyByCircle(), ConsistentHash()])
@pytest.mark.parametrize("members", range(1, 12))
def test_every_queue_has_one_owner(strategy: AllocateStrategy, members: int) -> None:
    ids = [f"10.0.0.{n}@x" for n in range(members)]
    given = [queue for own in ids for queue in allocate(strategy, own, QUEUES, ids)]
    assert sorted(given) == QUEUES


def test_members_beyond_the_number_of_queues_get_none() -> None:
    ids = [f"c{n:02}" for n in range(10)]
    assert [len(allocate(Averagely(), own, QUEUES, ids)) for own in ids] == [1] * 8 + [0] * 2


def test_a_member_outside_the_group_gets_no_queues() -> None:
    assert allocate(Averagely(), "stranger", QUEUES, IDS) == []


@pytest.mark.parametrize(
    ("own", "queues", "ids"), [("", QUEUES, IDS), (IDS[0], [], IDS), (IDS[0], QUEUES, [])]
)
def test_invalid_allocation_arguments_are_errors(
    own: str, queues: list[MessageQueue], ids: list[str]
) -> None:
    with pytest.raises(ValueError, match="nothing can be allocated"):
        allocate(Averagely(), own, queues, ids)


def test_configured_queues_are_returned_unchanged() -> None:
    chosen = [MessageQueue("Other", "x", 9)]
    assert allocate(ByConfig(chosen), IDS[0], QUEUES, IDS) == chosen


def test_consistent_hashing_accepts_another_hash_function() -> None:
    def sha(text: str) -> int:
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")

    shares = _shares(ConsistentHash(3, sha))
    assert sorted(" ".join(shares).split()) == sorted(_short(QUEUES).split())
    assert shares != _shares(ConsistentHash())


def test_machine_room_assigns_the_remaining_queues_one_by_one() -> None:
    near = [MessageQueue("T", "r1@a", n) for n in range(5)]
    far = [MessageQueue("T", "r2@a", n) for n in range(5)] + [MessageQueue("T", "plain", 0)]
    shares = [allocate(MachineRoom({"r1"}), own, near + far, IDS) for own in IDS]
    ids_of = [[queue.queue_id for queue in share] for share in shares]
    assert ids_of == [[0, 3], [1, 4], [2]]


def _nearby(rooms: dict[str, str]) -> MachineRoomNearby:
    return MachineRoomNearby(
        Averagely(), lambda queue: queue.broker_name[-1], lambda own: rooms[own]
    )


def test_nearby_members_share_their_room() -> None:
    strategy = _nearby({IDS[0]: "a", IDS[1]: "a", IDS[2]: "b"})
    assert _shares(strategy) == ["a0 a1", "a2 a3", "b0 b1 b2 b3"]
    assert strategy.name == "MACHINE_ROOM_NEARBY-AVG"


def test_a_room_without_members_is_shared_by_all() -> None:
    strategy = _nearby(dict.fromkeys(IDS, "a"))
    assert _shares(strategy) == ["a0 a1 b0 b1", "a2 b2", "a3 b3"]


def test_a_distant_member_gets_only_queues_without_near_members() -> None:
    strategy = _nearby({IDS[0]: "a", IDS[1]: "b", IDS[2]: "c"})
    assert _shares(strategy) == ["a0 a1 a2 a3", "b0 b1 b2 b3", ""]


def test_an_unknown_room_is_an_error() -> None:
    strategy = _nearby({IDS[0]: "a", IDS[1]: "", IDS[2]: "c"})
    with pytest.raises(ValueError, match="machine room"):
        allocate(strategy, IDS[0], QUEUES, IDS)

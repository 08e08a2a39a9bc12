"""Our broker at the real nameserver: compressed registrations, and version queries."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from compat.nameserver.asking import Asker
from compat.nameserver.conftest import Pair
from orbitmq._native import loads_lenient
from orbitmq.broker.app import Broker
from orbitmq.config import BrokerConfig
from orbitmq.protocol.bodies import TopicConfig
from orbitmq.protocol.codes import RequestCode


def queues_of(nameserver: str, topic: str) -> dict[str, int | str]:
    asker = Asker(nameserver)
    try:
        answer = asker.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
    finally:
        asker.close()
    assert answer.code == 0, answer.remark
    (queues,) = loads_lenient(answer.body)["queueDatas"]
    return dict(queues)


@pytest.mark.parametrize("compressed", ["true", "false"])
def test_java_accepts_our_registration_and_its_version(
    pair: Pair, tmp_path: Path, compressed: str
) -> None:
    config = BrokerConfig(store_path_root_dir=str(tmp_path), namesrv_addr=pair.java.nameserver)
    config.take(
        {
            "brokerName": f"ours-{compressed}",
            "brokerIP1": "127.0.0.1",
            "listenPort": "0",
            "mappedFileSizeCommitLog": str(1 << 20),
            "compressedRegister": compressed,
            "forceRegister": "false",
        }
    )
    topic = f"registered-{compressed}"

    async def register() -> None:
        broker = Broker(config, hosts=("127.0.0.1",))
        await broker.start()
        try:
            assert not await broker.registration._is_news_to_somebody()
            broker.topics.put(TopicConfig(topic, 3, 5, perm=4), announce=False)
            assert await broker.registration._is_news_to_somebody()
            await broker.registration.register()
            assert not await broker.registration._is_news_to_somebody()
            found = await asyncio.to_thread(queues_of, pair.java.nameserver, topic)
        finally:
            await broker.stop()
        assert (found["readQueueNums"], found["writeQueueNums"], found["perm"]) == (3, 5, 4)

    asyncio.run(register())

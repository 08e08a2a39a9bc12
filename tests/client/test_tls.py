"""Every kind of client and a cluster that requires TLS and a certificate."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from orbitmq import (
    Admin,
    AsyncAdmin,
    AsyncConsumer,
    AsyncProducer,
    AsyncPullConsumer,
    AsyncPushConsumer,
    Consumer,
    Message,
    Producer,
    PullConsumer,
    PushConsumer,
    Tls,
)
from orbitmq.errors import OrbitError
from orbitmq.testing import LocalCluster
from tests.certificates import Authority, Certified
from tests.client.conftest import Seen

BODY = random.Random(7).randbytes(1 << 20)


class Closed:
    """A cluster with one authority, and the certificates it has signed."""

    def __init__(self, directory: Any) -> None:
        self.authority = Authority(directory / "authority")
        self.elsewhere = Authority(directory / "elsewhere")
        self._own = self.authority.sign("client")
        self._stranger = self.elsewhere.sign("stranger")
        self.cluster = LocalCluster(settings=self.authority.cluster_settings())

    @property
    def tls(self) -> Tls:
        """Return settings with a valid certificate."""
        return self._tls(self.authority, self._own)

    def not_let_in(self) -> list[Tls | bool]:
        """Return TLS settings to be refused: none, no certificate, a stranger's, no trust."""
        return [
            False,
            self._tls(self.authority, None),
            self._tls(self.authority, self._stranger),
            self._tls(self.elsewhere, self._own),
        ]

    @staticmethod
    def _tls(authority: Authority, own: Certified | None) -> Tls:
        if own is None:
            return Tls(ca_file=authority.cert)
        return Tls(ca_file=authority.cert, cert_file=own.cert, key_file=own.key)


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Closed]:
    made = Closed(tmp_path_factory.mktemp("tls"))
    with made.cluster, Admin(made.cluster.address, tls=made.tls) as admin:
        admin.create_topic("T", queues=2)
        yield made


@pytest.fixture
def make(way: Any, closed: Closed, group: str) -> Callable[..., Any]:
    def make(blocking: Any, twin: Any, *topics: str, **options: Any) -> Any:
        if blocking is not Admin:
            options = {"group": group} | options
        return way(blocking, twin)(
            closed.cluster.address, *topics, **({"tls": closed.tls} | options)
        )

    return make


def _push(make: Callable[..., Any], way: Any, seen: Seen, **options: Any) -> Any:
    consumer = make(PushConsumer, AsyncPushConsumer, consume_from="first", **options)

    async def handle(message: Any) -> None:
        seen(message)

    consumer.on("T")(handle if way.kind == "async" else seen)
    return consumer


def test_every_client_is_served_with_certificate_and_signature(
    make: Callable[..., Any], way: Any, group: str
) -> None:
    seen = Seen()
    with make(Producer, AsyncProducer) as producer:
        sent = producer.send(Message("T", BODY, keys=["k"]))
        assert producer.send_many([Message("T", b"1"), Message("T", b"2")]).queue is not None
        with _push(make, way, seen):
            seen.wait_for(lambda: any(m.message_id == sent.message_id for m in seen.messages))
            held = producer.send(Message("T", b"to pulls that are held"))
            seen.wait_for(lambda: any(m.message_id == held.message_id for m in seen.messages))
    assert BODY in {message.body for message in seen.messages}
    options = {"group": f"{group}-reader", "consume_from": "first"}
    with make(Consumer, AsyncConsumer, "T", **options) as reader:
        assert any(message.message_id == held.message_id for message in reader)
    with make(PullConsumer, AsyncPullConsumer) as puller:
        (message,) = puller.pull(sent.queue, sent.queue_offset, 1).messages
        assert message.body == BODY
        assert puller.committed(sent.queue) == puller.end_offset(sent.queue)
    with make(Admin, AsyncAdmin) as admin:
        assert admin.group_lag(group, "T").total == 0
        assert admin.message_by_id("T", sent.offset_id).body == BODY


def test_every_client_is_refused_without_a_valid_certificate(
    make: Callable[..., Any], way: Any, closed: Closed
) -> None:
    for tls in closed.not_let_in():
        with (
            make(Producer, AsyncProducer, tls=tls, timeout_ms=300) as producer,
            pytest.raises(OrbitError),
        ):
            producer.send(Message("T", b"x"))
        with pytest.raises(OrbitError):
            _push(make, way, Seen(), tls=tls).start()
        with pytest.raises(OrbitError):
            make(Consumer, AsyncConsumer, "T", tls=tls).start()
        with (
            make(PullConsumer, AsyncPullConsumer, tls=tls, timeout_ms=300) as puller,
            pytest.raises(OrbitError),
        ):
            puller.queues("T")
        with make(Admin, AsyncAdmin, tls=tls) as admin, pytest.raises(OrbitError):
            admin.cluster_info()


def test_an_untrusted_certificate_is_named_in_the_error(
    make: Callable[..., Any], closed: Closed
) -> None:
    tls = Tls(ca_file=closed.elsewhere.cert)
    with (
        make(Producer, AsyncProducer, tls=tls) as producer,
        pytest.raises(OrbitError, match="certificate verify failed"),
    ):
        producer.send(Message("T", b"x"))

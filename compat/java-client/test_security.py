"""The official Java client and a cluster that requires TLS and a signature."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compat.java_client import JavaClient
from orbitmq.admin.admin import Admin
from orbitmq.remoting.tls import Tls
from orbitmq.testing import LocalCluster
from tests.certificates import Authority, Certified

ACCOUNTS = """
accounts:
- accessKey: shopkeeper
  secretKey: 012345678
  defaultTopicPerm: DENY
  defaultGroupPerm: DENY
  topicPerms: [orders=PUB|SUB]
  groupPerms: [clerks=SUB]
- accessKey: manager1
  secretKey: s3cret-s3cret
  admin: true
"""
SHOPKEEPER = {"access_key": "shopkeeper", "secret_key": "012345678"}
REFUSED = "org.apache.rocketmq.acl.common.AclException: "


class Guarded:
    """A cluster, and the credentials of a client."""

    def __init__(self, directory: Path, *, strict: bool) -> None:
        self.authority = Authority(directory / "authority")
        self.client = self.authority.sign("client")
        self.stranger = Authority(directory / "other").sign("stranger")
        conf = directory / "home" / "conf"
        conf.mkdir(parents=True)
        (conf / "plain_acl.yml").write_text(ACCOUNTS)
        accounts = {
            "aclEnable": "true",
            "aclStrict": str(strict).lower(),
            "rocketmqHome": str(conf.parent),
        }
        self.cluster = LocalCluster(settings=accounts | self.authority.cluster_settings())

    def tls(self, own: Certified | None, trust: Path | None = None) -> dict[str, str]:
        """Return TLS settings by the names in `Secured.java`."""
        words = {"trust": str(trust or self.authority.cert)}
        if own is not None:
            words |= {"cert": str(own.cert), "key": str(own.key)}
        return words


@pytest.fixture(scope="module", params=[False, True], ids=["as in 4.9.7", "strict"])
def guarded(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Guarded]:
    made = Guarded(tmp_path_factory.mktemp("guarded"), strict=request.param)
    with made.cluster as cluster:
        tls = Tls(ca_file=made.authority.cert, cert_file=made.client.cert, key_file=made.client.key)
        keys = {"access_key": "manager1", "secret_key": "s3cret-s3cret"}
        with Admin(cluster.address, tls=tls, **keys) as admin:
            admin.create_topic("orders", queues=2)
            admin.create_topic("secrets", queues=1)
        yield made


def play(client: JavaClient, guarded: Guarded, scenario: str, **words: Any) -> Any:
    order = {"topic": "orders", "group": "clerks", "tls": guarded.tls(guarded.client)}
    return client.play(scenario, nameserver=guarded.cluster.address, **(order | words))


def test_a_client_with_certificate_and_signature_is_served(
    client: JavaClient, guarded: Guarded
) -> None:
    assert play(client, guarded, "secured_talk", **SHOPKEEPER) == 21


def test_wrong_signatures_and_missing_rights_are_refused(
    client: JavaClient, guarded: Guarded
) -> None:
    for words, text in (
        ({}, "No accessKey is configured"),
        (SHOPKEEPER | {"secret_key": "012345679"}, "Check signature failed"),
        ({"access_key": "stranger", "secret_key": "012345678"}, "No acl config for stranger"),
        (SHOPKEEPER | {"topic": "secrets"}, "No default permission for topic:secrets"),
    ):
        assert REFUSED + text in play(client, guarded, "secured_refusal", **words)


def test_only_administrators_may_create_topics(client: JavaClient, guarded: Guarded) -> None:
    manager = {"access_key": "manager1", "secret_key": "s3cret-s3cret", "topic": "made"}
    assert play(client, guarded, "secured_admin", **manager) == "made"
    refusal = play(client, guarded, "secured_admin", **SHOPKEEPER)
    assert REFUSED + "Need admin permission for request code=17" in refusal


@pytest.mark.parametrize("encoding", ["JSON"], indirect=True, scope="session")
def test_clients_without_a_trusted_certificate_are_refused(
    client: JavaClient, guarded: Guarded, tmp_path: Path
) -> None:
    elsewhere = Authority(tmp_path / "elsewhere").cert
    # Whether a client that was hung up on fails to connect, to send or to hear is a matter of
    # moments; one that does not believe the server says so.
    hung_up = "org.apache.rocketmq.remoting.exception.Remoting"
    for tls, words in (
        (None, hung_up),  # Plain connection.
        (guarded.tls(None), hung_up),
        (guarded.tls(guarded.stranger), hung_up),
        (guarded.tls(guarded.client, trust=elsewhere), "Signature does not match"),
    ):
        refusal = play(client, guarded, "secured_refusal", **SHOPKEEPER, tls=tls)
        assert words in refusal or (hung_up in refusal and tls), refusal

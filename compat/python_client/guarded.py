"""Brokers that serve only known accounts: ours, 4.9.7 and 5.4.0, with the same accounts.

4.x reads them from `plain_acl.yml`, and so do we. 5.x keeps accounts of its own; here it is told
to take over those of that file when it starts.
"""

from __future__ import annotations

from pathlib import Path

from compat.java_cluster import BrokerSettings, JavaCluster
from orbitmq.testing import LocalCluster

__all__ = ["MANAGER", "SHOPKEEPER", "Guarded"]

SHOPKEEPER = {"access_key": "shopkeeper", "secret_key": "12345678"}
"""May send to and read `orders`, in any group."""
MANAGER = {"access_key": "manager1", "secret_key": "s3cret-s3cret"}
"""May do anything."""
ACCOUNTS = """
globalWhiteRemoteAddresses: []
accounts:
- accessKey: shopkeeper
  secretKey: 12345678
  defaultTopicPerm: DENY
  defaultGroupPerm: SUB
  admin: false
  topicPerms:
  - orders=PUB|SUB
  - TBW102=PUB
- accessKey: manager1
  secretKey: s3cret-s3cret
  admin: true
"""
_AUTH = "org.apache.rocketmq.auth"
SETTINGS = {
    "4.9.7": {"aclEnable": "true"},
    "5.4.0": {
        "authenticationEnabled": "true",
        "authorizationEnabled": "true",
        "migrateAuthFromV1Enabled": "true",
        **{
            f"{what}{part}Provider": f"{_AUTH}.{what}.provider.{kind}{What}{part}Provider"
            for what, What in (
                ("authentication", "Authentication"),
                ("authorization", "Authorization"),
            )
            for part, kind in (("", "Default"), ("Metadata", "Local"))
        },
        # Brokers are clients as well.
        "innerClientAuthenticationCredentials": '{"accessKey":"manager1",'
        '"secretKey":"s3cret-s3cret"}',
    },
}


class Guarded:
    """A cluster of one broker, of one of the three kinds."""

    def __init__(self, directory: Path, kind: str) -> None:
        home = directory / "home"
        if kind == "ours":
            _write_accounts(home)
            settings = {"aclEnable": "true", "rocketmqHome": str(home)}
            ours = LocalCluster(settings=settings).start()
            self.address, self.stop = ours.address, ours.stop
            return
        java = JavaCluster(directory, BrokerSettings(release=kind).with_extra(**SETTINGS[kind]))
        self.address, self.stop = java.nameserver, java.close
        _write_accounts(home)
        try:
            java.start_broker()
        except BaseException:
            java.close()
            raise


def _write_accounts(home: Path) -> None:
    (home / "conf" / "acl").mkdir(parents=True)
    (home / "conf" / "plain_acl.yml").write_text(ACCOUNTS)

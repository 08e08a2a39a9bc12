"""Verbs about brokers, nameservers, accounts and whole configurations, in both twins."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from orbitmq.admin import accounts as _access
from orbitmq.admin import brokers as _brokers
from orbitmq.admin import groups as _groups
from orbitmq.admin import nameservers as _nameservers
from orbitmq.admin import topics as _topics
from orbitmq.admin.accounts import AccessConfig, AccessVersions, Account
from orbitmq.admin.brokers import BrokerLag, CleanKind, Counter
from orbitmq.admin.namespace import AsyncVerbRunner, VerbRunner
from orbitmq.protocol.bodies import SubscriptionGroup, TopicConfig

__all__ = ["AsyncServerVerbs", "ServerVerbs"]


class ServerVerbs(VerbRunner):
    """Verbs about brokers, nameservers, accounts and whole configurations."""

    # ---- brokers

    def clean_broker(self, address: str, what: CleanKind) -> None:
        """Make a broker clean up: ``admin.clean_broker("10.0.0.1:10911", "topics")``.

        The kinds are ``"queues"`` without messages, unused ``"topics"``, and expired files of the
        ``"log"``.
        """
        self._run(_brokers.clean_broker(address, what))

    def broker_lag(self, address: str, *, only_ordered: bool = False) -> BrokerLag:
        """Return the lag of every group in a broker's queues: ``admin.broker_lag(address).total``.

        With `only_ordered` only ordered topics count.
        """
        return self._run(_brokers.broker_lag(address, only_ordered=only_ordered))

    def counter(self, address: str, name: str, key: str) -> Counter | None:
        """Return recent values of a broker's counter, or None if it has not counted yet.

        ``admin.counter(address, "TOPIC_PUT_NUMS", "orders").last_minute``
        """
        return self._run(_brokers.counter(address, name, key))

    def deny_writes(self, broker: str) -> dict[str, int]:
        """Remove the write permission of a broker (its name, not its address) on all nameservers.

        Returns the number of topics concerned, by nameserver. ``admin.deny_writes("broker-a")``
        """
        return self._run(_nameservers.deny_writes(self._nameservers, broker))

    def allow_writes(self, broker: str) -> dict[str, int]:
        """Undo `deny_writes`: ``admin.allow_writes("broker-a")``."""
        return self._run(_nameservers.allow_writes(self._nameservers, broker))

    # ---- nameservers

    def nameserver_configs(self) -> dict[str, dict[str, str]]:
        """Return all settings of each nameserver: ``admin.nameserver_configs()[address]``."""
        return self._run(_nameservers.nameserver_configs(self._nameservers))

    def update_nameserver_configs(self, settings: Mapping[str, str]) -> None:
        """Change settings of all nameservers while they run.

        ``admin.update_nameserver_configs({"orderMessageEnable": "true"})``
        """
        self._run(_nameservers.update_nameserver_configs(self._nameservers, settings))

    def key_value(self, namespace: str, key: str) -> str | None:
        """Return a value of the nameservers' table, or None for a missing key.

        ``admin.key_value("ORDER_TOPIC_CONFIG", "orders")``
        """
        return self._run(_nameservers.key_value(self._nameservers, namespace, key))

    def key_values(self, namespace: str) -> dict[str, str]:
        """Return a namespace of the nameservers' table: ``admin.key_values("shop")``."""
        return self._run(_nameservers.key_values(self._nameservers, namespace))

    def put_key_value(self, namespace: str, key: str, value: str) -> None:
        """Put a value into every nameserver's table: ``admin.put_key_value("shop", "k", "v")``."""
        self._run(_nameservers.put_key_value(self._nameservers, namespace, key, value))

    def delete_key_value(self, namespace: str, key: str) -> None:
        """Delete a key from every nameserver's table: ``admin.delete_key_value("shop", "k")``."""
        self._run(_nameservers.delete_key_value(self._nameservers, namespace, key))

    # ---- accounts

    def access_config(self, address: str) -> AccessConfig:
        """Return the access rules of a broker: ``admin.access_config(address).accounts``."""
        return self._run(_access.access_config(address))

    def access_versions(self, address: str) -> AccessVersions:
        """Return the versions of a broker's account files: ``…(address).files``."""
        return self._run(_access.access_versions(address))

    def put_account(self, address: str, account: Account) -> None:
        """Add an account to a broker, or change it.

        ``admin.put_account(address, Account(access_key="shop-7", secret_key="12345678"))``
        """
        self._run(_access.put_account(address, account))

    def delete_account(self, address: str, access_key: str) -> None:
        """Delete an account from a broker: ``admin.delete_account(address, "shop-7")``."""
        self._run(_access.delete_account(address, access_key))

    def set_white_addresses(
        self, address: str, white_addresses: Iterable[str], *, acl_file: str | None = None
    ) -> None:
        """Replace the addresses that a broker accepts without a signature.

        ``admin.set_white_addresses(address, ["10.0.0.*"])``
        """
        self._run(_access.set_white_addresses(address, white_addresses, acl_file))

    # ---- whole configurations of topics and groups

    def put_topic(
        self,
        config: TopicConfig,
        *,
        cluster: str | None = None,
        brokers: Iterable[str] | None = None,
        shrink: bool = False,
    ) -> None:
        """Create or change a topic with a whole configuration.

        ``admin.put_topic(TopicConfig("orders", order=True), brokers=["broker-a"])``. Fewer read
        queues than before raise `ShrinkRefused`, unless `shrink` is set.
        """
        own = replace(config, topic_name=self._names.own(config.topic_name))
        self._run(
            _topics.put_topic(
                self._nameservers, own, cluster=cluster, brokers=brokers, shrink=shrink
            )
        )

    def make_topic(
        self,
        config: TopicConfig,
        *,
        cluster: str | None = None,
        brokers: Iterable[str] | None = None,
        if_not_exists: bool = False,
    ) -> dict[str, TopicConfig]:
        """Create a topic with a whole configuration; `create_topic` is the shorter form.

        Returns the configurations of brokers that already had the topic, which are not changed:
        ``admin.make_topic(TopicConfig("orders"), if_not_exists=True)``
        """
        own = replace(config, topic_name=self._names.own(config.topic_name))
        flow = _topics.create_topic(
            self._nameservers, own, cluster=cluster, brokers=brokers, if_not_exists=if_not_exists
        )
        return self._names.topics(self._run(flow))

    def change_topic(
        self,
        topic: str,
        change: Callable[[TopicConfig], TopicConfig],
        *,
        cluster: str | None = None,
        brokers: Iterable[str] | None = None,
        shrink: bool = False,
    ) -> dict[str, TopicConfig]:
        """Change a topic's configuration on each broker; `update_topic` is the shorter form.

        ``admin.change_topic("orders", lambda config: replace(config, order=True))``
        """
        flow = _topics.update_topic(
            self._nameservers,
            self._names.own(topic),
            change,
            cluster=cluster,
            brokers=brokers,
            shrink=shrink,
        )
        return self._names.topics(self._run(flow))

    def put_group(
        self,
        config: SubscriptionGroup,
        *,
        cluster: str | None = None,
        brokers: Iterable[str] | None = None,
    ) -> None:
        """Create or change a group with a whole configuration.

        ``admin.put_group(SubscriptionGroup("billing", consume_enable=False))``
        """
        own = replace(config, group_name=self._names.own(config.group_name))
        self._run(_groups.put_group(self._nameservers, own, cluster=cluster, brokers=brokers))

    def make_group(
        self,
        config: SubscriptionGroup,
        *,
        cluster: str | None = None,
        brokers: Iterable[str] | None = None,
        if_not_exists: bool = False,
    ) -> dict[str, SubscriptionGroup]:
        """Create a group with a whole configuration; `create_group` is the shorter form.

        Returns the configurations of brokers that already had the group, which are not changed:
        ``admin.make_group(SubscriptionGroup("billing"), if_not_exists=True)``
        """
        own = replace(config, group_name=self._names.own(config.group_name))
        flow = _groups.create_group(
            self._nameservers, own, cluster=cluster, brokers=brokers, if_not_exists=if_not_exists
        )
        found = self._run(flow)
        return {name: replace(one, group_name=config.group_name) for name, one in found.items()}

    def change_group(
        self,
        group: str,
        changes: Mapping[str, Any],
        *,
        cluster: str | None = None,
        brokers: Iterable[str] | None = None,
    ) -> dict[str, SubscriptionGroup]:
        """Change fields of a group on each broker that has it; `update_group` is the shorter form.

        ``admin.change_group("billing", {"consume_from_min_enable": False})``
        """
        flow = _groups.update_group(
            self._nameservers, self._names.own(group), changes, cluster=cluster, brokers=brokers
        )
        found = self._run(flow)
        return {name: replace(one, group_name=group) for name, one in found.items()}


class AsyncServerVerbs(AsyncVerbRunner):
    """Verbs about brokers, nameservers, accounts and whole configurations."""

    # ---- brokers

    async def clean_broker(self, address: str, what: CleanKind) -> None:
        """Make a broker clean up: ``admin.clean_broker("10.0.0.1:10911", "topics")``.

        The kinds are ``"queues"`` without messages, unused ``"topics"``, and expired files of the
        ``"log"``.
        """
        await self._run(_brokers.clean_broker(address, what))

    async def broker_lag(self, address: str, *, only_ordered: bool = False) -> BrokerLag:
        """Return the lag of every group in a broker's queues: ``admin.broker_lag(address).total``.

        With `only_ordered` only ordered topics count.
        """
        return await self._run(_brokers.broker_lag(address, only_ordered=only_ordered))

    async def counter(self, address: str, name: str, key: str) -> Counter | None:
        """Return recent values of a broker's counter, or None if it has not counted yet.

        ``admin.counter(address, "TOPIC_PUT_NUMS", "orders").last_minute``
        """
        return await self._run(_brokers.counter(address, name, key))

    async def deny_writes(self, broker: str) -> dict[str, int]:
        """Remove the write permission of a broker (its name, not its address) on all nameservers.

        Returns the number of topics concerned, by nameserver. ``admin.deny_writes("broker-a")``
        """
        return await self._run(_nameservers.deny_writes(self._nameservers, broker))

    async def allow_writes(self, broker: str) -> dict[str, int]:
        """Undo `deny_writes`: ``admin.allow_writes("broker-a")``."""
        return await self._run(_nameservers.allow_writes(self._nameservers, broker))

    # ---- nameservers

    async def nameserver_configs(self) -> dict[str, dict[str, str]]:
        """Return all settings of each nameserver: ``admin.nameserver_configs()[address]``."""
        return await self._run(_nameservers.nameserver_configs(self._nameservers))

    async def update_nameserver_configs(self, settings: Mapping[str, str]) -> None:
        """Change settings of all nameservers while they run.

        ``admin.update_nameserver_configs({"orderMessageEnable": "true"})``
        """
        await self._run(_nameservers.update_nameserver_configs(self._nameservers, settings))

    async def key_value(self, namespace: str, key: str) -> str | None:
        """Return a value of the nameservers' table, or None for a missing key.

        ``admin.key_value("ORDER_TOPIC_CONFIG", "orders")``
        """
        return await self._run(_nameservers.key_value(self._nameservers, namespace, key))

    async def key_values(self, namespace: str) -> dict[str, str]:
        """Return a namespace of the nameservers' table: ``admin.key_values("shop")``."""
        return await self._run(_nameservers.key_values(self._nameservers, namespace))

    async def put_key_value(self, namespace: str, key: str, value: str) -> None:
        """Put a value into every nameserver's table: ``admin.put_key_value("shop", "k", "v")``."""
        await self._run(_nameservers.put_key_value(self._nameservers, namespace, key, value))

    async def delete_key_value(self, namespace: str, key: str) -> None:
        """Delete a key from every nameserver's table: ``admin.delete_key_value("shop", "k")``."""
        await self._run(_nameservers.delete_key_value(self._nameservers, namespace, key))

    # ---- accounts

    async def access_config(self, address: str) -> AccessConfig:
        """Return the access rules of a broker: ``admin.access_config(address).accounts``."""
        return await self._run(_access.access_config(address))

    async def access_versions(self, address: str) -> AccessVersions:
        """Return the versions of a broker's account files: ``…(address).files``."""
        return await self._run(_access.access_versions(address))

    async def put_account(self, address: str, account: Account) -> None:
        """Add an account to a broker, or change it.

        ``admin.put_account(address, Account(access_key="shop-7", secret_key="12345678"))``
        """
        await self._run(_access.put_account(address, account))

    async def delete_account(self, address: str, access_key: str) -> None:
        """Delete an account from a broker: ``admin.delete_account(address, "shop-7")``."""
        await self._run(_access.delete_account(address, access_key))

    async def set_white_addresses(
        self, address: str, white_addresses: Iterable[str], *, acl_file: str | None = None
    ) -> None:
        """Replace the addresses that a broker accepts without a signature.

        ``admin.set_white_addresses(address, ["10.0.0.*"])``
        """
        await self._run(_access.set_white_addresses(address, white_addresses, acl_file))

    # ---- whole configurations of topics and groups

    async def put_topic(
        self,
        config: TopicConfig,
        *,
        cluster: str | None = None,
        brokers: Iterable[str] | None = None,
        shrink: bool = False,
    ) -> None:
        """Create or change a topic with a whole configuration.

        ``admin.put_topic(TopicConfig("orders", order=True), brokers=["broker-a"])``. Fewer read
        queues than before raise `ShrinkRefused`, unless `shrink` is set.
        """
        own = replace(config, topic_name=self._names.own(config.topic_name))
        await self._run(
            _topics.put_topic(
                self._nameservers, own, cluster=cluster, brokers=brokers, shrink=shrink
            )
        )

    async def make_topic(
        self,
        config: TopicConfig,
        *,
        cluster: str | None = None,
        brokers: Iterable[str] | None = None,
        if_not_exists: bool = False,
    ) -> dict[str, TopicConfig]:
        """Create a topic with a whole configuration; `create_topic` is the shorter form.

        Returns the configurations of brokers that already had the topic, which are not changed:
        ``admin.make_topic(TopicConfig("orders"), if_not_exists=True)``
        """
        own = replace(config, topic_name=self._names.own(config.topic_name))
        flow = _topics.create_topic(
            self._nameservers, own, cluster=cluster, brokers=brokers, if_not_exists=if_not_exists
        )
        return self._names.topics(await self._run(flow))

    async def change_topic(
        self,
        topic: str,
        change: Callable[[TopicConfig], TopicConfig],
        *,
        cluster: str | None = None,
        brokers: Iterable[str] | None = None,
        shrink: bool = False,
    ) -> dict[str, TopicConfig]:
        """Change a topic's configuration on each broker; `update_topic` is the shorter form.

        ``admin.change_topic("orders", lambda config: replace(config, order=True))``
        """
        flow = _topics.update_topic(
            self._nameservers,
            self._names.own(topic),
            change,
            cluster=cluster,
            brokers=brokers,
            shrink=shrink,
        )
        return self._names.topics(await self._run(flow))

    async def put_group(
        self,
        config: SubscriptionGroup,
        *,
        cluster: str | None = None,
        brokers: Iterable[str] | None = None,
    ) -> None:
        """Create or change a group with a whole configuration.

        ``admin.put_group(SubscriptionGroup("billing", consume_enable=False))``
        """
        own = replace(config, group_name=self._names.own(config.group_name))
        await self._run(_groups.put_group(self._nameservers, own, cluster=cluster, brokers=brokers))

    async def make_group(
        self,
        config: SubscriptionGroup,
        *,
        cluster: str | None = None,
        brokers: Iterable[str] | None = None,
        if_not_exists: bool = False,
    ) -> dict[str, SubscriptionGroup]:
        """Create a group with a whole configuration; `create_group` is the shorter form.

        Returns the configurations of brokers that already had the group, which are not changed:
        ``admin.make_group(SubscriptionGroup("billing"), if_not_exists=True)``
        """
        own = replace(config, group_name=self._names.own(config.group_name))
        flow = _groups.create_group(
            self._nameservers, own, cluster=cluster, brokers=brokers, if_not_exists=if_not_exists
        )
        found = await self._run(flow)
        return {name: replace(one, group_name=config.group_name) for name, one in found.items()}

    async def change_group(
        self,
        group: str,
        changes: Mapping[str, Any],
        *,
        cluster: str | None = None,
        brokers: Iterable[str] | None = None,
    ) -> dict[str, SubscriptionGroup]:
        """Change fields of a group on each broker that has it; `update_group` is the shorter form.

        ``admin.change_group("billing", {"consume_from_min_enable": False})``
        """
        flow = _groups.update_group(
            self._nameservers, self._names.own(group), changes, cluster=cluster, brokers=brokers
        )
        found = await self._run(flow)
        return {name: replace(one, group_name=group) for name, one in found.items()}

"""Filters of pulls: tags or SQL, from the pull itself or from its group's subscription.

The order of the checks, the codes and the remarks are Java's.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from orbitmq._native import Filter
from orbitmq.broker.state.clients import ConsumerClients
from orbitmq.broker.state.filters import ConsumerFilters
from orbitmq.config import BrokerConfig
from orbitmq.errors import FilterTooLarge, HeaderFault
from orbitmq.protocol.bodies import Subscription, SubscriptionGroup
from orbitmq.protocol.codes import ResponseCode
from orbitmq.protocol.flags import PullFlag
from orbitmq.protocol.names import FAQ, RETRY_PREFIX
from orbitmq.remoting.router import Refused

__all__ = ["PullFilter", "PullFilterResolver"]

CACHED_CHARACTERS = 1024
"""Length up to which parsed subscriptions are cached.

Longer subscriptions are parsed for every pull, because texts of any size must not fill memory.
"""
MAX_CHARACTERS = 1 << 16
"""Maximum length of the tags in a pull: parsing megabytes would block the event loop."""

# Consumers that send their subscription with a pull send the same one with every pull.
_cached_of_tags = functools.lru_cache(1024)(Subscription.of_tags)


def _of_tags(topic: str, expression: str | None, version: int) -> Subscription:
    size = len(expression) if expression else 0
    if len(topic) + size <= CACHED_CHARACTERS:
        return _cached_of_tags(topic, expression, version)
    if size > MAX_CHARACTERS:
        raise ValueError(f"more than {MAX_CHARACTERS} characters of tags")
    return Subscription.of_tags(topic, expression, version)


class PullFilter(NamedTuple):
    """Filter of a pull: a message must have one of the tag codes and match the SQL filter."""

    tag_codes: Sequence[int] | None
    filter: Filter | None = None


class Pull(Protocol):
    """The fields of a pull that define its filter."""

    @property
    def consumer_group(self) -> str:
        """Group of the consumer that pulls."""

    @property
    def topic(self) -> str:
        """Topic of the queue."""

    @property
    def sys_flag(self) -> int:
        """Flags; `PullFlag.SUBSCRIPTION` is set if the pull contains its subscription."""

    @property
    def subscription(self) -> str | None:
        """Filter expression in the pull."""

    @property
    def sub_version(self) -> int | None:
        """Version of the subscription that the pull is based on."""

    @property
    def expression_type(self) -> str | None:
        """Language of the expression."""


@dataclass(slots=True)
class PullFilterResolver:
    """Finds the filter of each pull."""

    config: BrokerConfig
    clients: ConsumerClients
    filters: ConsumerFilters

    def of(self, pull: Pull, group: SubscriptionGroup) -> PullFilter:
        """Return the filter of a pull, or reject the pull."""
        if pull.sys_flag & PullFlag.SUBSCRIPTION:
            if pull.expression_type not in (None, "", "TAG"):
                return self._of_own_words(pull)
            try:
                tags = _of_tags(pull.topic, pull.subscription, pull.sub_version or 0)
            except ValueError:
                raise _not_parsed() from None
        else:
            tags = self._subscribed(pull, group)
            if not tags.is_tags:
                return self._of_heartbeat(pull, tags)
        if (
            self.config.filter_support_retry
            and self.config.enable_property_filter
            and pull.topic.startswith(RETRY_PREFIX)
        ):
            return PullFilter(tags.wanted_codes, self.filters.of_retries(pull.consumer_group))
        return PullFilter(tags.wanted_codes)

    def _of_own_words(self, pull: Pull) -> PullFilter:
        if not pull.subscription or pull.sub_version is None:
            raise _not_parsed()
        kind = pull.expression_type or ""
        self._refuse_if_off(kind)
        # As in Java, a malformed expression filters nothing.
        try:
            selector = self.filters.compiled.get(kind, pull.subscription)
        except FilterTooLarge as error:
            # Java has no such limit. Without a filter the consumer would get unwanted messages.
            raise Refused(ResponseCode.SUBSCRIPTION_PARSE_FAILED, str(error)) from None
        return PullFilter(None, selector)

    def _of_heartbeat(self, pull: Pull, subscription: Subscription) -> PullFilter:
        data = self.filters.get(pull.topic, pull.consumer_group)
        selector = None
        if data is not None and self.config.enable_property_filter:
            selector = self.filters.selector(data)
        if data is None or (selector is None and self.config.enable_property_filter):
            remark = "The broker's consumer filter data is not exist!Your expression may be wrong!"
            raise Refused(ResponseCode.FILTER_DATA_NOT_EXIST, remark)
        if data.client_version < (pull.sub_version or 0):
            remark = "the consumer's consumer filter data not latest"
            raise Refused(ResponseCode.FILTER_DATA_NOT_LATEST, remark)
        self._refuse_if_off(subscription.expression_type)
        return PullFilter(None, selector)

    def _refuse_if_off(self, kind: str) -> None:
        if not self.config.enable_property_filter:
            remark = f"The broker does not support consumer to filter message by {kind}"
            raise Refused(ResponseCode.SYSTEM_ERROR, remark)

    def _subscribed(self, pull: Pull, group: SubscriptionGroup) -> Subscription:
        members = self.clients.groups.get(pull.consumer_group)
        if members is None:
            remark = f"the consumer's group info not exist{FAQ}"
            raise Refused(ResponseCode.SUBSCRIPTION_NOT_EXIST, remark)
        if not group.consume_broadcast_enable and members.message_model == "BROADCASTING":
            remark = f"the consumer group[{pull.consumer_group}] can not consume by broadcast way"
            raise Refused(ResponseCode.NO_PERMISSION, remark)
        subscription = members.subscriptions.get(pull.topic)
        if subscription is None:
            remark = f"the consumer's subscription not exist{FAQ}"
            raise Refused(ResponseCode.SUBSCRIPTION_NOT_EXIST, remark)
        if pull.sub_version is None:
            raise HeaderFault("field subVersion is missing")
        if subscription.sub_version < pull.sub_version:
            remark = "the consumer's subscription not latest"
            raise Refused(ResponseCode.SUBSCRIPTION_NOT_LATEST, remark)
        return subscription


def _not_parsed() -> Refused:
    remark = "parse the consumer's subscription failed"
    return Refused(ResponseCode.SUBSCRIPTION_PARSE_FAILED, remark)

"""Whether a subscription wants a message, as brokers and consumers decide it."""

from __future__ import annotations

from orbitmq._native import Filter
from orbitmq.admin.explain.observations import Copy
from orbitmq.errors import MalformedFilter
from orbitmq.protocol.bodies import Subscription

__all__ = ["wants"]


def wants(subscription: Subscription, copy: Copy) -> bool:
    """Whether a subscription selects a message; a filter that nobody can read selects all."""
    if subscription.is_tags:
        if subscription.sub_string.strip() == "*" or not subscription.tags:
            return True
        return copy.tags in subscription.tags
    try:
        return Filter(subscription.sub_string).matches(copy.properties_text)
    except MalformedFilter:
        return True

"""The choice between another attempt and the dead-letter topic, for both ways back to a group.

A consumer returns a message by a send-back request (`handlers/send_back.py`); ordered consumers and
tools send it to the retry topic themselves (`handlers/send.py`). The rules are the same:

- The group's ``retryMaxTimes`` limits the attempts. A request may bring a limit of its own, which
  counts from version 3.4.9 of the client on.
- A message that has reached the limit is a dead letter. So is one with a negative delay level.
- The next attempt waits longer than the one before: delay level 3 plus the number of attempts,
  unless the request names a level.
"""

from __future__ import annotations

from typing import Final

from orbitmq.protocol.bodies import SubscriptionGroup
from orbitmq.protocol.flags import Version

__all__ = ["is_dead_letter", "retry_level"]

FIRST_RETRY_LEVEL: Final = 3


def is_dead_letter(
    group: SubscriptionGroup,
    reconsume_times: int,
    *,
    client_version: int,
    requested_limit: int | None,
    delay_level: int = 0,
) -> bool:
    """Return True if a message gets no further attempt.

    >>> group = SubscriptionGroup("billing", retry_max_times=2)
    >>> is_dead_letter(group, 2, client_version=Version.V4_9_7, requested_limit=None)
    True
    >>> is_dead_letter(group, 2, client_version=Version.V4_9_7, requested_limit=16)
    False
    """
    limit = group.retry_max_times
    if requested_limit is not None and client_version >= Version.V3_4_9:
        limit = requested_limit
    return reconsume_times >= limit or delay_level < 0


def retry_level(requested_level: int, reconsume_times: int) -> int:
    """Return the delay level of the next attempt; a requested level of 0 means the default."""
    return requested_level or FIRST_RETRY_LEVEL + reconsume_times

"""Limits of names and counts that a peer may choose.

RocketMQ 4.9.7 checks none of these counts. A topic of 2^31 queues costs nothing to create, but
every client that resolves it and every request for its statistics walks all of its queues.
"""

from __future__ import annotations

__all__ = ["MAX_GROUP_LENGTH", "MAX_QUEUES", "MAX_ROUTE_QUEUES"]

MAX_QUEUES = 16_384
"""Queues of one topic on one broker. An answer with the statistics of a topic takes up to 400 bytes
per queue and has to fit into a frame of 16 MiB."""

MAX_ROUTE_QUEUES = 262_144
"""Queues of one topic on all brokers together: clients make an object of each."""

MAX_GROUP_LENGTH = 255
"""Characters of a group's name; Java's clients refuse longer ones."""

"""Options that are given where they do nothing.

Programs share their options between batches and streams, and Spark's own connectors pass over what
does not apply. So these are no error; but whoever expects something of them is told. What cannot be
meant at all is refused (see `source_options`).
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["without_effect"]

_FOR_STREAMS = (
    *("maxOffsetsPerTrigger", "maxBytesPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay"),
    *("maxBrokerAbsence", "brokerAbsenceStrategy", "commitOffsets"),
)
_FOR_BATCHES = ("pushFilters",)
_DEFAULTS = {"commitOffsets": "none", "pushFilters": "false"}
"""Who says what holds anyway expects nothing."""


def without_effect(given: Mapping[str, str], *, streaming: bool) -> str | None:
    """Return a line about the options that have no effect, None if all have.

    >>> without_effect({"maxOffsetsPerTrigger": "10"}, streaming=False)
    'option maxOffsetsPerTrigger has no effect on a batch: it is for streams'
    """
    texts = {name.lower(): text.strip() for name, text in given.items()}
    idle = [
        name
        for name in (_FOR_BATCHES if streaming else _FOR_STREAMS)
        if texts.get(name.lower(), "").lower() not in ("", _DEFAULTS.get(name))
    ]
    if not idle:
        return None
    here, there = ("a stream", "batches") if streaming else ("a batch", "streams")
    if len(idle) == 1:
        return f"option {idle[0]} has no effect on {here}: it is for {there}"
    return f"options {', '.join(idle)} have no effect on {here}: they are for {there}"

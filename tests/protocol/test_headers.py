"""Ext fields become typed values and back."""

from __future__ import annotations

import pytest

from orbitmq.errors import HeaderFault
from orbitmq.protocol.headers import Header


class Sample(Header):
    wire_names = {"group": "a"}  # noqa: RUF012

    group: str
    queue_id: int
    unit_mode: bool = False
    max_times: int | None = None


def test_names_on_the_wire_are_javas_or_the_ones_given() -> None:
    sample = Sample(group="g", queue_id=-3, unit_mode=True)
    assert sample.encode() == {"a": "g", "queueId": "-3", "unitMode": "true"}
    assert Sample.decode(sample.encode()) == sample


class StrictSample(Sample):
    strict = True


def test_a_bad_number_that_need_not_be_there_is_none_except_in_strict_headers() -> None:
    ext = {"a": "g", "queueId": "1", "maxTimes": "x"}
    assert Sample.decode(ext).max_times is None
    with pytest.raises(HeaderFault, match="field maxTimes is not a number: 'x'"):
        StrictSample.decode(ext)


def test_what_is_left_out_has_its_default() -> None:
    assert Sample.decode({"a": "g", "queueId": "1"}) == Sample(group="g", queue_id=1)


def test_booleans_are_true_in_any_case_and_else_false() -> None:
    def unit_mode(text: str) -> bool:
        return Sample.decode({"a": "g", "queueId": "1", "unitMode": text}).unit_mode

    assert unit_mode("TRUE")
    assert not unit_mode("yes")


@pytest.mark.parametrize(
    ("ext", "fault"),
    [
        (None, "field a is missing"),
        ({"a": "g"}, "field queueId is missing"),
        ({"a": "g", "queueId": "x"}, "field queueId is not a number: 'x'"),
    ],
)
def test_a_missing_field_or_a_bad_number_is_named(ext: dict[str, str] | None, fault: str) -> None:
    with pytest.raises(HeaderFault, match=fault):
        Sample.decode(ext)

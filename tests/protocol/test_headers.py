"""Ext fields become typed values and back."""

from __future__ import annotations

import pytest

from orbitmq._native import Command, FrameReader
from orbitmq.errors import HeaderFault
from orbitmq.protocol.headers import Header, Long


class Sample(Header):
    wire_names = {"group": "a"}  # noqa: RUF012

    group: str
    queue_id: int
    unit_mode: bool = False
    max_times: int | None = None


def test_names_on_the_wire_are_javas_or_the_ones_given() -> None:
    sample = Sample(group="g", queue_id=-3, unit_mode=True)
    assert sample.encode() == {"a": "g", "queueId": "-3", "unitMode": "true"}
    assert Sample.decode(Command(0, ext=sample.encode())) == sample


class StrictSample(Sample):
    strict = True


def test_a_bad_number_that_need_not_be_there_is_none_except_in_strict_headers() -> None:
    ext = {"a": "g", "queueId": "1", "maxTimes": "x"}
    assert Sample.decode(Command(0, ext=ext)).max_times is None
    with pytest.raises(HeaderFault, match="field maxTimes is not a number: 'x'"):
        StrictSample.decode(Command(0, ext=ext))


def test_what_is_left_out_has_its_default() -> None:
    assert Sample.decode(Command(0, ext={"a": "g", "queueId": "1"})) == Sample(
        group="g", queue_id=1
    )


def test_booleans_are_true_in_any_case_and_else_false() -> None:
    def unit_mode(text: str) -> bool:
        return Sample.decode(Command(0, ext={"a": "g", "queueId": "1", "unitMode": text})).unit_mode

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
        Sample.decode(Command(0, ext=ext))


class Numbers(Header):
    short: int
    long: Long


@pytest.mark.parametrize("received", [False, True])
def test_a_number_beyond_its_bits_is_none(received: bool) -> None:
    def read(short: int, long: int) -> Numbers:
        command = Command(0, ext={"short": str(short), "long": str(long)})
        if received:
            (command,) = FrameReader().feed(command.encode())
        return Numbers.decode(command)

    assert read(-(2**31), 2**63 - 1) == Numbers(short=-(2**31), long=2**63 - 1)
    with pytest.raises(HeaderFault, match="field short is not a number"):
        read(2**31, 0)
    with pytest.raises(HeaderFault, match="field long is not a number"):
        read(0, 10**20)

"""The properties string: what is written reads back, what Java skips is skipped."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq._native import decode_properties, encode_properties

_PLAIN = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\x01\x02"), min_size=1, max_size=20
)


@given(st.dictionaries(_PLAIN, _PLAIN))
def test_round_trip(properties: dict[str, str]) -> None:
    assert decode_properties(encode_properties(properties)) == properties


@given(st.text(st.sampled_from("ab\x01\x02"), max_size=30))
def test_what_is_read_can_be_written_again(text: str) -> None:
    properties = decode_properties(text)
    assert decode_properties(encode_properties(properties)) == properties


def test_written_form_has_no_closing_separator() -> None:
    assert encode_properties({"TAGS": "a", "KEYS": "k"}) == "TAGS\x01a\x02KEYS\x01k"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("TAGS\x01a\x02", {"TAGS": "a"}),
        ("k\x01old\x02k\x01new", {"k": "new"}),
        ("no separator\x02k\x01v", {"k": "v"}),
        ("k\x01\x02\x01v\x02a\x01b\x01c", {"a": "b\x01c"}),
    ],
)
def test_reads_what_java_reads(text: str, expected: dict[str, str]) -> None:
    assert decode_properties(text) == expected


@pytest.mark.parametrize("bad", [{"": "v"}, {"k": ""}, {"k\x01": "v"}, {"k": "v\x02"}])
def test_refuses_what_would_not_read_back(bad: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="cannot be stored"):
        encode_properties(bad)

"""JSON in fastjson's dialect."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq import errors
from orbitmq._native import dumps_lenient, loads_lenient

_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
_SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | _TEXT
    | st.floats(allow_nan=False).filter(lambda number: abs(number) != float("inf"))
)
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXT, inner, max_size=4),
    max_leaves=20,
)


@given(_VALUES)
def test_standard_json_reads_as_the_standard_reader_reads_it(value: Any) -> None:
    assert loads_lenient(json.dumps(value, ensure_ascii=False).encode()) == value


@given(_VALUES)
def test_what_is_written_reads_back(value: Any) -> None:
    assert loads_lenient(dumps_lenient(value)) == value
    assert json.loads(dumps_lenient(value, quote_keys=True)) == value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{0:"a",1:"b"}', {0: "a", 1: "b"}),
        ("{a:1}", {"a": 1}),
        (
            '{{"topic":"T","brokerName":"b","queueId":1}:5}',
            {(("brokerName", "b"), ("queueId", 1), ("topic", "T")): 5},
        ),
        ("{'k':'v'}", {"k": "v"}),
        ("18446744073709551616", 2**64),
        ("-1.5e3", -1500.0),
        ('{"k":1,"k":2}', {"k": 2}),
    ],
)
def test_the_dialect(text: str, expected: object) -> None:
    assert loads_lenient(text.encode()) == expected


def test_a_key_object_is_one_key_however_it_is_spelled() -> None:
    one = loads_lenient(b'{{"queueId":0,"topic":"T"}:1}')
    other = loads_lenient(b'{{"topic":"T","queueId":0}:1}')
    assert one == other
    assert dumps_lenient(one) == b'{{"queueId":0,"topic":"T"}:1}'
    assert json.loads(dumps_lenient(one, quote_keys=True)) == {'{"queueId":0,"topic":"T"}': 1}


@pytest.mark.parametrize("text", ["", "{", "[1", "nul", "{[1]:2}", "{{1:2}:3}", "1 2", "[" * 100])
def test_what_is_no_json_is_an_error(text: str) -> None:
    with pytest.raises(errors.MalformedJson):
        loads_lenient(text.encode())


def test_the_error_says_where() -> None:
    with pytest.raises(errors.MalformedJson) as caught:
        loads_lenient(b'{"a":@}')
    assert caught.value.offset == 5


@given(st.binary(max_size=60))
def test_garbage_is_an_error_value(data: bytes) -> None:
    try:
        value = loads_lenient(data)
    except errors.MalformedJson as error:
        assert error.offset is None or 0 <= error.offset <= len(data)
    else:
        assert loads_lenient(dumps_lenient(value)) == value


def test_values_without_a_json_form_are_refused() -> None:
    endless: list[object] = []
    endless.append(endless)
    with pytest.raises(ValueError, match="too deep"):
        dumps_lenient(endless)
    with pytest.raises(ValueError, match="no JSON form"):
        dumps_lenient(float("nan"))
    with pytest.raises(TypeError, match="no JSON form"):
        dumps_lenient(object())

"""SQL92 selectors: what the native class shows; the language itself is tested beside its code."""

from __future__ import annotations

import pytest

from orbitmq._native import Filter, NewMessage, Store, encode_properties
from orbitmq.errors import MalformedFilter


def test_a_verdict_has_four_values() -> None:
    selector = Filter("price > 5")
    assert selector.verdict(encode_properties({"price": "6"})) == "TRUE"
    assert selector.verdict(encode_properties({"price": "5"})) == "FALSE"
    assert selector.verdict("") == "UNKNOWN"
    assert selector.verdict(encode_properties({"price": "cheap"})) == "ERROR"
    assert selector.matches(encode_properties({"price": "6"}))
    assert not selector.matches("")


def test_what_is_wrong_is_said_in_javas_words() -> None:
    with pytest.raises(MalformedFilter, match=r"java\.lang\.RuntimeException: 'NULL' cannot"):
        Filter("price = NULL")
    with pytest.raises(MalformedFilter, match=r'Encountered "<EOF>" at line 1'):
        Filter("price =")


def test_a_read_gives_only_what_the_filter_wants(store: Store) -> None:
    for number in range(10):
        store.append(NewMessage("T", b"%d" % number, properties={"n": str(number)}))
    found = store.read("T", 0, 0, filter=Filter("n BETWEEN 3 AND 5"))
    assert [record.body for record in found.records()] == [b"3", b"4", b"5"]
    assert found.next_offset == 10
    nothing = store.read("T", 0, 0, filter=Filter("n > 99"))
    assert (nothing.status, nothing.next_offset) == ("NO_MATCHED_MESSAGE", 10)


def test_retries_are_asked_of_the_topic_they_came_from() -> None:
    selector = Filter.of_retries({"Orders": Filter("n = 1")})
    assert selector.matches(encode_properties({"RETRY_TOPIC": "Orders", "n": "1"}))
    assert not selector.matches(encode_properties({"RETRY_TOPIC": "Orders", "n": "2"}))
    assert selector.matches(encode_properties({"RETRY_TOPIC": "Other", "n": "2"}))

"""What a topic may be called, in Java's words."""

from __future__ import annotations

import pytest

from orbitmq.protocol.flags import Permission
from orbitmq.protocol.names import topic_name_fault


@pytest.mark.parametrize("topic", ["orders", "%RETRY%g", "a|b-c_D9", "x" * 127])
def test_good_names_have_no_fault(topic: str) -> None:
    assert topic_name_fault(topic) is None


@pytest.mark.parametrize(
    ("topic", "fault"),
    [
        (None, "blank"),
        ("  ", "blank"),
        ("a b", "illegal characters"),
        ("订单", "illegal characters"),
        ("a/b", "illegal characters"),
        ("orders\n", "illegal characters"),
        ("x" * 128, "longer than"),
    ],
)
def test_faults_are_named(topic: str | None, fault: str) -> None:
    assert fault in (topic_name_fault(topic) or "")


def test_permissions_have_javas_letters() -> None:
    assert [Permission.text(perm) for perm in (6, 7, 1, 4, 0)] == [
        "RW-",
        "RWX",
        "--X",
        "R--",
        "---",
    ]

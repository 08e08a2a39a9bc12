"""Refusals of brokers, and the errors the client makes of them."""

from __future__ import annotations

import pytest

from orbitmq.errors import BrokerBusy, BrokerRefused
from orbitmq.protocol.codes import ResponseCode
from orbitmq.rpc.refusals import access_hint, refusal
from tests.client.playing import answer

ACL = "org.apache.rocketmq.acl.common.AclException: "
CHECK_KEYS = "check access_key and secret_key"
NOT_ALLOWED = "may not do that"


@pytest.mark.parametrize(
    ("remark", "hint"),
    [
        (ACL + "No accessKey is configured", CHECK_KEYS),
        (ACL + "No acl config for stranger", CHECK_KEYS),
        (ACL + "Check signature failed for accessKey=shopkeeper", CHECK_KEYS),
        (ACL + "No default permission for topic:secrets", NOT_ALLOWED),
        (ACL + "Need admin permission for request code=17, but accessKey=s is not", NOT_ALLOWED),
        ("username cannot be null.", CHECK_KEYS),
        ("User:stranger is not found.", CHECK_KEYS),
        ("User:shopkeeper is disabled.", CHECK_KEYS),
        ("check signature failed.", CHECK_KEYS),
        ("User:shopkeeper has no permission to access Topic:secrets from 1.2.3.4", NOT_ALLOWED),
    ],
)
def test_refusals_distinguish_authentication_from_permission(remark: str, hint: str) -> None:
    assert hint in (access_hint(remark) or "")
    assert hint in str(refusal(answer(ResponseCode.NO_PERMISSION, remark=remark), "b:1"))


@pytest.mark.parametrize(
    "remark", [None, "", "the topic[T] sending message is forbidden", "group g not found."]
)
def test_other_refusals_give_no_hint_about_credentials(remark: str | None) -> None:
    assert access_hint(remark) is None
    error = refusal(answer(ResponseCode.NO_PERMISSION, remark=remark), "b:1")
    assert "permission of the topic" in str(error)


def test_busy_and_unknown_codes_become_errors_of_their_kind() -> None:
    assert isinstance(refusal(answer(ResponseCode.SYSTEM_BUSY), "b:1"), BrokerBusy)
    error = refusal(answer(9999, remark="what?"), "b:1")
    assert type(error) is BrokerRefused
    assert str(error) == "refused by b:1 with code 9999: what?"

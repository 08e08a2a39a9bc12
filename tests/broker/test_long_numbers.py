"""Numbers beyond 64 bits: refused like malformed numbers, without a traceback in the log."""

from __future__ import annotations

import pytest

from orbitmq.protocol.codes import RequestCode, ResponseCode
from tests.broker.conftest import Wire, pull_ext, send_ext

TWENTY_DIGITS = "12345678901234567890"


@pytest.mark.parametrize("field", ["queueId", "sysFlag", "bornTimestamp", "flag"])
def test_sends_with_numbers_beyond_64_bits_are_refused_without_a_traceback(
    wire: Wire, field: str, caplog: pytest.LogCaptureFixture
) -> None:
    answer = wire.ask(RequestCode.SEND_MESSAGE, send_ext("t", **{field: TWENTY_DIGITS}))
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert field in str(answer.remark)
    assert not [record for record in caplog.records if record.exc_info]


@pytest.mark.parametrize("field", ["queueId", "queueOffset", "maxMsgNums", "sysFlag"])
def test_pulls_with_numbers_beyond_64_bits_are_refused_without_a_traceback(
    wire: Wire, field: str, caplog: pytest.LogCaptureFixture
) -> None:
    wire.send("t")
    answer = wire.ask(RequestCode.PULL_MESSAGE, pull_ext("t", 0, **{field: TWENTY_DIGITS}))
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert field in str(answer.remark)
    assert not [record for record in caplog.records if record.exc_info]

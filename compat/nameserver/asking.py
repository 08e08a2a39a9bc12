"""Raw requests to either nameserver, and the parts of answers that must be equal."""

from __future__ import annotations

import socket
from typing import Any, Literal

from orbitmq._native import Command, FrameReader, loads_lenient

Encoding = Literal["json", "binary"]

# Java's text has a stack frame, ours does not.
FREE_REMARK_CODES = {1}
FIXED_REMARKS = {"crc32 not match", "string2Properties error"}


class Asker:
    """One connection to a nameserver."""

    def __init__(self, address: str, encoding: Encoding = "json") -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=10)
        self._frames = FrameReader()
        self._encoding = encoding
        self._opaque = 0

    def tell(
        self, code: int, ext: dict[str, str], body: bytes | None = None, version: int = 407
    ) -> None:
        self._opaque += 1
        request = Command(
            code,
            opaque=self._opaque,
            ext=ext,
            body=body,
            language="JAVA",
            version=version,
            encoding=self._encoding,
        )
        self._socket.sendall(request.encode())

    def ask(
        self,
        code: int,
        ext: dict[str, str] | None = None,
        body: bytes | None = None,
        version: int = 407,
    ) -> Command:
        self.tell(code, ext or {}, body, version)
        while True:
            data = self._socket.recv(1 << 16)
            assert data, "the nameserver has closed the connection"
            for answer in self._frames.feed(data):
                assert answer.opaque == self._opaque
                return answer

    def close(self) -> None:
        self._socket.close()


def comparable(answer: Command) -> dict[str, Any]:
    """Return the comparable part of an answer: without list order and texts of failures."""
    remark = answer.remark
    if answer.code in FREE_REMARK_CODES and remark not in FIXED_REMARKS:
        remark = "(told)" if remark else None
    return {
        "code": answer.code,
        "remark": remark,
        "ext": answer.ext or {},
        "body": in_order(loads_lenient(answer.body)) if answer.body else None,
        "ascii": answer.body.isascii(),
        # Java sends its exceptions in JSON, whatever the encoding of the request.
        "encoding": answer.encoding if remark != "(told)" else None,
    }


def in_order(value: Any) -> Any:
    """Sort lists; keep the type of keys, as it shows the dialect."""
    if isinstance(value, dict):
        items = {key: in_order(member) for key, member in value.items()}
        if "topicList" in items:
            items.pop("brokerAddr", None)  # One of several, whichever comes first.
        return items
    if isinstance(value, list):
        return sorted((in_order(member) for member in value), key=repr)
    return value

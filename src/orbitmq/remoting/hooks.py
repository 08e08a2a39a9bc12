"""Hooks that the blocking and the asyncio client run on every request before they send it.

A hook gets the request's code, ext fields and body and changes the ext fields in place. The order
matters: signing comes last, because the signature covers the fields that other hooks add.

The signature (Java's ACL) is a HMAC-SHA1 with the secret key, in Base64. It covers the values of
all ext fields except ``Signature``, sorted by name in UTF-16 order and encoded in UTF-8, then the
body.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable, Sequence

__all__ = ["RequestHook", "mark_stream", "prepare", "signing"]

RequestHook = Callable[[int, dict[str, str], bytes | None], None]


def prepare(
    hooks: Sequence[RequestHook], code: int, ext: dict[str, str] | None, body: bytes | None
) -> dict[str, str] | None:
    """Run the hooks and return the ext fields to send; the caller's dict is not changed."""
    if not hooks:
        return ext
    prepared = {} if ext is None else dict(ext)
    for hook in hooks:
        hook(code, prepared, body)
    return prepared


def mark_stream(_code: int, ext: dict[str, str], _body: bytes | None) -> None:
    """Mark the request as one of a pull-style client."""
    ext["ReqT"] = "0"


def signing(access_key: str, secret_key: str, security_token: str | None = None) -> RequestHook:
    """Return the hook that signs requests."""
    keyed = hmac.new(secret_key.encode(), digestmod=hashlib.sha1)

    def sign(_code: int, ext: dict[str, str], body: bytes | None) -> None:
        ext["AccessKey"] = access_key
        if security_token is not None:
            ext["SecurityToken"] = security_token
        ext.pop("Signature", None)
        signature = keyed.copy()
        signature.update("".join([ext[name] for name in sorted(ext, key=_utf16)]).encode())
        if body:
            signature.update(body)
        ext["Signature"] = base64.b64encode(signature.digest()).decode()

    return sign


def _utf16(text: str) -> bytes | str:
    return text.encode("utf-16-be")

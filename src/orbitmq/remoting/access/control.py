"""The check of every request: where it comes from, who signed it, and whether that one may do it.

A signature covers all ext fields and the body (see `remoting.hooks`), so a request that was changed
on its way, or a field that was added to one that was listened to, has none. Clients newer than
4.9.3 sign the field ``_UNIQUE_KEY_QUERY`` of a query, older ones and Java's own broker leave it
out: both are accepted.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import logging
from collections.abc import Callable, Collection

from orbitmq._native import Command
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.protocol.names import RETRY_PREFIX, TRACE_TOPIC, group_of_retry_topic
from orbitmq.remoting.access.accounts import PUB, SUB, Account
from orbitmq.remoting.access.files import AccountFiles
from orbitmq.remoting.access.needs import ADMIN_CODES, STRICT_ADMIN_CODES, needs
from orbitmq.remoting.connection import Connection
from orbitmq.remoting.handling import Answer, Handler, Refused

__all__ = ["AccessControl"]

_log = logging.getLogger(__name__)

UNIQUE_KEY_QUERY = "_UNIQUE_KEY_QUERY"


class AccessControl:
    """Lets requests through, or refuses them in Java's words.

    `topic_looked_at` tells which topic a message belongs to that is asked for by its id.
    """

    def __init__(
        self,
        files: AccountFiles,
        *,
        strict: bool = False,
        admin_codes: Collection[int] | None = None,
        topic_looked_at: Callable[[Command], str | None] = lambda _: None,
    ) -> None:
        self.files = files
        self._strict = strict
        self._topic_looked_at = topic_looked_at
        of_brokers = STRICT_ADMIN_CODES if strict else ADMIN_CODES
        self._admin_codes = of_brokers if admin_codes is None else admin_codes

    def guard(self, handler: Handler) -> Handler:
        """Return a handler that is asked only for requests that are let through."""

        def guarded(request: Command, connection: Connection) -> Answer:
            self.check(request, connection.remote[0])
            return handler(request, connection)

        return guarded

    def check(self, request: Command, address: str) -> None:
        """Raise `Refused` unless the request may be served."""
        if self.files.is_white(address):
            return
        ext = request.ext or {}
        key = ext.get("AccessKey")
        if not key:
            raise self._refusal("No accessKey is configured", address)
        account = self.files.accounts.get(key)
        if account is None:
            raise self._refusal(f"No acl config for {key}", address)
        if account.comes_from(address):
            return
        if not _is_signed(request, ext, account):
            raise self._refusal(f"Check signature failed for accessKey={key}", address)
        self._check_permissions(request, account, address)

    def _check_permissions(self, request: Command, account: Account, address: str) -> None:
        wanted = list(needs(request, strict=self._strict))
        is_look = request.code == RequestCode.VIEW_MESSAGE_BY_ID
        if self._strict and is_look and (topic := self._topic_looked_at(request)) is not None:
            wanted.append((topic, SUB))
        if (TRACE_TOPIC, PUB) in wanted:
            return
        if request.code in self._admin_codes and not account.is_admin:
            raise self._refusal(
                f"Need admin permission for request code={request.code}, but "
                f"accessKey={account.access_key} is not",
                address,
            )
        if account.may_do_everything:
            return
        for resource, need in wanted:
            if not account.may(resource, need):
                kind, name = "topic", resource
                if resource.startswith(RETRY_PREFIX):
                    kind, name = "group", group_of_retry_topic(resource)
                raise self._refusal(f"No default permission for {kind}:{name}", address)

    @staticmethod
    def _refusal(text: str, address: str) -> Refused:
        _log.warning("refused a request from %s: %s", address, text)
        remark = f"org.apache.rocketmq.acl.common.AclException: {text}"
        return Refused(ResponseCode.SYSTEM_ERROR, remark)


def _is_signed(request: Command, ext: dict[str, str], account: Account) -> bool:
    given = ext.get("Signature") or ""
    if _matches(given, request, ext, account):
        return True
    if request.code == RequestCode.QUERY_MESSAGE and UNIQUE_KEY_QUERY in ext:
        without = {name: value for name, value in ext.items() if name != UNIQUE_KEY_QUERY}
        return _matches(given, request, without, account)
    return False


def _matches(given: str, request: Command, ext: dict[str, str], account: Account) -> bool:
    names = sorted((n for n in ext if n != "Signature"), key=lambda name: name.encode("utf-16-be"))
    keyed = hmac.new(account.secret_key.encode(), digestmod=hashlib.sha1)
    keyed.update("".join([ext[name] for name in names]).encode())
    keyed.update(request.body)
    return hmac.compare_digest(base64.b64encode(keyed.digest()), given.encode())

"""Check of every request: source address, signature, and the rights of the account that signed.

A signature covers all ext fields and the body (see `remoting.hooks`), so it does not match a
request that was changed on its way. Clients newer than 4.9.3 include the field
``_UNIQUE_KEY_QUERY`` of a query in the signature; older clients and Java's own broker leave it
out. Both are accepted.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import logging
from collections.abc import Callable, Mapping

from orbitmq._native import Command, Record
from orbitmq.acl.accounts import AclAccount, Right
from orbitmq.acl.demands import NeedsAdmin, RequestContext, needs_of_half
from orbitmq.acl.files import AccountFiles
from orbitmq.acl.rules import UNKNOWN, Rule
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.protocol.names import (
    DLQ_PREFIX,
    RETRY_PREFIX,
    TRACE_TOPIC,
    group_of_retry_topic,
    retry_topic,
)
from orbitmq.remoting.connection import Connection
from orbitmq.remoting.router import Answer, Handler, Refused

__all__ = ["MADE_ADMIN", "AccessControl"]

_log = logging.getLogger(__name__)

UNIQUE_KEY_QUERY = "_UNIQUE_KEY_QUERY"
MADE_ADMIN = (
    "aclStrict=false: as in RocketMQ 4.9.7, any account can make itself an administrator by one "
    "request and read what it has no right to (see docs/rights.md); set aclStrict=true unless "
    "every account is trusted"
)


class AccessControl:
    """Admits requests, or refuses them with Java's error texts.

    `message_at` returns the message at a physical offset; `is_system` is true for the server's own
    topics. `own` is an account outside of all files, for components in the same process.
    """

    def __init__(
        self,
        files: AccountFiles,
        rules: Mapping[RequestCode, Rule],
        *,
        strict: bool = False,
        message_at: Callable[[int], Record | None] = lambda _: None,
        is_system: Callable[[str], bool] = lambda _: False,
        own: AclAccount | None = None,
    ) -> None:
        self.files = files
        self.is_strict = strict
        self._message_at = message_at
        self._is_system = is_system
        self._own = own
        self._demands = {
            int(code): rule.strict if strict else rule.as_4_9_7 for code, rule in rules.items()
        }
        self._unknown = UNKNOWN.strict if strict else UNKNOWN.as_4_9_7

    def guard(self, handler: Handler) -> Handler:
        """Return a handler that calls the given one for admitted requests only."""

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
        account = self._account(key)
        if account is None:
            raise self._refusal(f"No acl config for {key}", address)
        if account.comes_from(address):
            return
        if not _is_signed(request, ext, account):
            raise self._refusal(f"Check signature failed for accessKey={key}", address)
        self._check_permissions(request, account, address)

    def _account(self, key: str) -> AclAccount | None:
        if self._own is not None and key == self._own.access_key:
            return self._own
        return self.files.accounts.get(key)

    def _check_permissions(self, request: Command, account: AclAccount, address: str) -> None:
        demand = self._demands.get(request.code, self._unknown)
        is_for_admins = demand.is_admin
        try:
            wanted = list(demand.needs(RequestContext(request, account, self._message_at)))
        except NeedsAdmin:
            wanted, is_for_admins = [], True
        if not self.is_strict and (TRACE_TOPIC, Right.PUB) in wanted:
            return
        if is_for_admins and not account.is_admin:
            raise self._refusal(
                f"Need admin permission for request code={request.code}, but "
                f"accessKey={account.access_key} is not",
                address,
            )
        if account.may_do_everything:
            return
        for resource, need in wanted:
            if not self._may(account, resource, need):
                kind, name = "topic", resource
                if resource.startswith(RETRY_PREFIX):
                    kind, name = "group", group_of_retry_topic(resource)
                raise self._refusal(f"No default permission for {kind}:{name}", address)

    def _may(self, account: AclAccount, resource: str, need: Right) -> bool:
        if not self.is_strict:
            return account.may(resource, need)
        if resource == TRACE_TOPIC and need == Right.PUB:
            return True
        by_name = account.may_by_name(resource, need)
        if by_name is not None:
            return by_name
        if resource.startswith(DLQ_PREFIX):
            # Dead letters come from any topic; they belong to the group that failed to consume
            # them.
            return account.may(retry_topic(resource.removeprefix(DLQ_PREFIX)), Right.SUB)
        # Default permissions are for users' topics; system topics hold messages of all accounts.
        return not self._is_system(resource) and account.may(resource, need)

    # ---- Account of an admitted request, for handlers

    def owner(self, request: Command) -> str:
        """Return the owner name of the account that signed a request; empty for unsigned ones."""
        account = self.files.accounts.get(request.get_ext("AccessKey") or "")
        return "" if account is None else account.tag

    def key_of(self, request: Command, connection: Connection) -> str | None:
        """Return the access key to check rights for; None for a white-listed address."""
        key, address = request.get_ext("AccessKey") or "", connection.remote[0]
        account = self.files.accounts.get(key)
        is_let_in = account is not None and account.comes_from(address)
        return None if is_let_in or self.files.is_white(address) else key

    def may_be_asked(self, access_key: str | None, half: Record) -> bool:
        """Return True if a producer's account may see a half message and decide about it."""
        if not self.is_strict or access_key is None:
            return True
        account = self.files.accounts.get(access_key)
        if account is None:
            return False
        wanted = needs_of_half(half, account)
        return account.may_do_everything or all(self._may(account, *need) for need in wanted)

    @staticmethod
    def _refusal(text: str, address: str) -> Refused:
        _log.warning("refused a request from %s: %s", address, text)
        remark = f"org.apache.rocketmq.acl.common.AclException: {text}"
        return Refused(ResponseCode.SYSTEM_ERROR, remark)


def _is_signed(request: Command, ext: dict[str, str], account: AclAccount) -> bool:
    given = ext.get("Signature") or ""
    if _matches(given, request, ext, account):
        return True
    if request.code == RequestCode.QUERY_MESSAGE and UNIQUE_KEY_QUERY in ext:
        without = {name: value for name, value in ext.items() if name != UNIQUE_KEY_QUERY}
        return _matches(given, request, without, account)
    return False


def _matches(given: str, request: Command, ext: dict[str, str], account: AclAccount) -> bool:
    names = sorted((n for n in ext if n != "Signature"), key=lambda name: name.encode("utf-16-be"))
    keyed = hmac.new(account.secret_key.encode(), digestmod=hashlib.sha1)
    keyed.update("".join([ext[name] for name in names]).encode())
    keyed.update(request.body)
    return hmac.compare_digest(base64.b64encode(keyed.digest()), given.encode())

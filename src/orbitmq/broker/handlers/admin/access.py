"""Administration of accounts by requests, available with access control (``aclEnable``).

In 4.9.7 every client with a valid signature may send these requests, and the answers contain
secrets. With ``aclStrict=true`` only administrators may. Without access control Java's broker fails
at the first three requests and does not answer the others. This broker answers all of them.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from orbitmq._native import Command, dumps_lenient
from orbitmq.acl.editor import AccountEditor
from orbitmq.acl.files import AccountFiles
from orbitmq.config import BrokerConfig
from orbitmq.errors import ConfigError
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.protocol.headers import Header
from orbitmq.remoting.connection import Connection
from orbitmq.remoting.router import Refused, Router, respond

__all__ = ["AccessAdminHandlers"]

_log = logging.getLogger(__name__)

OFF = "access control is not enabled at this broker, set aclEnable=true"


class AccountHeader(Header):
    """An account, or the changes to an account."""

    access_key: str = ""
    secret_key: str | None = None
    white_remote_address: str | None = None
    admin: bool = False
    default_topic_perm: str | None = None
    default_group_perm: str | None = None
    topic_perms: str | None = None
    group_perms: str | None = None


class WhiteHeader(Header):
    """Addresses whose requests are not checked, separated by commas."""

    global_white_addrs: str = ""
    acl_file_full_path: str | None = None


@dataclass(slots=True)
class AccessAdminHandlers:
    """Handles requests about accounts; `files` and `editor` are unset without access control."""

    config: BrokerConfig
    files: AccountFiles | None
    editor: AccountEditor | None

    def register(self, router: Router) -> None:
        """Register the handlers of this family with `router`."""
        router.add(self.update, [RequestCode.UPDATE_AND_CREATE_ACL_CONFIG])
        router.add(self.delete, [RequestCode.DELETE_ACL_CONFIG])
        router.add(self.update_white, [RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG])
        router.add(self.versions, [RequestCode.GET_BROKER_CLUSTER_ACL_INFO])
        router.add(self.accounts, [RequestCode.GET_BROKER_CLUSTER_ACL_CONFIG])

    def update(self, request: Command, connection: Connection) -> Command:
        """Add an account, or change one."""
        failed = ResponseCode.UPDATE_AND_CREATE_ACL_CONFIG_FAILED
        if self.editor is None:
            raise Refused(failed, OFF)
        header = AccountHeader.decode(request)
        given: dict[str, Any] = {
            "accessKey": header.access_key,
            "secretKey": header.secret_key,
            "whiteRemoteAddress": header.white_remote_address,
            "admin": "true" if header.admin else "false",
            "defaultTopicPerm": header.default_topic_perm,
            "defaultGroupPerm": header.default_group_perm,
            "topicPerms": _list(header.topic_perms),
            "groupPerms": _list(header.group_perms),
        }
        try:
            self.editor.put({key: value for key, value in given.items() if value})
        except (ConfigError, OSError) as error:
            raise Refused(failed, str(error)) from None
        _log.info("request from %s changed account %s", connection.remote_text, header.access_key)
        return respond(request)

    def delete(self, request: Command, connection: Connection) -> Command:
        """Remove an account."""
        failed = ResponseCode.DELETE_ACL_CONFIG_FAILED
        if self.editor is None:
            raise Refused(failed, OFF)
        key = AccountHeader.decode(request).access_key
        if not self.editor.delete(key):
            remark = f"The accesskey[{key}] corresponding to accessConfig has been deleted failed."
            raise Refused(failed, remark)
        _log.info("request from %s removed account %s", connection.remote_text, key)
        return respond(request)

    def update_white(self, request: Command, connection: Connection) -> Command:
        """Replace the addresses whose requests are not checked."""
        failed = ResponseCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG_FAILED
        if self.editor is None:
            raise Refused(failed, OFF)
        header = WhiteHeader.decode(request)
        try:
            is_done = self.editor.set_white(
                _list(header.global_white_addrs), header.acl_file_full_path
            )
        except (ConfigError, OSError) as error:
            raise Refused(failed, str(error)) from None
        if not is_done:
            _log.warning(
                "rejected a change of white addresses by %s: %s is not a file of accounts",
                connection.remote_text,
                header.acl_file_full_path,
            )
            addresses = header.global_white_addrs
            remark = f"The globalWhiteAddresses[{addresses}] has been updated failed."
            raise Refused(failed, remark)
        _log.info("request from %s changed the white addresses", connection.remote_text)
        return respond(request)

    def versions(self, request: Command, _connection: Connection) -> Command:
        """Return the version of every file of accounts."""
        files = self.files
        if files is None:
            raise Refused(ResponseCode.SYSTEM_ERROR, OFF)
        versions = {str(path): files.version(path).as_json() for path in files.paths}
        ext = {
            "version": dumps_lenient(files.version(files.default).as_json()).decode(),
            "allAclFileVersion": dumps_lenient(versions).decode(),
            "brokerName": self.config.broker_name,
            "brokerAddr": self.config.address,
            "clusterName": self.config.broker_cluster_name,
        }
        return respond(request, ext=ext)

    def accounts(self, request: Command, _connection: Connection) -> Command:
        """Return all accounts and white addresses as they are in the files."""
        files = self.files
        if files is None:
            raise Refused(ResponseCode.SYSTEM_ERROR, OFF)
        body = {
            "globalWhiteAddrs": files.white_texts,
            "plainAccessConfigs": [
                {**account.entry, "admin": account.is_admin} for account in files.accounts.values()
            ],
        }
        return respond(request, body=dumps_lenient(body))


def _list(text: str | None) -> list[str]:
    return [part.strip() for part in (text or "").split(",") if part.strip()]

"""Changes of account files that administrators make by requests.

An entry is changed in the file with its key; a new entry goes to the default file. Only the given
members change, and the rest of the file stays, comments included (`rewritten`). The changed entry
becomes the last one, as in Java. Each change increments the file's version. A request can only name
files that are already in use.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

from orbitmq.acl.accounts import MIN_KEY_LENGTH, PERMISSION_TEXTS, AclAccount, address_pattern
from orbitmq.acl.files import AccountFiles
from orbitmq.errors import ConfigError

__all__ = ["AccountEditor", "dumped", "rewritten"]

_log = logging.getLogger(__name__)


class AccountEditor:
    """Adds, changes and removes accounts."""

    def __init__(self, files: AccountFiles, clock: Callable[[], int]) -> None:
        self._files = files
        self._clock = clock

    def put(self, given: Mapping[str, Any]) -> None:
        """Add an account, or change the given members of one; `ConfigError` names the mistake."""
        access_key, secret_key = given.get("accessKey") or "", given.get("secretKey") or ""
        if min(len(access_key), len(secret_key)) < MIN_KEY_LENGTH:
            raise ConfigError(
                f"The accessKey={access_key or 'null'} and secretKey={secret_key or 'null'} cannot "
                "be null and length should longer than 6"
            )
        for line in [*given.get("topicPerms", ()), *given.get("groupPerms", ())]:
            _check_resource(line)
        path = self._files.file_of(access_key) or self._files.default
        content = self._files.content(path)
        entries = content.get("accounts") or []
        known: dict[str, Any] = next(
            (one for one in entries if one.get("accessKey") == access_key), {}
        )
        entry = {**known, **given}
        AclAccount.from_entry(entry)
        content["accounts"] = [one for one in entries if one is not known] + [entry]
        self._write(path, content)

    def delete(self, access_key: str) -> bool:
        """Remove an account; return False if it does not exist."""
        path = self._files.file_of(access_key)
        if path is None:
            return False
        content = self._files.content(path)
        entries = content.get("accounts") or []
        content["accounts"] = [one for one in entries if one.get("accessKey") != access_key]
        self._write(path, content)
        return True

    def set_white(self, patterns: list[str], file: str | None) -> bool:
        """Replace a file's white list; return False if the file is not an account file."""
        path = self._files.default if not file else Path(file)
        if path not in self._files.paths:
            return False
        for pattern in patterns:
            address_pattern(pattern)
        content = self._files.content(path)
        content["globalWhiteRemoteAddresses"] = patterns
        self._write(path, content)
        return True

    def _write(self, path: Path, content: dict[str, Any]) -> None:
        version = self._files.version(path).next(self._clock())
        content["dataVersion"] = [{"timestamp": version.timestamp, "counter": version.counter}]
        text = rewritten(self._files.text(path), content)
        if text is None:
            _log.warning("rewriting %s without its comments: its layout cannot be edited", path)
            text = dumped(content)
        fresh = path.with_name(path.name + ".tmp")
        # The file holds secrets, so it keeps its mode.
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            os.fchmod(descriptor, path.stat().st_mode & 0o777)
            file.write(text)
            file.flush()
            os.fsync(descriptor)
        fresh.replace(path)
        self._files.reload()


def _check_resource(line: str) -> None:
    parts = line.rstrip("=").split("=")  # Java's split drops empty parts at the end
    if len(parts) != 2:
        raise ConfigError(
            f"Parse Resource format error for {line}.\n"
            "The expected resource format is 'Res=Perm'. For example: topicA=SUB"
        )
    if parts[1].strip() not in PERMISSION_TEXTS:
        raise ConfigError(
            f"Parse resource permission error for {line}.\n"
            "The expected permissions are 'SUB' or 'PUB' or 'SUB|PUB' or 'PUB|SUB'."
        )


# ---- Text of an account file after a change
#
# A YAML dump of the content would lose the operator's comments. So only the lines of the changed
# part are replaced: a member of the table, or one account, which moves to the end of its list with
# the comment above it (the order that Java's broker produces). The result is parsed again and
# compared. Layouts that this cannot handle (anchors, a table in braces) make `rewritten` return
# None, and the caller dumps the whole content.

ACCOUNTS = "accounts"
Content = Mapping[str, Any]


def dumped(content: Content) -> str:
    """Return the whole content as YAML."""
    return yaml.safe_dump(dict(content), sort_keys=False, allow_unicode=True)


def rewritten(text: str, content: Content) -> str | None:
    """Return `text` edited so that it parses to `content`, or None if its layout prevents that."""
    try:
        before = yaml.load(text, Loader=yaml.BaseLoader) or {}
        wanted = yaml.load(dumped(content), Loader=yaml.BaseLoader)
        if not isinstance(before, dict) or before.keys() - wanted.keys():
            return None
        for name, value in wanted.items():
            if value != before.get(name):
                text = _with_member(text, name, before.get(name), value)
        is_right = yaml.load(text, Loader=yaml.BaseLoader) == wanted
    except (yaml.YAMLError, _TooIntricateError):
        return None
    return text if is_right else None


class _TooIntricateError(Exception):
    """Raised for a layout that cannot be edited line by line."""


def _with_member(text: str, name: str, before: Any, value: Any) -> str:
    lines = text.splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    found = _member(text, name)
    if found is None:
        return "".join(lines) + dumped({name: value})
    key, node = found
    is_list = isinstance(node, yaml.SequenceNode) and not node.flow_style and bool(node.value)
    if name == ACCOUNTS and is_list and value:
        return "".join(_with_accounts(lines, node.value, before, value))
    first, last = key.start_mark.line, max(key.end_mark.line, _last_line(node))
    comments = [line for line in lines[first : last + 1] if _is_comment(line)]
    return "".join([*lines[:first], *comments, dumped({name: value}), *lines[last + 1 :]])


def _member(text: str, name: str) -> tuple[yaml.Node, yaml.Node] | None:
    root = yaml.compose(text, Loader=yaml.BaseLoader)
    if root is None:
        return None
    if not isinstance(root, yaml.MappingNode) or root.flow_style:
        raise _TooIntricateError
    return next(((key, node) for key, node in root.value if key.value == name), None)


def _with_accounts(
    lines: list[str], nodes: list[yaml.Node], before: list[Any], after: list[Any]
) -> list[str]:
    """Remove the lines of removed and changed accounts, and append changed and new ones."""
    stay = [one for one in before if one in after]
    added = [one for one in after if one not in before]
    if stay + added != after or len(before) != len(nodes):
        raise _TooIntricateError
    indent = lines[nodes[0].start_mark.line].partition("-")[0]
    end = _last_line(nodes[-1]) + 1
    changed = {one.get("accessKey") for one in added}
    out: list[str] = []
    moved: list[str] = []
    done, ends_before = 0, nodes[0].start_mark.line
    for node, entry in zip(nodes, before, strict=True):
        first, last = node.start_mark.line, _last_line(node)
        if not lines[first].lstrip().startswith("-"):
            raise _TooIntricateError
        if entry not in after:
            begin = first
            if entry.get("accessKey") in changed:
                while begin > ends_before and _is_comment(lines[begin - 1]):
                    begin -= 1
                moved += lines[begin:first]
                moved += [line for line in lines[first : last + 1] if _is_comment(line)]
            out += lines[done:begin]
            done = last + 1
        ends_before = last + 1
    out += lines[done:end] + moved
    if added:
        text = yaml.safe_dump(added, sort_keys=False, allow_unicode=True)
        out += [f"{indent}{line}\n" for line in text.splitlines()]
    return out + lines[max(done, end) :]


def _last_line(node: yaml.Node) -> int:
    """Return the last line of a node's content; PyYAML's end mark is behind trailing comments."""
    is_block = isinstance(node, yaml.CollectionNode) and not node.flow_style
    if not is_block or not node.value:
        end = node.end_mark
        return int(
            end.line - 1 if end.column == 0 and end.line > node.start_mark.line else end.line
        )
    last = node.value[-1]
    return _last_line(last[1] if isinstance(node, yaml.MappingNode) else last)


def _is_comment(line: str) -> bool:
    return line.lstrip().startswith("#")

"""Proves that two versions of the sources differ only in words.

Words are comments, docstrings, log texts and help texts. Everything else must be equal:

- Python: syntax trees are compared after docstrings and other bare strings are removed, log texts
  are reduced to their placeholders, and help texts are emptied (`LOG_METHODS`, `HELP_KEYWORDS`,
  `HELP_POSITIONS`, `HELP_NAMES` name what counts as such a text).
- Rust: tokens are compared after comments and doc comments are removed.

Usage: ``python -m tools.only_words OLD NEW [PATH ...]``. OLD and NEW are git revisions or
directories; without paths all Python and Rust files are compared. Prints one line per file that
differs in more than words and exits with 1, or exits with 0.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Final

__all__ = ["differences", "main", "python_difference", "rust_difference"]

LOG_METHODS: Final = frozenset(
    {"critical", "debug", "error", "exception", "info", "log", "warning"}
)
LOGGERS: Final = frozenset({"log", "logger", "logging"})
HELP_KEYWORDS: Final = frozenset({"epilog", "help", "short_help"})
HELP_POSITIONS: Final = {
    "fixed": 1,
    "live": 1,
    "idle": 0,
    "refused": 0,
    "warned": 0,
    "_alias": 1,
}
"""Functions that take a help text by position, with its index."""
HELP_NAMES: Final = re.compile(r"COMMANDS|[A-Z_]+_HELP")
"""Constants whose strings are help texts; the keys of a dictionary are not."""

PLACEHOLDER: Final = re.compile(r"%[-+ #0]*(?:\*|\d+)?(?:\.(?:\*|\d+))?[a-zA-Z%]")
SKIPPED_DIRECTORIES: Final = frozenset(
    {".build", ".git", ".jars", ".mypy_cache", ".ruff_cache", ".venv", "__pycache__", "target"}
)
SUFFIXES: Final = (".py", ".pyi", ".rs")

RUST_TOKEN: Final = re.compile(
    r"""
      (?P<space>\s+)
    | (?P<line>//[^\n]*)
    | (?P<block>/\*)
    | (?P<raw>(?:b|c)?r(?P<hashes>\#*)".*?"(?P=hashes))
    | (?P<string>(?:b|c)?"(?:[^"\\]|\\.)*")
    | (?P<char>b?'(?:[^'\\]|\\(?:x[0-9a-fA-F]{2}|u\{[^}]*\}|.))')
    | (?P<word>'?\w+)
    | (?P<sign>.)
    """,
    re.VERBOSE | re.DOTALL,
)


def python_difference(old: str, new: str) -> str | None:
    """Return the first difference of two Python sources that is more than words, else None."""
    trees = [_WithoutWords().visit(ast.parse(text)) for text in (old, new)]
    return _first_difference(trees[0], trees[1], 1)


class _WithoutWords(ast.NodeTransformer):
    """Removes docstrings and reduces log texts and help texts."""

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        for name, value in ast.iter_fields(node):
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                kept = [statement for statement in value if not _does_nothing(statement)]
                setattr(node, name, kept or [ast.Pass()])
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        for keyword in node.keywords:
            if keyword.arg in HELP_KEYWORDS:
                keyword.value = _reduced(keyword.value, "")
        position = HELP_POSITIONS.get(node.func.id) if isinstance(node.func, ast.Name) else None
        if position is not None and position < len(node.args):
            node.args[position] = _reduced(node.args[position], "")
        if isinstance(node.func, ast.Attribute) and node.func.attr in LOG_METHODS:
            place = 1 if node.func.attr == "log" else 0
            if _last_name(node.func.value).strip("_").lower() in LOGGERS and place < len(node.args):
                node.args[place] = _reduced(node.args[place], None)
        return self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        if any(_is_help_name(target) for target in node.targets):
            node.value = _without_help(node.value)
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if _is_help_name(node.target) and node.value is not None:
            node.value = _without_help(node.value)
        return self.generic_visit(node)


def _does_nothing(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Pass):
        return True
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str | type(...))
    )


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _is_help_name(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and HELP_NAMES.fullmatch(node.id) is not None


def _reduced(node: ast.expr, text: str | None) -> ast.expr:
    """Return an expression whose strings are `text`, or only their placeholders if that is None.

    Only the parts that make up the text are reduced, never the arguments of calls in it.
    """
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        if text is not None:
            return ast.Constant(text)
        found = [mark for mark in PLACEHOLDER.findall(node.value) if mark[-1] != "%"]
        return ast.Constant(" ".join(found))
    if isinstance(node, ast.JoinedStr):
        kept: list[ast.expr] = [part for part in node.values if not isinstance(part, ast.Constant)]
        return ast.JoinedStr(kept) if kept else ast.Constant("")
    if isinstance(node, ast.BinOp):
        right = _reduced(node.right, text) if isinstance(node.op, ast.Add) else node.right
        return ast.BinOp(_reduced(node.left, text), node.op, right)
    if isinstance(node, ast.IfExp):
        return ast.IfExp(node.test, _reduced(node.body, text), _reduced(node.orelse, text))
    return node


def _without_help(node: ast.expr) -> ast.expr:
    if isinstance(node, ast.Dict):
        return ast.Dict(node.keys, [_without_help(value) for value in node.values])
    return _reduced(node, "")


def _first_difference(old: object, new: object, line: int) -> str | None:
    """Compare two trees; say at which line of the new one they differ first."""
    line = getattr(new, "lineno", line)
    if type(old) is not type(new):
        return f"line {line}: {_shown(old)} became {_shown(new)}"
    if isinstance(old, ast.AST) and isinstance(new, ast.AST):
        for name in old._fields:
            found = _first_difference(getattr(old, name, None), getattr(new, name, None), line)
            if found:
                return found
        return None
    if isinstance(old, list) and isinstance(new, list):
        for one, other in zip(old, new, strict=False):
            if found := _first_difference(one, other, line):
                return found
        if len(old) != len(new):
            longer, change = (old, "removed") if len(old) > len(new) else (new, "added")
            return f"line {line}: {change} {_shown(longer[min(len(old), len(new))])}"
        return None
    return None if old == new else f"line {line}: {_shown(old)} became {_shown(new)}"


def _shown(value: object) -> str:
    text = ast.unparse(value) if isinstance(value, ast.AST) else repr(value)
    (first, _, more) = text.partition("\n")
    return f"`{first[:60]}{'…' if more or len(first) > 60 else ''}`"


def rust_difference(old: str, new: str) -> str | None:
    """Return the first difference of two Rust sources that is more than comments, else None."""
    tokens_old, tokens_new = list(rust_tokens(old)), list(rust_tokens(new))
    for (_, one), (line, other) in zip(tokens_old, tokens_new, strict=False):
        if one != other:
            return f"line {line}: `{one}` became `{other}`"
    if len(tokens_old) > len(tokens_new):
        return f"end of file: removed `{tokens_old[len(tokens_new)][1]}`"
    if len(tokens_new) > len(tokens_old):
        line, token = tokens_new[len(tokens_old)]
        return f"line {line}: added `{token}`"
    return None


def rust_tokens(text: str) -> Iterator[tuple[int, str]]:
    """Cut Rust into tokens with their lines, without space and comments."""
    place, line = 0, 1
    while place < len(text):
        match = RUST_TOKEN.match(text, place)
        assert match is not None, "the last alternative takes anything"
        end = match.end()
        if match.lastgroup == "block":
            end = _end_of_block(text, place)
        elif match["space"] is None and match["line"] is None:
            yield line, match[0]
        line += text.count("\n", place, end)
        place = end


def _end_of_block(text: str, place: int) -> int:
    """Return the end of the block comment that begins at `place`; they nest."""
    depth = 0
    for mark in re.finditer(r"/\*|\*/", text[place:]):
        depth += 1 if mark[0] == "/*" else -1
        if depth == 0:
            return place + mark.end()
    return len(text)


def differences(old: dict[str, str], new: dict[str, str]) -> list[str]:
    """Compare two sets of files by name; one line per file that differs in more than words."""
    lines = []
    for name in sorted(old.keys() | new.keys()):
        if name not in new:
            lines.append(f"{name}: removed")
        elif name not in old:
            lines.append(f"{name}: added")
        elif old[name] != new[name]:
            compare = rust_difference if name.endswith(".rs") else python_difference
            if found := compare(old[name], new[name]):
                lines.append(f"{name}: {found}")
    return lines


def sources(side: str, paths: Sequence[str]) -> dict[str, str]:
    """Read the Python and Rust files of a directory or of a git revision."""
    if Path(side).is_dir():
        found = {
            file.relative_to(side).as_posix(): file
            for file in Path(side).rglob("*")
            if file.suffix in SUFFIXES
        }
        return {name: file.read_text() for name, file in found.items() if _is_wanted(name, paths)}
    packed = subprocess.run(["git", "archive", side], capture_output=True, check=True).stdout
    read = {}
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        for member in archive:
            if (
                member.isfile()
                and member.name.endswith(SUFFIXES)
                and _is_wanted(member.name, paths)
            ):
                content = archive.extractfile(member)
                assert content is not None, "a regular file has content"
                read[member.name] = content.read().decode()
    return read


def _is_wanted(name: str, paths: Sequence[str]) -> bool:
    pure = PurePosixPath(name)
    if SKIPPED_DIRECTORIES.intersection(pure.parts):
        return False
    return not paths or any(pure.is_relative_to(path) for path in paths)


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare two versions and print the files that differ in more than words."""
    parser = argparse.ArgumentParser(prog="python -m tools.only_words")
    parser.add_argument("old", help="git revision or directory")
    parser.add_argument("new", help="git revision or directory")
    parser.add_argument("paths", nargs="*", help="files or directories to compare; default: all")
    options = parser.parse_args(arguments)
    old, new = sources(options.old, options.paths), sources(options.new, options.paths)
    if not new:
        parser.error("no Python or Rust file in these paths")
    lines = differences(old, new)
    for line in lines:
        print(line)
    changed = sum(old[name] != new[name] for name in old.keys() & new.keys())
    print(f"{len(new)} files, {changed} changed, {len(lines)} in more than words", file=sys.stderr)
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())

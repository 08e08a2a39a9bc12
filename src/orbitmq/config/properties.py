r"""Parser and writer of Java's ``.properties`` format.

A line is ``key=value``; the separator may also be ``:`` or blanks. A line whose first character is
``#`` or ``!`` is a comment. A line that ends in an odd number of backslashes continues in the next
line, whose leading blanks are dropped. ``\t \n \r \f \uXXXX`` are the usual escapes; a backslash
before any other character is dropped. Trailing blanks belong to the value. Java reads such files
as ISO-8859-1. This module tries UTF-8 first, which equals ASCII there and is what editors write.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from orbitmq.errors import MalformedProperties

__all__ = ["decode", "format_properties", "parse_properties", "rewrite_properties"]

_BLANKS = " \t\f"
_LINE_END = re.compile(r"\r\n|\r|\n")
_ESCAPE = re.compile(r"\\(u([0-9a-fA-F]{4})|.|$)", re.DOTALL)
_KEY = re.compile(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_LETTERS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPED = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}


def decode(content: bytes) -> str:
    """Decode the bytes of a properties file as UTF-8 or else ISO-8859-1."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        return content.decode("iso-8859-1")


def parse_properties(text: str) -> dict[str, str]:
    """Parse properties; if a key is repeated, the last value wins."""
    properties = {}
    for _, _, line in _logical_lines(text):
        match = _KEY.fullmatch(line)
        assert match is not None  # the pattern takes any text
        properties[_unescape(match[1])] = _unescape(match[2])
    return properties


def format_properties(properties: Mapping[str, str]) -> str:
    """Return properties as text that Java and `parse_properties` parse to the same values."""
    return "".join(
        f"{_escape(key, '=:#! ')}={_escape(value)}\n" for key, value in properties.items()
    )


def rewrite_properties(content: bytes, changes: Mapping[str, str]) -> bytes:
    """Return a file's content with some values changed; comments and other keys stay."""
    text = decode(content)
    lines = _LINE_END.split(text)
    ends = [*_LINE_END.findall(text), ""]
    out, done, missing = [], 0, dict(changes)
    for first, last, line in _logical_lines(text):
        match = _KEY.fullmatch(line)
        assert match is not None
        key = _unescape(match[1])
        if key in changes:
            out += [lines[i] + ends[i] for i in range(done, first)]
            out.append(format_properties({key: changes[key]}).rstrip("\n") + (ends[last] or "\n"))
            done = last + 1
            missing.pop(key, None)
    whole = "".join([*out, *(lines[i] + ends[i] for i in range(done, len(lines)))])
    if missing:
        whole += "" if whole.endswith(("\n", "\r")) or not whole else "\n"
        if whole.rstrip("\r\n").endswith("\\"):
            # A last line that ends with a backslash must not continue in the added lines. "\r\n"
            # would be a single line end.
            whole += "\r" if whole.endswith("\r") else "\n"
        whole += format_properties(missing)
    try:
        content.decode()
    except UnicodeDecodeError:
        return whole.encode("iso-8859-1")
    return whole.encode()


def _logical_lines(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield each logical line with the numbers of its first and last physical line."""
    whole, first = "", -1
    lines = _LINE_END.split(text)
    for number, line in enumerate(lines):
        line = line.lstrip(_BLANKS)
        if not whole and (not line or line[0] in "#!"):
            continue
        if not whole:
            first = number
        backslashes = len(line) - len(line.rstrip("\\"))
        continued = backslashes % 2 == 1
        whole += line[:-1] if continued else line
        # Empty logical lines are skipped, unless the text ends with a backslash.
        if (whole and not continued) or (continued and number == len(lines) - 1):
            yield first, number, whole
        if not continued:
            whole = ""


def _unescape(text: str) -> str:
    def replace(match: re.Match[str]) -> str:
        if match[2] is not None:
            return chr(int(match[2], 16))
        if match[1] == "u":
            raise MalformedProperties(f"\\u without four hexadecimal digits in {text!r}")
        return _LETTERS.get(match[1], match[1])

    # Java writes characters beyond 16 bits as pairs of surrogates; join each pair.
    return _join_surrogates(_ESCAPE.sub(replace, text)) if "\\" in text else text


def _join_surrogates(text: str) -> str:
    return text.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "replace")


def _escape(text: str, more: str = "") -> str:
    out = []
    for position, character in enumerate(text):
        if character in _ESCAPED:
            out.append(_ESCAPED[character])
        elif character in more or (character == " " and position == 0):
            out.append("\\" + character)
        elif " " <= character <= "~":
            out.append(character)
        else:
            units = character.encode("utf-16-be", "surrogatepass").hex().upper()
            out += [f"\\u{units[start : start + 4]}" for start in range(0, len(units), 4)]
    return "".join(out)

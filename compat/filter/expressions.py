"""Random selectors and messages, with a preference for corner cases of the language.

Half of the selectors are what the grammar allows, the others have had something done to them. All
values and names come from small sets, so that they meet each other often.
"""

from __future__ import annotations

import random

NAMES = ["a", "b", "c", "A", "_x", "$y", "TAGS", "missing"]
TEXTS = [
    "",
    "x",
    "y",
    "it''s",
    "5",
    "-5",
    "5.0",
    "true",
    "TRUE",
    "NaN",
    "6 ",
    "\u00e9\u4e2d",
    "1e1",
]
INTEGERS = ["0", "1", "5", "6", "7L", "10l", "2147483647", "2147483648", "9223372036854775807"]
FLOATS = ["5.0", "0.5", ".5", "6.", "1e1", "5E-1", "1.5e+2", "2147483647.5"]
BAD_NUMBERS = ["0.0", "1e400", "9223372036854775808", "05", "0x1", "1f", "5.5d", "0l", "1e"]
VALUES = [
    *(
        "5",
        "6",
        "-5",
        "+6",
        "0",
        "-0",
        "0.0",
        "-0.0",
        "5.0",
        "6.5",
        "5d",
        "6.5f",
        " 5",
        "5 ",
        "1e1",
    ),
    *(
        "10",
        "2147483647",
        "2147483648",
        "-2147483648",
        "9223372036854775807",
        "9223372036854775808",
    ),
    *("true", "TRUE", "True", "false", "yes", "x", "y", "it's", "NaN", "Infinity", "-Infinity"),
    *(
        "nan",
        "inf",
        "0x1p3",
        "0x1.8p1",
        "0x10",
        "1_0",
        "\u00e9\u4e2d",
        "5L",
        "''",
        "null",
        "--5",
        ".",
    ),
]
COMPARISONS = [">", ">=", "<", "<=", "=", "<>"]
NOISE = ["(", ")", ",", "'", "''", "=", "NOT", "IS", "NULL", "AND", ";", "!", "--", "/*", "*/", "5"]
BLANKS = [" ", " ", " ", " ", "\t", "  ", "\n", "/* c */", " -- c\n", "\r\n", "\f"]


class Chances:
    """Draws selectors and properties from one seed."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)

    def properties(self) -> dict[str, str]:
        """Draw the properties of a message."""
        rng = self._rng
        return {name: rng.choice(VALUES) for name in NAMES[:-1] if rng.random() < 0.7}

    def selector(self) -> str:
        """Draw a selector, which need not be valid."""
        rng = self._rng
        text = self._or(rng.choice([0, 1, 1, 2, 2, 3]))
        if rng.random() < 0.25:
            text = self._spoiled(text)
        if rng.random() < 0.2:
            text = "".join(part if part != " " else rng.choice(BLANKS) for part in _split(text))
        return text

    def _spoiled(self, text: str) -> str:
        rng = self._rng
        words = text.split(" ")
        at = rng.randrange(len(words) + 1)
        kind = rng.random()
        if kind < 0.5:
            words.insert(at, rng.choice(NOISE))
        elif kind < 0.8 and len(words) > 1:
            del words[rng.randrange(len(words))]
        else:
            return text[: rng.randrange(len(text) + 1)]
        return " ".join(words)

    def _or(self, depth: int) -> str:
        parts = [self._and(depth) for _ in range(self._rng.choice([1, 1, 2]))]
        return self._word(" OR ").join(parts)

    def _and(self, depth: int) -> str:
        parts = [self._equality(depth) for _ in range(self._rng.choice([1, 1, 1, 2]))]
        return self._word(" AND ").join(parts)

    def _equality(self, depth: int) -> str:
        rng = self._rng
        kind = rng.random()
        if kind < 0.4:
            symbol = rng.choice(["=", "<>"])
            return f"{self._operand(depth)} {symbol} {self._operand(depth)}"
        left = self._comparison(depth)
        if kind < 0.5:
            return f"{left} {self._word(rng.choice(['IS NULL', 'IS NOT NULL']))}"
        return left

    def _comparison(self, depth: int) -> str:
        rng = self._rng
        kind = rng.random()
        if kind < 0.05:
            return self._unary(depth)
        if kind < 0.1:
            return f"{self._unary(depth)} {rng.choice(COMPARISONS)} {self._unary(depth)}"
        left = self._name_mostly(depth)
        if kind < 0.4:
            return f"{left} {rng.choice(COMPARISONS)} {self._number()}"
        if kind < 0.5:
            return f"{self._number()} {rng.choice(COMPARISONS)} {left}"
        if kind < 0.65:
            word = self._word(rng.choice(["BETWEEN", "NOT BETWEEN"]))
            return f"{left} {word} {self._number()} {self._word('AND')} {self._number()}"
        if kind < 0.8:
            texts = ", ".join(self._text() for _ in range(rng.choice([1, 2, 3])))
            return f"{left} {self._word(rng.choice(['IN', 'NOT IN']))} ({texts})"
        return f"( {self._or(depth - 1)} )" if depth else rng.choice(NAMES)

    def _name_mostly(self, depth: int) -> str:
        return self._rng.choice(NAMES) if self._rng.random() < 0.95 else self._unary(depth)

    def _operand(self, depth: int) -> str:
        kind = self._rng.random()
        if kind < 0.5:
            return self._rng.choice(NAMES)
        return self._comparison(depth) if kind < 0.6 else self._unary(0)

    def _unary(self, depth: int) -> str:
        kind = self._rng.random()
        if kind < 0.06:
            return f"- {self._unary(depth)}"
        if kind < 0.09:
            return f"+{self._unary(depth)}"
        if kind < 0.15:
            return f"{self._word('NOT')} {self._unary(depth)}"
        return self._primary(depth)

    def _primary(self, depth: int) -> str:
        rng = self._rng
        kind = rng.random()
        if depth and kind < 0.3:
            return f"( {self._or(depth - 1)} )"
        if kind < 0.65:
            return rng.choice(NAMES)
        if kind < 0.82:
            return self._number()
        if kind < 0.92:
            return self._text()
        return self._word(rng.choice(["TRUE", "FALSE", "TRUE", "NULL"]))

    def _number(self) -> str:
        rng = self._rng
        kind = rng.random()
        if kind < 0.05:
            return rng.choice(BAD_NUMBERS)
        if kind < 0.12:
            return rng.choice(NAMES)
        sign = rng.choice(["", "", "", "-", "+"])
        return sign + rng.choice(INTEGERS if kind < 0.7 else FLOATS)

    def _text(self) -> str:
        return f"'{self._rng.choice(TEXTS)}'"

    def _word(self, text: str) -> str:
        kind = self._rng.random()
        return text.lower() if kind < 0.2 else text.title() if kind < 0.25 else text


def _split(text: str) -> list[str]:
    """Split a text at its blanks, which are parts themselves; quoted texts stay whole."""
    parts, current, quoted = [], "", False
    for char in text:
        quoted ^= char == "'"
        if char == " " and not quoted:
            parts += [current, " "]
            current = ""
        else:
            current += char
    return [*parts, current]

"""Write the seeds of every fuzz target, one file per input, from the golden bytes.

    seeds.py GOLDEN_DIR OUT_DIR

They are made for each run and not kept: the golden bytes are.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

MAX_INPUT_LEN = 16 * 1024

SELECTORS = [
    "a BETWEEN 1 AND 5 AND b = 'x' OR NOT (c <> 2.5)",
    "a NOT BETWEEN b AND c OR a NOT IN ('x', 'it''s') AND b IS NOT NULL",
    "a > -5 AND a >= 1e3 AND a < 3000000000L AND a <= .5 -- why\n OR TRUE = FALSE",
    " AND ".join(f"p{number} = '{number}'" for number in range(40)),
    " OR ".join(["a > 5.0"] * 500),
    "a = a = a = a IS NULL",
]
SQL_PROPERTIES = "a\x013\x02b\x01x\x02c\x012.5\x02p7\x017"


def nested_between(levels: int) -> str:
    """A tree that doubles with each level, if the operand of BETWEEN is copied."""
    text = "a"
    for _ in range(levels):
        text = f"-({text} BETWEEN 1 AND 2)"
    return f"{text} IS NULL"


def fields(golden: Path, file: str, *names: str) -> Iterator[str]:
    """Every value of the named fields of a golden file's entries."""
    for entry in json.loads((golden / file).read_text("utf-8")):
        yield from (entry[name] for name in names if name in entry)


def header_of(frame: bytes) -> bytes:
    """What the header target takes: the encoding byte, then the header."""
    header_len = int.from_bytes(frame[5:8], "big")
    return frame[4:5] + frame[8 : 8 + header_len]


def seeds(golden: Path) -> dict[str, list[bytes]]:
    frames = [bytes.fromhex(text) for text in fields(golden, "commands.json", "frame")]
    records = [
        *fields(golden, "records.json", "record", "list"),
        *fields(golden, "batches.json", "stored"),
    ]
    strings = [
        *fields(golden, "properties.json", "text"),
        *fields(golden, "records.json", "properties"),
    ]
    return {
        "frame": [*frames, b"".join(frames)[:MAX_INPUT_LEN]],
        "header": [header_of(frame) for frame in frames],
        "record": [bytes.fromhex(text) for text in records],
        "batch": [bytes.fromhex(text) for text in fields(golden, "batches.json", "batch")],
        "lenient_json": [text.encode() for text in fields(golden, "json.json", "text", "quoted")],
        "properties": [text.encode() for text in strings],
        "sql_filter": [
            f"{text}\0{properties}".encode()
            for text in [*SELECTORS, nested_between(12), nested_between(49)]
            for properties in [SQL_PROPERTIES, "a\x01" + "1" * 4000]
        ],
    }


def main() -> None:
    golden, out = Path(sys.argv[1]), Path(sys.argv[2])
    for target, inputs in seeds(golden).items():
        directory = out / target
        directory.mkdir(parents=True)
        kept = [seed for seed in inputs if len(seed) <= MAX_INPUT_LEN]
        for number, seed in enumerate(kept):
            (directory / f"golden-{number:03}").write_bytes(seed)
        if not kept:
            sys.exit(f"no seeds for {target} in {golden}")


if __name__ == "__main__":
    main()

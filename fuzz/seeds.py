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

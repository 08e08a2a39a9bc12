"""Possible states of a store after a power cut, for a process that was just killed.

A kill loses nothing that was written: dirty pages stay with the kernel. A power cut loses whatever
no flush had covered, in any mixture of old and new sectors. Three promises bound the loss:

- commit log: what lies below the flushed watermark, or below the end of the record that the
  checkpoint names, is on disk;
- consume queues: so is every unit of a message below the end of that record;
- index: and every entry of a message below the checkpoint's index end.

    checkpoint    three times of Java | … | at 48: record start i64 | record end i64 | check i64 |
                  index end i64
    queue unit    physical_offset i64 | size i32 | tags_code i64
    index file    begin_ms i64 | end_ms i64 | begin_physical i64 | end_physical i64 |
                  slots_used i32 | next_entry i32 | slots i32 each |
                  entries: hash i32, physical_offset i64, seconds i32, previous i32
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from compat.records import log_records

SECTOR = 512
UNIT = struct.Struct(">qiq")
INDEX_HEADER = struct.Struct(">qqqqii")
INDEX_ENTRY = struct.Struct(">iqii")
REMOVED_SHARE = 0.3
OFFSETS_AT = 48


class Remains(Enum):
    """Content of the bytes that were not on disk yet."""

    ZEROS = "zeros"
    GARBAGE = "garbage"
    STALE = "stale records"
    MIXED = "a mixture"


@dataclass(frozen=True)
class PowerCut:
    root: Path
    flushed_offset: int
    index_slots: int
    remains: Remains
    chooser: random.Random

    def strike(self) -> None:
        if not (self.root / "abort").exists():
            return  # Killed before the first write: the content of the last close is on disk.
        checkpoint = (self.root / "checkpoint").read_bytes()
        _, record_end, _, index_end = struct.unpack_from(">qqqq", checkpoint, OFFSETS_AT)
        store_times = {
            record.physical_offset: record.store_timestamp for record, _ in log_records(self.root)
        }
        self._strike_queues(record_end)
        self._strike_index(store_times, index_end)
        self._strike_log(max(self.flushed_offset, record_end))

    # ---- Commit log --------------------------------------------------------------------------

    def _strike_log(self, flushed_offset: int) -> None:
        files = sorted((self.root / "commitlog").glob("*"))
        stale = files[0].read_bytes() if files else b""
        for file in files:
            start, data = int(file.name), file.read_bytes()
            if start >= flushed_offset and self.chooser.random() < REMOVED_SHARE:
                self._remove_from(file, files)
                return
            kept = min(max(0, flushed_offset - start), len(data))
            if kept < len(data):
                file.write_bytes(data[:kept] + self._lost(data[kept:], stale))

    def _lost(self, written: bytes, stale: bytes) -> bytes:
        match self.remains:
            case Remains.ZEROS:
                return bytes(len(written))
            case Remains.GARBAGE:
                return self.chooser.randbytes(len(written))
            case Remains.STALE:  # whole records of another log file
                return (stale + bytes(len(written)))[: len(written)]
            case Remains.MIXED:
                garbage = self.chooser.randbytes(len(written))
                return self._mixture(written, bytes(len(written)), garbage)

    # ---- Consume queues ----------------------------------------------------------------------

    def _strike_queues(self, flushed_end: int) -> None:
        for queue in sorted((self.root / "consumequeue").glob("*/*")):
            if not queue.is_dir():  # A file that was being created.
                continue
            files = sorted(queue.iterdir())
            for file in files:
                new = file.read_bytes()
                units = list(UNIT.iter_unpack(new))
                kept = [size > 0 and offset < flushed_end for offset, size, _ in units]
                if not any(kept) and self.chooser.random() < REMOVED_SHARE:
                    self._remove_from(file, files)
                    break
                old = self._with_units(new, kept, lambda: bytes(UNIT.size))
                garbled = self._with_units(new, kept, lambda: self.chooser.randbytes(UNIT.size))
                file.write_bytes(self._pick(old, new, garbled))

    @staticmethod
    def _with_units(data: bytes, kept: list[bool], other: Callable[[], bytes]) -> bytes:
        size = UNIT.size
        return b"".join(
            data[i * size : (i + 1) * size] if keep else other() for i, keep in enumerate(kept)
        )

    # ---- Index -------------------------------------------------------------------------------

    def _strike_index(self, store_times: Mapping[int, int], flushed_end: int) -> None:
        files = sorted((self.root / "index").glob("*"))
        for file in files:
            new = file.read_bytes()
            old = self._index_by(new, store_times, flushed_end)
            if not any(old):
                if self.chooser.random() < REMOVED_SHARE:
                    self._remove_from(file, files)
                    return
                file.write_bytes(self._pick(old, new, self.chooser.randbytes(len(new))))
            else:
                file.write_bytes(self._pick(old, new, None))

    def _index_by(self, new: bytes, store_times: Mapping[int, int], flushed_end: int) -> bytes:
        """Return the file as of the index end `flushed_end`; zeros if it did not exist."""
        begin_ms, _, begin_physical, _, _, next_entry = INDEX_HEADER.unpack_from(new)
        if next_entry > 1 and begin_physical not in store_times:
            # Garbage of an earlier cut; the store was killed before it looked at the index.
            return new
        entries_at = INDEX_HEADER.size + 4 * self.index_slots

        def entry(number: int) -> tuple[int, int, int, int]:
            hash_code, physical_offset, seconds, previous = INDEX_ENTRY.unpack_from(
                new, entries_at + number * INDEX_ENTRY.size
            )
            return hash_code, physical_offset, seconds, previous

        end = 1
        while end < next_entry and entry(end)[1] < flushed_end:
            end += 1
        if end == 1:
            return bytes(len(new))
        last_physical = entry(end - 1)[1]
        slots_used = sum(entry(number)[3] == 0 for number in range(1, end))
        old = bytearray(len(new))
        INDEX_HEADER.pack_into(
            old, 0, begin_ms, store_times[last_physical], begin_physical, last_physical,
            slots_used, end,
        )  # fmt: skip
        for slot in range(self.index_slots):
            at = INDEX_HEADER.size + 4 * slot
            (number,) = struct.unpack_from(">i", new, at)
            while number >= end:
                number = entry(number)[3]
            struct.pack_into(">i", old, at, number)
        kept_until = entries_at + end * INDEX_ENTRY.size
        old[entries_at:kept_until] = new[entries_at:kept_until]
        return bytes(old)

    # ---- Sectors -----------------------------------------------------------------------------

    def _pick(self, old: bytes, new: bytes, garbled: bytes | None) -> bytes:
        """Return one of the possible versions of a file on disk, by the kind of remains."""
        if self.remains is Remains.ZEROS:
            return old
        if self.remains is Remains.GARBAGE:
            return garbled if garbled is not None else old
        if self.remains is Remains.STALE:
            return new
        return self._mixture(old, new, *([garbled] if garbled is not None else []))

    def _mixture(self, *versions: bytes) -> bytes:
        length = len(versions[0])
        return b"".join(
            self.chooser.choice(versions)[at : at + SECTOR] for at in range(0, length, SECTOR)
        )

    @staticmethod
    def _remove_from(file: Path, files: list[Path]) -> None:
        """Remove a file that was never created, and all later ones."""
        for later in files[files.index(file) :]:
            later.unlink()

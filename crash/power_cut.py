"""What a power cut may leave of a store whose process was just killed.

A kill loses nothing that was written: dirty pages stay with the kernel. A power cut loses whatever
no flush had covered, in any mixture of old and new sectors. Three promises bound the loss:

- commit log: what lies below the flushed watermark is on disk, as is what was stored no later than
  the checkpoint's first time;
- consume queues: so is every unit of a message stored no later than the checkpoint's second time;
- index: and every entry of a message stored no later than its fourth. (The third is of full files.)

    checkpoint    log_ms i64 | queues_ms i64 | index_files_ms i64 | index_ms i64 | …
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


class Remains(Enum):
    """What stands where bytes were not yet on disk."""

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
            return  # killed before it had begun: what was closed before is on disk
        checkpoint = (self.root / "checkpoint").read_bytes()
        log_ms, queues_ms, _, index_ms = struct.unpack_from(">qqqq", checkpoint)
        store_times = {}
        flushed_offset = self.flushed_offset
        for record, _ in log_records(self.root):
            store_times[record.physical_offset] = record.store_timestamp
            if record.store_timestamp <= log_ms:
                flushed_offset = max(flushed_offset, record.physical_offset + record.size)
        self._strike_queues(store_times, queues_ms)
        self._strike_index(store_times, index_ms)
        self._strike_log(flushed_offset)

    # ---- commit log --------------------------------------------------------------------------

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
            case Remains.STALE:  # blocks once used by another log file: whole records, not ours
                return (stale + bytes(len(written)))[: len(written)]
            case Remains.MIXED:
                garbage = self.chooser.randbytes(len(written))
                return self._mixture(written, bytes(len(written)), garbage)

    # ---- consume queues ----------------------------------------------------------------------

    def _strike_queues(self, store_times: Mapping[int, int], queues_ms: int) -> None:
        def is_lost(physical_offset: int) -> bool:
            return store_times.get(physical_offset, queues_ms + 1) > queues_ms

        for queue in sorted((self.root / "consumequeue").glob("*/*")):
            if not queue.is_dir():  # a file that was being created
                continue
            files = sorted(queue.iterdir())
            for file in files:
                new = file.read_bytes()
                units = list(UNIT.iter_unpack(new))
                kept = [not is_lost(offset) for offset, size, _ in units]
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

    # ---- index -------------------------------------------------------------------------------

    def _strike_index(self, store_times: Mapping[int, int], index_ms: int) -> None:
        files = sorted((self.root / "index").glob("*"))
        for file in files:
            new = file.read_bytes()
            old = self._index_by(new, store_times, index_ms)
            if not any(old):
                if self.chooser.random() < REMOVED_SHARE:
                    self._remove_from(file, files)
                    return
                file.write_bytes(self._pick(old, new, self.chooser.randbytes(len(new))))
            else:
                file.write_bytes(self._pick(old, new, None))

    def _index_by(self, new: bytes, store_times: Mapping[int, int], index_ms: int) -> bytes:
        """The file as it was when the checkpoint's index time was the present; zeros if not yet."""
        begin_ms, _, begin_physical, _, _, next_entry = INDEX_HEADER.unpack_from(new)
        entries_at = INDEX_HEADER.size + 4 * self.index_slots

        def entry(number: int) -> tuple[int, int, int, int]:
            hash_code, physical_offset, seconds, previous = INDEX_ENTRY.unpack_from(
                new, entries_at + number * INDEX_ENTRY.size
            )
            return hash_code, physical_offset, seconds, previous

        end = 1
        while end < next_entry and store_times.get(entry(end)[1], index_ms + 1) <= index_ms:
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

    # ---- sectors -----------------------------------------------------------------------------

    def _pick(self, old: bytes, new: bytes, garbled: bytes | None) -> bytes:
        """One of the versions a file may have on disk, by what the cut is to leave."""
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
        """The file was never made, and so none that came after it."""
        for later in files[files.index(file) :]:
            later.unlink()

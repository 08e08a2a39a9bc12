//! Index file: a hash table from `topic#key` to the physical offsets of messages, newest first.
//!
//! ```text
//! 0   begin_timestamp i64 | end_timestamp i64 | begin_physical i64 | end_physical i64 | slots_used i32 | next_entry i32
//! 40  slot i32 × slots                                    number of the newest entry of that hash, 0 for none
//! …   entry × entries: hash i32 | physical i64 | seconds after begin_timestamp i32 | previous entry of the slot i32
//! ```
//! Entry 0 is never used; `next_entry` starts at 1 (a fresh file has 0). The writer fills the entry, then the slot,
//! then the header, so a reader that follows a slot finds a whole entry. Slots and header change while readers use
//! them: they are accessed as atomics.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::error::Result;
use crate::mapped_file::MappedFile;

const HEADER_LEN: u64 = 40;
const SLOT_LEN: u64 = 4;
const ENTRY_LEN: u64 = 20;
const RESERVE_STRIDE: u64 = 1 << 20;

const BEGIN_TIMESTAMP: u64 = 0;
const END_TIMESTAMP: u64 = 8;
const BEGIN_PHYSICAL: u64 = 16;
const END_PHYSICAL: u64 = 24;
const SLOTS_USED: u64 = 32;
const NEXT_ENTRY: u64 = 36;

pub(crate) const fn file_len(slots: u32, entries: u32) -> u64 {
    HEADER_LEN + slots as u64 * SLOT_LEN + entries as u64 * ENTRY_LEN
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub hash: i32,
    pub physical_offset: i64,
    pub seconds: i32,
    pub previous: i32,
}

impl Entry {
    pub fn decode(bytes: &[u8]) -> Entry {
        let i32_at = |i: usize| i32::from_be_bytes(bytes[i..i + 4].try_into().expect("4 bytes"));
        Entry {
            hash: i32_at(0),
            physical_offset: i64::from_be_bytes(bytes[4..12].try_into().expect("8 bytes")),
            seconds: i32_at(12),
            previous: i32_at(16),
        }
    }
}

/// Numbers of a mapped index file. Each is read and written as a whole, as an atomic.
#[derive(Clone, Copy)]
struct Words {
    base: *mut u8,
    size: u64,
}

impl Words {
    #[inline]
    fn u32_at(&self, pos: u64) -> &AtomicU32 {
        debug_assert!(pos + 4 <= self.size);
        // SAFETY: positions come from `entry_pos`, `slot_pos` and the header's constants, which lie inside the mapping and on
        // multiples of four of its page-aligned base; the mapping outlives `Words`, which no method keeps.
        unsafe { AtomicU32::from_ptr(self.base.add(pos as usize).cast()) }
    }

    #[inline]
    fn u64_at(&self, pos: u64) -> &AtomicU64 {
        debug_assert!(pos + 8 <= HEADER_LEN);
        // SAFETY: only used for the four header fields, which lie on multiples of eight.
        unsafe { AtomicU64::from_ptr(self.base.add(pos as usize).cast()) }
    }

    #[inline]
    fn i32(&self, pos: u64) -> i32 {
        i32::from_be_bytes(self.u32_at(pos).load(Ordering::Acquire).to_ne_bytes())
    }

    #[inline]
    fn set_i32(&self, pos: u64, value: i32) {
        self.u32_at(pos).store(u32::from_ne_bytes(value.to_be_bytes()), Ordering::Release);
    }

    #[inline]
    fn i64(&self, pos: u64) -> i64 {
        i64::from_be_bytes(self.u64_at(pos).load(Ordering::Acquire).to_ne_bytes())
    }

    #[inline]
    fn set_i64(&self, pos: u64, value: i64) {
        self.u64_at(pos).store(u64::from_ne_bytes(value.to_be_bytes()), Ordering::Release);
    }

    /// Returns at most `entries`, because the header may be damaged.
    #[inline]
    fn next_entry(&self, entries: u32) -> i32 {
        self.i32(NEXT_ENTRY).clamp(1, entries.max(1) as i32)
    }
}

#[derive(Debug)]
pub(crate) struct IndexFile {
    pub file: MappedFile,
    slots: u32,
    entries: u32,
}

impl IndexFile {
    pub fn create(path: PathBuf, slots: u32, entries: u32) -> Result<IndexFile> {
        let file = MappedFile::create(path, 0, file_len(slots, entries))?;
        file.reserve(HEADER_LEN + u64::from(slots) * SLOT_LEN, RESERVE_STRIDE)?;
        Ok(IndexFile { file, slots, entries })
    }

    /// Opens an existing file. Java grows a shorter file to the configured size by mapping it; this does the same.
    pub fn open(path: PathBuf, slots: u32, entries: u32) -> Result<IndexFile> {
        let size = file_len(slots, entries);
        let failed = |e| crate::StoreError::io("growing", &path, 0, e);
        if std::fs::metadata(&path).map_err(failed)?.len() < size {
            let file = std::fs::OpenOptions::new().write(true).open(&path).map_err(failed)?;
            file.set_len(size).map_err(failed)?;
        }
        let file = MappedFile::found(path, 0, size)?;
        Ok(IndexFile { file, slots, entries })
    }

    /// Returns the file name, which is a number.
    pub fn number(&self) -> Option<u64> {
        self.file.path.file_name()?.to_str()?.parse().ok()
    }

    #[inline]
    fn words(&self) -> Result<Words> {
        Ok(Words { base: self.file.address(0, self.file.size)?, size: self.file.size })
    }

    pub fn begin_timestamp(&self) -> Result<i64> {
        Ok(self.words()?.i64(BEGIN_TIMESTAMP))
    }

    pub fn end_timestamp(&self) -> Result<i64> {
        Ok(self.words()?.i64(END_TIMESTAMP))
    }

    pub fn end_physical(&self) -> Result<i64> {
        Ok(self.words()?.i64(END_PHYSICAL))
    }

    /// True if this message, or a later one, has been indexed already.
    #[inline]
    pub fn covers(&self, physical_offset: i64) -> Result<bool> {
        let end = self.end_physical()?;
        // A fresh first file ends at 0 without covering the message there.
        Ok(physical_offset <= end && (end > 0 || self.next_entry()? > 1))
    }

    /// Writes the state a new file starts with: the end of its predecessor.
    pub fn begin_after(&self, end_physical: i64, end_timestamp: i64) -> Result<()> {
        let words = self.words()?;
        words.set_i64(BEGIN_PHYSICAL, end_physical);
        words.set_i64(END_PHYSICAL, end_physical);
        words.set_i64(BEGIN_TIMESTAMP, end_timestamp);
        words.set_i64(END_TIMESTAMP, end_timestamp);
        Ok(())
    }

    #[inline]
    pub fn next_entry(&self) -> Result<i32> {
        Ok(self.words()?.next_entry(self.entries))
    }

    #[inline]
    pub fn room(&self) -> Result<u32> {
        Ok(self.entries.saturating_sub(self.next_entry()? as u32))
    }

    #[inline]
    fn slot_pos(&self, hash: i32) -> u64 {
        HEADER_LEN + u64::from(hash as u32 % self.slots) * SLOT_LEN
    }

    #[inline]
    fn entry_pos(&self, number: i32) -> u64 {
        HEADER_LEN + u64::from(self.slots) * SLOT_LEN + number as u64 * ENTRY_LEN
    }

    /// Reserves disk blocks for `count` more entries.
    #[inline]
    pub fn prepare(&self, count: u32) -> Result<()> {
        let last = self.next_entry()? as u32 + count;
        self.file.reserve(self.entry_pos(last.min(self.entries) as i32), RESERVE_STRIDE)
    }

    /// Adds one key. The caller has made sure that there is room.
    #[inline]
    pub fn put(&self, hash: i32, physical_offset: i64, store_timestamp: i64) -> Result<()> {
        let words = self.words()?;
        let number = words.next_entry(self.entries);
        let slot = self.slot_pos(hash);
        let previous = Some(words.i32(slot)).filter(|&p| p > 0 && p <= number).unwrap_or(0);
        let begin = words.i64(BEGIN_TIMESTAMP);
        let seconds = if begin > 0 {
            (store_timestamp.saturating_sub(begin) / 1000).clamp(0, i64::from(i32::MAX)) as i32
        } else {
            0
        };

        let mut bytes = [0u8; ENTRY_LEN as usize];
        bytes[0..4].copy_from_slice(&hash.to_be_bytes());
        bytes[4..12].copy_from_slice(&physical_offset.to_be_bytes());
        bytes[12..16].copy_from_slice(&seconds.to_be_bytes());
        bytes[16..20].copy_from_slice(&previous.to_be_bytes());
        // SAFETY: this is the only writer, and no slot leads to this entry yet.
        unsafe { self.file.bytes_mut(self.entry_pos(number), ENTRY_LEN as usize)? }.copy_from_slice(&bytes);
        words.set_i32(slot, number);

        if number <= 1 {
            words.set_i64(BEGIN_PHYSICAL, physical_offset);
            words.set_i64(BEGIN_TIMESTAMP, store_timestamp);
        }
        if previous == 0 {
            words.set_i32(SLOTS_USED, words.i32(SLOTS_USED).saturating_add(1));
        }
        // Set the end before the file counts as full: the checkpoint records the end of a full file.
        words.set_i64(END_TIMESTAMP, store_timestamp);
        words.set_i32(NEXT_ENTRY, number + 1);
        words.set_i64(END_PHYSICAL, physical_offset);
        Ok(())
    }

    #[inline]
    pub fn slot(&self, hash: i32) -> Result<i32> {
        Ok(self.words()?.i32(self.slot_pos(hash)))
    }

    pub fn entry(&self, number: i32) -> Result<Entry> {
        Ok(Entry::decode(self.file.bytes(self.entry_pos(number), ENTRY_LEN as usize)?))
    }

    /// Keeps the entries of messages stored by `until_ms`, except the last of these messages, some of whose keys may be
    /// missing. Slots and header are computed again from the kept entries, because after a power cut they may be older
    /// or newer than the entries. Returns the physical offset to index from again, or `None` if nothing can be kept.
    pub fn keep_until(&self, until_ms: i64, log_end: i64) -> Result<Option<i64>> {
        let begin = self.begin_timestamp()?;
        let claimed = self.next_entry()?.min(self.entries as i32);
        let (mut end, mut last_physical, mut last_start) = (1, -1i64, 1);
        while end < claimed {
            let entry = self.entry(end)?;
            let time = begin.saturating_add(i64::from(entry.seconds) * 1000);
            let rises = entry.physical_offset >= last_physical.max(0) && entry.physical_offset < log_end;
            // Seconds are rounded down: one more second belongs to the doubtful part.
            if !rises || entry.seconds < 0 || time.saturating_add(1000) > until_ms {
                break;
            }
            if entry.physical_offset != last_physical {
                (last_physical, last_start) = (entry.physical_offset, end);
            }
            end += 1;
        }
        if last_start <= 1 {
            return Ok(None);
        }
        self.rebuild_slots(last_start)?;
        let kept_last = self.entry(last_start - 1)?;
        let words = self.words()?;
        words.set_i32(NEXT_ENTRY, last_start);
        words.set_i64(END_PHYSICAL, kept_last.physical_offset);
        words.set_i64(END_TIMESTAMP, begin.saturating_add(i64::from(kept_last.seconds) * 1000));
        // The position of the first entry that is not kept is in doubt, too, so it is not used.
        Ok(Some(kept_last.physical_offset))
    }

    fn rebuild_slots(&self, next_entry: i32) -> Result<()> {
        let slots_end = HEADER_LEN + u64::from(self.slots) * SLOT_LEN;
        // SAFETY: recovery runs before the store is shared.
        unsafe { self.file.bytes_mut(HEADER_LEN, (slots_end - HEADER_LEN) as usize)? }.fill(0);
        let words = self.words()?;
        let mut used = 0;
        for number in 1..next_entry {
            let slot = self.slot_pos(self.entry(number)?.hash);
            used += i32::from(words.i32(slot) == 0);
            words.set_i32(slot, number);
        }
        words.set_i32(SLOTS_USED, used);
        Ok(())
    }

    pub fn flush(&self) -> Result<()> {
        let used = self.entry_pos(self.next_entry()?);
        self.file.flush(0, used)
    }
}

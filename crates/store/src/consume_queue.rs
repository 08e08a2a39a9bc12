//! Queue of a topic: 20-byte units that point into the commit log; unit k describes the message with queue offset k.
//!
//! ```text
//! physical_offset i64 | size i32 | tags_code i64        valid when physical_offset ≥ 0 and size > 0
//! 0               i64 | i32::MAX | 0                    pre-blank: stands for a message that is not here
//! ```
//! Units are written in commit-log order, so physical offsets rise along a queue; searches rely on it. `max` is
//! published after the unit's bytes; readers take `max` first and read only below it. A queue may begin in the middle,
//! because its older messages are on another broker or expired. Then the units before its first one in that file are
//! pre-blanks.

use std::fs::File;
use std::path::PathBuf;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use wire::record::MIN_LEN;

use crate::error::{Result, StoreError};
use crate::file_sequence::FileSequence;
use crate::locks::Whole;
use crate::mapped_file::{MappedFile, PAGE};

pub(crate) const UNIT_LEN: u64 = 20;
/// Upper bound of queue offsets: no unit lies further along a queue than files have bytes.
const MAX_OFFSET: i64 = i64::MAX / UNIT_LEN as i64;
/// Number of bytes by which blocks of a queue file are reserved: small, because most queues of most stores are small.
const RESERVE_STRIDE: u64 = 64 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit {
    pub physical_offset: i64,
    pub size: i32,
    pub tags_code: i64,
}

impl Unit {
    pub(crate) const PRE_BLANK: Unit = Unit { physical_offset: 0, size: i32::MAX, tags_code: 0 };

    #[inline]
    pub(crate) fn decode(bytes: &[u8]) -> Unit {
        Unit {
            physical_offset: i64::from_be_bytes(bytes[0..8].try_into().expect("8 bytes")),
            size: i32::from_be_bytes(bytes[8..12].try_into().expect("4 bytes")),
            tags_code: i64::from_be_bytes(bytes[12..20].try_into().expect("8 bytes")),
        }
    }

    #[inline]
    fn encode(&self, out: &mut [u8]) {
        out[0..8].copy_from_slice(&self.physical_offset.to_be_bytes());
        out[8..12].copy_from_slice(&self.size.to_be_bytes());
        out[12..20].copy_from_slice(&self.tags_code.to_be_bytes());
    }

    pub(crate) fn is_valid(&self) -> bool {
        self.physical_offset >= 0 && self.size > 0
    }

    pub(crate) fn is_pre_blank(&self) -> bool {
        *self == Unit::PRE_BLANK
    }

    pub(crate) fn end(&self) -> i64 {
        self.physical_offset + i64::from(self.size)
    }
}

/// Result of adding a message that was found in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rebuilt {
    Added,
    Known,
    Impossible,
}

#[derive(Debug)]
pub(crate) struct ConsumeQueue {
    pub topic: Box<str>,
    pub queue_id: i32,
    pub files: FileSequence,
    /// First and next queue offset.
    min: AtomicI64,
    max: AtomicI64,
    /// End of the last message in this queue, −1 without messages.
    max_physical: AtomicI64,
    flushed_bytes: AtomicU64,
    /// File being written, cached for the writer.
    tail: Mutex<Option<Arc<MappedFile>>>,
}

impl ConsumeQueue {
    pub fn new(topic: &str, queue_id: i32, files: FileSequence) -> ConsumeQueue {
        ConsumeQueue {
            topic: topic.into(),
            queue_id,
            files,
            min: AtomicI64::new(0),
            max: AtomicI64::new(0),
            max_physical: AtomicI64::new(-1),
            flushed_bytes: AtomicU64::new(0),
            tail: Mutex::new(None),
        }
    }

    pub fn dir(root: &std::path::Path, topic: &str, queue_id: i32) -> PathBuf {
        root.join("consumequeue").join(topic).join(queue_id.to_string())
    }

    pub fn min(&self) -> i64 {
        self.min.load(Ordering::Acquire)
    }

    #[inline]
    pub fn max(&self) -> i64 {
        self.max.load(Ordering::Acquire)
    }

    pub fn max_physical(&self) -> i64 {
        self.max_physical.load(Ordering::Acquire)
    }

    /// Does every step of writing the next `count` units that can fail, before the commit log is changed.
    #[inline]
    pub fn prepare(&self, count: u64) -> Result<()> {
        let from = self.max() as u64 * UNIT_LEN;
        let mut tail = self.tail.lock().whole();
        self.file_for(&mut tail, from)?;
        let last_byte = from + count * UNIT_LEN - 1;
        let file = tail.as_ref().expect("just set");
        file.reserve((last_byte + 1).min(file.end()) - file.start, RESERVE_STRIDE)?;
        if last_byte >= file.end() {
            // The units cross into later files: create them now; the writer finds them in the sequence.
            let mut next = file.end();
            while next <= last_byte {
                if self.files.file_at(next).is_none() {
                    self.files.push(self.files.make(next)?);
                }
                let file = self.files.file_at(next).expect("just made");
                file.reserve((last_byte + 1).min(file.end()) - file.start, RESERVE_STRIDE)?;
                next += self.files.file_size;
            }
        }
        Ok(())
    }

    fn file_for(&self, tail: &mut Option<Arc<MappedFile>>, byte: u64) -> Result<()> {
        if tail.as_ref().is_some_and(|file| file.start <= byte && byte < file.end()) {
            return Ok(());
        }
        if self.files.file_at(byte).is_none() {
            let start = byte / self.files.file_size * self.files.file_size;
            self.files.push(self.files.make(start)?);
        }
        *tail = self.files.file_at(byte);
        Ok(())
    }

    /// Appends the unit of the message that was given queue offset `max()`.
    #[inline]
    pub fn push(&self, unit: Unit) -> Result<()> {
        let max = self.max();
        let byte = max as u64 * UNIT_LEN;
        let mut tail = self.tail.lock().whole();
        self.file_for(&mut tail, byte)?;
        let file = tail.as_ref().expect("just set");
        file.reserve(byte - file.start + UNIT_LEN, RESERVE_STRIDE)?;
        // SAFETY: only the holder of the append lock pushes, and `max` has not been published past this unit.
        unit.encode(unsafe { file.bytes_mut(byte - file.start, UNIT_LEN as usize)? });
        self.max_physical.store(unit.end(), Ordering::Release);
        self.max.store(max + 1, Ordering::Release);
        Ok(())
    }

    /// Adds the unit of a message found in the log unless the queue already has it, or it cannot be at this offset.
    pub fn rebuild(&self, unit: Unit, queue_offset: i64) -> Result<Rebuilt> {
        if unit.end() <= self.max_physical() || queue_offset < self.max() {
            return Ok(Rebuilt::Known);
        }
        if queue_offset > MAX_OFFSET || queue_offset - self.max() > self.most_before(&unit) {
            return Ok(Rebuilt::Impossible);
        }
        if self.files.is_empty() {
            let first_in_file = queue_offset as u64 * UNIT_LEN / self.files.file_size * self.files.file_size / UNIT_LEN;
            self.max.store(first_in_file as i64, Ordering::Release);
            self.min.store(queue_offset, Ordering::Release);
            self.flushed_bytes.store(first_in_file * UNIT_LEN, Ordering::Release);
        }
        while self.max() < queue_offset {
            let before = self.max_physical();
            self.push(Unit::PRE_BLANK)?;
            self.max_physical.store(before, Ordering::Release);
        }
        self.push(unit)?;
        Ok(Rebuilt::Added)
    }

    /// Returns the number of messages of this queue for which the log has room between the last one here and `unit`.
    fn most_before(&self, unit: &Unit) -> i64 {
        match self.max_physical() {
            ..0 => i64::MAX,
            end => (unit.physical_offset - end) / MIN_LEN as i64,
        }
    }

    /// Returns the units from `queue_offset` to the end of the file that holds it, as raw bytes; the caller stays below
    /// `max()`.
    #[inline]
    pub fn run_at(&self, queue_offset: i64, max: i64) -> Result<Option<(Arc<MappedFile>, u64, u64)>> {
        let byte = queue_offset as u64 * UNIT_LEN;
        let Some(file) = self.files.file_at(byte) else { return Ok(None) };
        let pos = byte - file.start;
        let len = (file.size - pos).min((max as u64 * UNIT_LEN).saturating_sub(byte));
        Ok(Some((file, pos, len)))
    }

    pub fn unit(&self, queue_offset: i64) -> Result<Option<Unit>> {
        if queue_offset < 0 || queue_offset >= self.max() {
            return Ok(None);
        }
        let byte = queue_offset as u64 * UNIT_LEN;
        match self.files.file_at(byte) {
            Some(file) => Ok(Some(Unit::decode(file.bytes(byte - file.start, UNIT_LEN as usize)?))),
            None => Ok(None),
        }
    }

    /// Like `unit`, without mapping the file and without regard to `max`.
    pub fn peek(&self, file: &MappedFile, open: &File, index: u64) -> Result<Unit> {
        let mut bytes = [0u8; UNIT_LEN as usize];
        file.read_at(open, index * UNIT_LEN, &mut bytes)?;
        Ok(Unit::decode(&bytes))
    }

    /// Returns the first of the leading `count` units of `file` for which `past` is true, by bisection; `past` must
    /// then be true for all later units.
    pub fn bisect(&self, file: &MappedFile, count: u64, past: impl Fn(&Unit) -> bool) -> Result<u64> {
        let open = file.open_for_reading()?;
        let (mut low, mut high) = (0, count);
        while low < high {
            let mid = (low + high) / 2;
            if past(&self.peek(file, &open, mid)?) { high = mid } else { low = mid + 1 }
        }
        Ok(low)
    }

    /// Sets `max` as the end of the queue; units behind it are erased, files behind it deleted.
    pub fn set_end(&self, max: i64, max_physical: i64) -> Result<()> {
        *self.tail.lock().whole() = None;
        let first = self.files.first().map_or(0, |file| file.start);
        let end = max as u64 * UNIT_LEN;
        if end <= first {
            self.files.drop_all()?;
        } else if self.files.last().is_some_and(|last| self.has_units_behind(&last, end).unwrap_or(true)) {
            self.files.cut(end)?;
        }
        self.max.store(if end <= first { 0 } else { max }, Ordering::Release);
        self.max_physical.store(max_physical, Ordering::Release);
        self.flushed_bytes.store(end, Ordering::Release);
        if end <= first {
            self.min.store(0, Ordering::Release);
        }
        Ok(())
    }

    fn has_units_behind(&self, last: &MappedFile, end: u64) -> Result<bool> {
        if last.start >= end {
            return Ok(true);
        }
        if end >= last.end() {
            return Ok(false);
        }
        let next = self.peek(last, &last.open_for_reading()?, (end - last.start) / UNIT_LEN)?;
        Ok(next != Unit { physical_offset: 0, size: 0, tags_code: 0 })
    }

    /// Moves `min` to the first message at or behind `min_physical`, or to the end if there is none. So readers are not
    /// sent to messages that are gone (Java leaves `min` where it was).
    pub fn correct_min(&self, min_physical: i64) -> Result<()> {
        let max = self.max();
        let mut min = max;
        for file in self.files.all() {
            let written = ((max as u64 * UNIT_LEN).clamp(file.start, file.end()) - file.start) / UNIT_LEN;
            if let Some(index) = self.first_from(&file, written, min_physical)? {
                min = (file.start / UNIT_LEN + index) as i64;
                break;
            }
        }
        self.min.store(min, Ordering::Release);
        Ok(())
    }

    /// Returns the first of the leading `count` units of `file` that leads to `min_physical` or beyond, by bisection.
    /// Units without a message have no physical offset to compare (blanks also stand for damaged messages, anywhere),
    /// so the next unit with a message is used instead.
    fn first_from(&self, file: &MappedFile, count: u64, min_physical: i64) -> Result<Option<u64>> {
        let open = file.open_for_reading()?;
        let (mut low, mut high) = (0, count);
        let mut found = None;
        while low < high {
            let mid = (low + high) / 2;
            match self.next_message(file, &open, mid, high) {
                Some((index, unit)) if unit.physical_offset < min_physical => low = index + 1,
                at_or_behind => {
                    found = at_or_behind.map(|(index, _)| index).or(found);
                    high = mid;
                }
            }
        }
        Ok(found)
    }

    /// Returns the first unit of `[from, to)` that has a message, and its index in the file.
    fn next_message(&self, file: &MappedFile, open: &File, from: u64, to: u64) -> Option<(u64, Unit)> {
        let mut buffer = [0u8; 200 * UNIT_LEN as usize];
        let mut index = from;
        // Usually the first unit has a message.
        let mut count = 1;
        while index < to {
            let bytes = &mut buffer[..(count.min(to - index) * UNIT_LEN) as usize];
            if file.read_at(open, index * UNIT_LEN, bytes).is_err() {
                // Units on an unreadable page are skipped.
                (index, count) = (index + 1, 1);
                continue;
            }
            for bytes in bytes.chunks_exact(UNIT_LEN as usize) {
                let unit = Unit::decode(bytes);
                if unit.is_valid() && !unit.is_pre_blank() {
                    return Some((index, unit));
                }
                index += 1;
            }
            count = 200;
        }
        None
    }

    /// Returns the last unit of a file that has a message.
    fn last_message(&self, file: &MappedFile) -> Result<Option<Unit>> {
        let open = file.open_for_reading()?;
        for index in (0..file.size / UNIT_LEN).rev() {
            // An unreadable unit is treated like a message that is still in the log.
            let Ok(unit) = self.peek(file, &open, index) else { return Ok(None) };
            if !unit.is_pre_blank() {
                return Ok(Some(unit).filter(Unit::is_valid));
            }
        }
        Ok(None)
    }

    /// Deletes files whose messages have all left the log; the last file stays, and so does a file that is not full yet
    /// although the next one was created. Returns the number of deleted files.
    pub fn drop_expired(&self, min_physical: i64) -> Result<usize> {
        let mut dropped = 0;
        loop {
            let files = self.files.all();
            let [first, _, ..] = files.as_slice() else { return Ok(dropped) };
            if self.last_message(first)?.is_none_or(|last| last.physical_offset >= min_physical) {
                return Ok(dropped);
            }
            self.files.drop_first()?;
            dropped += 1;
        }
    }

    pub fn dirty_pages(&self) -> u64 {
        (self.max() as u64 * UNIT_LEN).saturating_sub(self.flushed_bytes.load(Ordering::Acquire)).div_ceil(PAGE)
    }

    /// Writes all published units to disk.
    pub fn flush(&self) -> Result<()> {
        let to = self.max() as u64 * UNIT_LEN;
        let mut from = self.flushed_bytes.load(Ordering::Acquire);
        while from < to {
            let Some(file) = self.files.file_at(from) else { break };
            let end = to.min(file.end());
            file.flush(from - file.start, end - file.start)?;
            file.check_readable(from - file.start, end - from)?;
            from = end;
        }
        self.flushed_bytes.store(to, Ordering::Release);
        Ok(())
    }
}

/// Rejects names that would leave the store directory or break its layout.
pub(crate) fn check_name(topic: &str, queue_id: i32) -> Result<()> {
    let refuse = |reason: String| Err(StoreError::InvalidMessage { reason });
    if topic.is_empty() || topic == "." || topic == ".." || topic.contains(['/', '\0']) {
        return refuse(format!("topic {topic:?} cannot name a directory"));
    }
    if queue_id < 0 {
        return refuse(format!("queue id {queue_id} of topic {topic} is negative"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates a queue with eight units to a file.
    fn queue(dir: &tempfile::TempDir) -> ConsumeQueue {
        ConsumeQueue::new("T", 0, FileSequence::empty(dir.path().join("T/0"), 8 * UNIT_LEN))
    }

    fn unit(physical_offset: i64) -> Unit {
        Unit { physical_offset, size: 100, tags_code: 0 }
    }

    #[test]
    fn blanks_in_the_middle_hide_no_message_and_keep_no_file() {
        let dir = tempfile::tempdir().expect("directory");
        for blanks in 1..8i64 {
            for first_blank in 0..20 - blanks {
                let queue = ConsumeQueue::new(
                    "T",
                    0,
                    FileSequence::empty(dir.path().join(format!("T/{blanks}-{first_blank}")), 8 * UNIT_LEN),
                );
                let is_blank = |i: i64| i >= first_blank && i < first_blank + blanks;
                for i in 0..20 {
                    queue.push(if is_blank(i) { Unit::PRE_BLANK } else { unit(1000 + i * 100) }).expect("push");
                }
                for expired in 0..20 {
                    queue.correct_min(1000 + expired * 100).expect("correct");
                    let expected = (expired..20).find(|&i| !is_blank(i)).unwrap_or(20);
                    assert_eq!(queue.min(), expected, "{blanks} blanks from {first_blank}, {expired} expired");
                }
                let dropped = queue.drop_expired(1000 + 8 * 100).expect("drop");
                // A file of only blanks does not show what comes behind it.
                assert_eq!(dropped, usize::from((0..8).any(|i| !is_blank(i))), "{blanks} blanks from {first_blank}");
            }
        }
    }

    #[test]
    fn a_file_that_is_not_full_stays_though_the_next_one_is_there() {
        let dir = tempfile::tempdir().expect("directory");
        let queue = queue(&dir);
        (0..7).for_each(|i| queue.push(unit(1000 + i * 100)).expect("push"));
        queue.prepare(2).expect("prepare"); // for a batch that is then rejected
        assert_eq!(queue.files.all().len(), 2);
        assert_eq!(queue.drop_expired(1000).expect("drop"), 0);
        assert_eq!(queue.unit(6).expect("unit"), Some(unit(1600)));
        queue.push(unit(1700)).expect("push");
        assert_eq!(queue.drop_expired(1700).expect("drop"), 0);
        assert_eq!(queue.drop_expired(1701).expect("drop"), 1);
    }
}

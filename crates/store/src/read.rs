//! Reads of a queue: the messages from a queue offset on, as slices of the mapped log.
//!
//! The rules are those of Java's `getMessage`: a result never crosses the end of one queue file and stops before a
//! message that would exceed a limit (the first message is always returned). It contains the offset to continue at.
//! Reads far behind the end of the log have limits of their own, because those pages probably come from the disk. One
//! rule is not Java's: a result never skips messages that expired during the read (see `clean`).

use std::sync::Arc;

use wire::filter::{Filter, Verdict};
use wire::record::{Lead, lead};
use wire::{Crc, Record};

use crate::consume_queue::{UNIT_LEN, Unit};
use crate::error::{Result, StoreError};
use crate::flush::Durable;
use crate::mapped_file::MappedFile;

/// Minimum number of units examined: Java examines at least 16 000 bytes of units, so that a selective filter makes
/// progress.
const LEAST_UNITS: usize = 800;

/// Limit of the cost of the filter in one read, in steps of some nanoseconds each. A read with a costly filter ends
/// earlier and returns the offset to continue at, so that one consumer does not make the others wait.
const FILTER_STEPS: u32 = 1 << 19;

#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub max_messages: usize,
    pub max_bytes: usize,
}

#[derive(Clone, Copy, Debug)]
pub struct ReadRequest<'a> {
    pub topic: &'a str,
    pub queue_id: i32,
    pub offset: i64,
    pub max_messages: usize,
    pub in_memory: Limits,
    pub on_disk: Limits,
    /// Messages farther than this behind the end of the log count as on disk.
    pub memory_bytes: i64,
    /// If given, only messages whose tags code is one of these are returned.
    pub tags_codes: Option<&'a [i64]>,
    /// If given, only messages whose properties match this selector are returned.
    pub filter: Option<&'a Filter>,
    /// If given, the read fails with `NotResident` rather than wait for the disk. Messages within this many bytes of
    /// the log's end are known to be in memory and are not checked.
    pub resident_beyond: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadStatus {
    Found,
    NoMessageInQueue,
    OffsetTooSmall,
    OffsetOverflowOne,
    OffsetOverflowBadly,
    OffsetFoundNull,
    NoMatchedMessage,
    MessageWasRemoving,
    /// Only for reads with `resident_beyond`: repeat the read in a thread that may wait for the disk.
    NotResident,
}

/// Position of one record: index into the files of the result, position in the file, length.
#[derive(Clone, Copy, Debug)]
struct Slice {
    file: u32,
    len: u32,
    pos: u64,
}

#[derive(Debug)]
pub struct ReadResult {
    pub status: ReadStatus,
    pub next_offset: i64,
    pub min_offset: i64,
    pub max_offset: i64,
    pub bytes: usize,
    /// Distance of the last examined message from the end of the log.
    pub behind_bytes: i64,
    files: Vec<Arc<MappedFile>>,
    slices: Vec<Slice>,
}

impl ReadResult {
    fn without_messages(status: ReadStatus, next_offset: i64, min_offset: i64, max_offset: i64) -> ReadResult {
        ReadResult {
            status,
            next_offset,
            min_offset,
            max_offset,
            bytes: 0,
            behind_bytes: 0,
            files: Vec::new(),
            slices: Vec::new(),
        }
    }

    fn too_small(min_offset: i64, max_offset: i64) -> ReadResult {
        ReadResult::without_messages(ReadStatus::OffsetTooSmall, min_offset, min_offset, max_offset)
    }

    pub fn len(&self) -> usize {
        self.slices.len()
    }

    pub fn is_empty(&self) -> bool {
        self.slices.is_empty()
    }

    /// Returns the records as they are stored in the log; they stay readable as long as this result lives. A unit that
    /// does not lead to a record of its size is an error here, where the bytes are read for the first time. So no
    /// garbage reaches a consumer.
    pub fn records(&self) -> impl Iterator<Item = Result<&[u8]>> {
        self.slices.iter().map(|slice| whole_record(&self.files[slice.file as usize], slice.pos, slice.len))
    }

    /// Appends all records one after the other, as the body of a pull response contains them.
    pub fn copy_into(&self, out: &mut Vec<u8>) -> Result<()> {
        out.reserve(self.bytes);
        for record in self.records() {
            out.extend_from_slice(record?);
        }
        Ok(())
    }

    #[inline]
    fn push(&mut self, file: &Arc<MappedFile>, pos: u64, len: u32) {
        if self.files.last().is_none_or(|last| !Arc::ptr_eq(last, file)) {
            self.files.push(file.clone());
        }
        self.slices.push(Slice { file: self.files.len() as u32 - 1, len, pos });
        self.bytes += len as usize;
    }
}

impl Durable {
    pub fn read(&self, request: &ReadRequest<'_>) -> Result<ReadResult> {
        let offset = request.offset;
        let Some(queue) = self.queues.get(request.topic, request.queue_id) else {
            return Ok(ReadResult::without_messages(ReadStatus::NoMessageInQueue, 0, 0, 0));
        };
        let (min, max) = (queue.min(), queue.max());
        let (status, next) = match offset {
            _ if max == 0 => (ReadStatus::NoMessageInQueue, 0),
            _ if offset < min => (ReadStatus::OffsetTooSmall, min),
            _ if offset == max => (ReadStatus::OffsetOverflowOne, offset),
            _ if offset > max => (ReadStatus::OffsetOverflowBadly, max),
            _ => (ReadStatus::NoMatchedMessage, offset),
        };
        let mut result = ReadResult::without_messages(status, next, min, max);
        if status != ReadStatus::NoMatchedMessage {
            return Ok(result);
        }
        let Some((file, pos, len)) = queue.run_at(offset, max)? else {
            if queue.min() > offset {
                return Ok(ReadResult::too_small(queue.min(), max));
            }
            let units_per_file = (queue.files.file_size / UNIT_LEN) as i64;
            result.status = ReadStatus::OffsetFoundNull;
            result.next_offset = offset - offset % units_per_file + units_per_file;
            return Ok(result);
        };
        // Most readers are near the end of their queue, whose units were written a moment ago.
        let most_units = request.max_messages.max(LEAST_UNITS) as u64;
        let far_behind = (max - offset) as u64 > most_units;
        let looked_at = len.min(most_units * UNIT_LEN);
        if request.resident_beyond.is_some() && far_behind && file.resident_len(pos, looked_at)? < looked_at {
            result.status = ReadStatus::NotResident;
            return Ok(result);
        }
        let mut removed = self.collect(request, file.unchecked_bytes(pos, looked_at as usize)?, &mut result);
        let readable = file.readable_len(pos, looked_at) / UNIT_LEN * UNIT_LEN;
        if readable < looked_at {
            // The units before the unreadable page are enough for a result.
            file.check_readable(pos, readable.max(UNIT_LEN))?;
            result = ReadResult::without_messages(status, next, min, max);
            removed = self.collect(request, file.bytes(pos, readable as usize)?, &mut result);
        }
        let removed = removed?;
        // The minimum of a queue is corrected before its messages are deleted, so it shows whether they were deleted
        // just now.
        if removed && queue.min() > offset {
            return Ok(ReadResult::too_small(queue.min(), max));
        }
        Ok(result)
    }

    /// Adds the found records to the result. Returns true if a record that a unit points to is not in the log.
    fn collect(&self, request: &ReadRequest<'_>, units: &[u8], result: &mut ReadResult) -> Result<bool> {
        let most_units = request.max_messages.max(LEAST_UNITS);
        let log_end = self.log.max() as i64;
        result.slices.reserve(request.max_messages.min(request.in_memory.max_messages).min(units.len() / 20));
        let mut current: Option<Arc<MappedFile>> = None;
        let mut skip_below = 0i64;
        let mut examined = 0;
        let mut removed = false;
        let mut resident = Resident::default();
        let mut filter_steps = 0u32;
        for bytes in units.chunks_exact(UNIT_LEN as usize).take(most_units) {
            let unit = Unit::decode(bytes);
            if unit.physical_offset < skip_below || unit.is_pre_blank() {
                examined += 1;
                continue;
            }
            result.behind_bytes = log_end - unit.physical_offset;
            let limits = if result.behind_bytes > request.memory_bytes { &request.on_disk } else { &request.in_memory };
            if !result.slices.is_empty()
                && (result.slices.len() >= request.max_messages.min(limits.max_messages)
                    || result.bytes + unit.size as usize > limits.max_bytes)
            {
                break;
            }
            if filter_steps > FILTER_STEPS {
                break;
            }
            examined += 1;
            if request.tags_codes.is_some_and(|codes| !codes.contains(&unit.tags_code)) && !unit.is_extended() {
                continue;
            }
            let offset = unit.physical_offset as u64;
            if current.as_ref().is_none_or(|file| offset < file.start || offset >= file.end()) {
                current = self.log.files.file_at(offset);
            }
            match &current {
                Some(file) => {
                    let behind = result.behind_bytes;
                    if request.resident_beyond.is_some_and(|known| behind > known)
                        && !resident.holds(file, offset - file.start, unit.size as u64)?
                    {
                        if result.slices.is_empty() {
                            result.status = ReadStatus::NotResident;
                            return Ok(removed);
                        }
                        // The records found so far are enough for a result; the rest is for the next read.
                        examined -= 1;
                        break;
                    }
                    if let Some(codes) = request.tags_codes.filter(|_| unit.is_extended()) {
                        let record = whole_record(file, offset - file.start, unit.size as u32)?;
                        if !codes.contains(&self.tags_code_of(record, unit.physical_offset)?) {
                            continue;
                        }
                    }
                    if let Some(filter) = request.filter {
                        let record = whole_record(file, offset - file.start, unit.size as u32)?;
                        let (wanted, steps) = is_wanted(filter, record);
                        filter_steps = filter_steps.saturating_add(steps);
                        if !wanted {
                            continue;
                        }
                    }
                    result.push(file, offset - file.start, unit.size as u32);
                }
                None => {
                    // Expired: the rest of that log file is gone, too.
                    removed = true;
                    skip_below = (offset - offset % self.log.files.file_size + self.log.files.file_size) as i64;
                }
            }
        }
        result.next_offset = request.offset + examined;
        result.status = match (result.slices.is_empty(), removed) {
            (false, _) => ReadStatus::Found,
            (true, true) => ReadStatus::MessageWasRemoving,
            (true, false) => ReadStatus::NoMatchedMessage,
        };
        Ok(removed)
    }
}

/// Part of a file that is known to be in memory. Records of one queue lie near each other, so one check serves many of
/// them.
#[derive(Default)]
struct Resident {
    file_start: u64,
    from: u64,
    to: u64,
}

impl Resident {
    /// Number of bytes checked beyond a record, for the records that follow.
    const AHEAD: u64 = 192 << 10;

    fn holds(&mut self, file: &MappedFile, pos: u64, len: u64) -> Result<bool> {
        if file.start != self.file_start || pos < self.from || pos + len > self.to {
            let mut seen = file.resident_len(pos, len + Self::AHEAD)?;
            while seen > 0 && seen < len {
                // The record is longer than one check covers.
                let more = file.resident_len(pos + seen, len - seen)?;
                if more == 0 {
                    break;
                }
                seen += more;
            }
            *self = Resident { file_start: file.start, from: pos, to: pos + seen };
        }
        Ok(pos + len <= self.to)
    }
}

/// True if the filter matches the record, and the number of steps that the filter took.
fn is_wanted(filter: &Filter, record: &[u8]) -> (bool, u32) {
    Record::decode(record, Crc::Trust).map_or((false, 1), |(record, _)| {
        let (verdict, steps) = filter.judge(record.properties);
        (verdict == Verdict::True, steps)
    })
}

#[inline]
fn whole_record(file: &MappedFile, pos: u64, len: u32) -> Result<&[u8]> {
    let damaged = |reason: String| StoreError::Corrupt { path: file.path.clone(), offset: file.start + pos, reason };
    if u64::from(len) > file.size - pos {
        return Err(damaged(format!("a queue points to a record of {len} bytes past the end of the file")));
    }
    let bytes = file.bytes(pos, len as usize)?;
    match lead(bytes) {
        Lead::Message { total_size } if total_size == bytes.len() => Ok(bytes),
        _ => Err(damaged(format!("a queue points to a record of {len} bytes here, there is none"))),
    }
}

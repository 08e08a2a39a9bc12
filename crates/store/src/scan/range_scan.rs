//! Records in byte ranges of the log.
//!
//! A record belongs to the range in which it begins. A range that begins at a record (`aligned`) is read from there;
//! any other range is searched for its first record, so a log can be cut into ranges at any byte. Together the ranges
//! of a cut give every record once.
//!
//! There are four kinds of damage. (1) The parts of a record add up, but its body does not match its checksum, or its
//! text is not UTF-8. The record is left out, and the next one is at the position that follows from its size. (2) Where
//! no readable record begins, or the disk cannot read a page, the next record is searched for. (3) Where a file is
//! missing, reading continues with the next file; files that are missing before the first one have expired and are not
//! damage. (4) A file that expires after the scan was planned is damage for each range that includes a part of it.
//!
//! Each damage is counted by the range in which it begins. For that purpose a range also reads the place behind its
//! last record: the next range cannot detect that it begins in the middle of a record.

use std::collections::VecDeque;
use std::sync::Arc;

use wire::crc::body_crc;
use wire::record::{Lead, RecordError, check_size, lead, physical_offset};
use wire::{Crc, Record};

use super::damage::{Damage, NAMED, ScanReport};
use super::log_files::{LogFile, holding};
use super::log_ranges::LogRange;
use super::window::Window;
use crate::error::{Result, StoreError};

const CRC_AT: usize = 8;

/// Result of visiting a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// Continue with the next record.
    Next,
    /// The record was taken, but pause the scan now.
    Pause,
    /// The record is damaged in a way that only the visitor could detect.
    Damaged(String),
}

/// Whole record with its bytes in the log.
pub struct Visit<'a> {
    pub record: &'a Record<'a>,
    pub size: usize,
}

#[derive(Debug)]
pub struct RangeScan {
    files: Arc<[LogFile]>,
    /// End of the log; bytes behind it are not part of the log.
    log_end: u64,
    crc: Crc,
    ranges: VecDeque<LogRange>,
    current: Option<Current>,
    report: ScanReport,
}

#[derive(Debug)]
struct Current {
    window: Window,
    position: u64,
    end: u64,
}

enum Met {
    Passed(u64),
    Stopped(u64),
    EndOfFile,
    Broken(String),
}

impl RangeScan {
    pub fn new(files: impl Into<Arc<[LogFile]>>, log_end: u64, ranges: Vec<LogRange>, crc: Crc) -> RangeScan {
        let (ranges, report) = (ranges.into(), ScanReport::default());
        RangeScan { files: files.into(), log_end, crc, ranges, current: None, report }
    }

    pub fn report(&self) -> &ScanReport {
        &self.report
    }

    /// Returns the first damage as an error that names its file, for callers that stop at damage.
    pub fn first_damage(&self) -> Option<StoreError> {
        Some(self.report.damages.first()?.error(&self.files))
    }

    /// Calls `visit` with records until it returns a pause, which keeps the position. Returns true after a pause, false
    /// when all ranges are read.
    pub fn run<E: From<StoreError>>(
        &mut self,
        mut visit: impl FnMut(Visit<'_>) -> std::result::Result<Seen, E>,
    ) -> std::result::Result<bool, E> {
        while self.advance()? {
            let current = self.current.as_mut().expect("advance found one");
            while current.position < current.end {
                if self.report.names_all && self.report.damages.len() >= NAMED {
                    return Ok(true);
                }
                let met = meet(&mut current.window, current.position, self.crc, &mut self.report, &mut visit)?;
                match met {
                    Met::Passed(next) => current.position = next,
                    Met::Stopped(next) => {
                        current.position = next;
                        return Ok(true);
                    }
                    Met::EndOfFile => current.position = current.window.limit(),
                    Met::Broken(reason) => {
                        current.position = skip_damage(&mut current.window, current.position, reason, &mut self.report)?
                    }
                }
            }
            look_behind(current, self.crc, &mut self.report)?;
            self.current = None;
        }
        Ok(false)
    }

    /// Reads on and returns the next damages; empty when all ranges are read. With this method every damage is named,
    /// within bounded memory.
    pub fn next_damages<E: From<StoreError>>(
        &mut self,
        visit: impl FnMut(Visit<'_>) -> std::result::Result<Seen, E>,
    ) -> std::result::Result<Vec<Damage>, E> {
        self.report.names_all = true;
        self.run(visit)?;
        Ok(std::mem::take(&mut self.report.damages))
    }

    /// Makes `current` the range to continue with; returns false when there is none left.
    fn advance(&mut self) -> Result<bool> {
        while self.current.is_none() {
            let Some(range) = self.ranges.pop_front() else { return Ok(false) };
            let Some(log_file) = holding(&self.files, range.start) else {
                self.pass_gap(range);
                continue;
            };
            if range.end > log_file.end() {
                self.ranges.push_front(LogRange { start: log_file.end(), aligned: true, ..range });
            }
            let mut window = match Window::open(log_file, self.log_end) {
                Err(error) if error.is_absence() => {
                    log_file.check_directory()?;
                    let end = range.end.min(log_file.end()).min(self.log_end);
                    self.report.note(Damage::deleted(&self.files, range.start, end));
                    continue;
                }
                opened => opened?,
            };
            let end = range.end.min(window.limit());
            let position = match range.aligned || range.start == log_file.start {
                true => Some(range.start),
                false => window.find_record(range.start, end)?,
            };
            self.current = position.map(|position| Current { window, position, end });
        }
        Ok(true)
    }

    /// Handles a range whose beginning is in no file: continues with the next file that the range reaches.
    fn pass_gap(&mut self, range: LogRange) {
        let after = self.files.partition_point(|file| file.start <= range.start);
        // Behind the last file there is no log; before the first file the log has expired.
        let Some(next) = self.files.get(after) else { return };
        if after > 0 && self.files[after - 1].end() == range.start {
            self.report.note(Damage::gap(range.start, next.start));
        }
        if next.start < range.end {
            self.ranges.push_front(LogRange { start: next.start, aligned: true, ..range });
        }
    }
}

/// Reads the bytes at `position` and calls `visit` if they are a whole record.
fn meet<E: From<StoreError>>(
    window: &mut Window,
    position: u64,
    crc: Crc,
    report: &mut ScanReport,
    visit: &mut impl FnMut(Visit<'_>) -> std::result::Result<Seen, E>,
) -> std::result::Result<Met, E> {
    let left = window.limit().min(window.log_file.end()) - position;
    let file_left = window.log_file.end() - position;
    if let Some(at) = window.unreadable_in_record(position)? {
        return Ok(Met::Broken(format!("the disk cannot read the page at {at}")));
    }
    let bytes = window.record_bytes(position)?;
    match lead(bytes) {
        Lead::Message { .. } => {}
        Lead::Blank { total_size } if total_size as u64 >= file_left => return Ok(Met::EndOfFile),
        // Fewer bytes than a BLANK needs are left only if a file was cut.
        _ => return Ok(Met::Broken(nothing_here(bytes, left))),
    }
    if let Some(claimed) = physical_offset(bytes).filter(|claimed| *claimed != position as i64) {
        return Ok(Met::Broken(format!("a record that says it stands at {claimed}")));
    }
    // Check the structure first: a record whose body alone is damaged still shows where the next one begins.
    let (record, size) = match Record::decode(bytes, Crc::Trust) {
        Ok(whole) => whole,
        Err(error @ RecordError::NotUtf8 { total_size, .. }) => {
            report.note_record(position, total_size as u64, error.to_string(), None);
            return Ok(Met::Passed(position + total_size as u64));
        }
        // Prefer the error of a record whose size is impossible; the missing bytes are then only its consequence.
        Err(error) => return Ok(Met::Broken(check_size(bytes).err().unwrap_or(error).to_string())),
    };
    let next = position + size as u64;
    if crc == Crc::Verify && !record.body.is_empty() {
        let stored = bytes[CRC_AT..].first_chunk().map_or(0, |crc| u32::from_be_bytes(*crc));
        let computed = body_crc(record.body);
        if stored != computed {
            let place = Some((record.topic.to_string(), record.queue_id, record.queue_offset));
            report.note_record(position, size as u64, RecordError::WrongCrc { stored, computed }.to_string(), place);
            return Ok(Met::Passed(next));
        }
    }
    let seen = visit(Visit { record: &record, size })?;
    if let Seen::Damaged(reason) = seen {
        let place = Some((record.topic.to_string(), record.queue_id, record.queue_offset));
        report.note_record(position, size as u64, reason, place);
        return Ok(Met::Passed(next));
    }
    report.records += 1;
    report.bytes += size as u64;
    Ok(if seen == Seen::Pause { Met::Stopped(next) } else { Met::Passed(next) })
}

fn nothing_here(bytes: &[u8], left: u64) -> String {
    match bytes.first_chunk::<8>() {
        Some([0, 0, 0, 0, 0, 0, 0, 0]) => "zeros where a record should begin".into(),
        Some(head) => format!("no record begins with {head:02x?}"),
        None => format!("{left} bytes left, too few for a record"),
    }
}

/// Records the damage at `position` and returns the start of the next record, or the end of the readable part.
fn skip_damage(window: &mut Window, position: u64, reason: String, report: &mut ScanReport) -> Result<u64> {
    let limit = window.limit();
    let next = window.find_record(position + 1, limit)?.unwrap_or(limit);
    report.note_record(position, next - position, reason, None);
    Ok(next)
}

/// Reads the place behind a range's last record: damage that begins there is counted by this range.
fn look_behind(current: &mut Current, crc: Crc, report: &mut ScanReport) -> Result<()> {
    if current.position >= current.window.limit() {
        return Ok(());
    }
    let mut unseen = ScanReport::default();
    let met = meet::<StoreError>(&mut current.window, current.position, crc, &mut unseen, &mut |_| Ok(Seen::Next))?;
    if let Met::Broken(reason) = met {
        skip_damage(&mut current.window, current.position, reason, report)?;
    }
    Ok(())
}

//! Consume queue, read only: its end and its units.
//!
//! Behind the last unit there are zeros, or, where Java recovered, units of messages that are no longer in the log. So
//! the end found by bisection counts only if its last unit leads to the right message.

use std::fs::{self, File};
use std::path::Path;

use wire::record::{physical_offset, queue_offset};

use super::log_files::{LogFile, holding, list};
use super::window::Window;
use crate::consume_queue::{UNIT_LEN, Unit};
use crate::error::{Result, StoreError};

/// Maximum number of units by which to step back when the last ones lead to no message.
const STALE_LIMIT: u64 = 100_000;
/// Number of units read at once when a queue is walked.
const WALK_UNITS: usize = 3200;

#[derive(Clone, Debug)]
pub struct QueueFiles {
    pub topic: String,
    pub queue_id: i32,
    pub(crate) files: Vec<LogFile>,
}

/// End of a queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueueEnd {
    /// Queue offset behind the last unit that leads to its message.
    pub next: u64,
    /// Physical end of that message.
    pub physical_end: Option<u64>,
    /// Largest end of a message to which a unit behind that one leads: the message is damaged, its file is missing, or
    /// the unit is a leftover.
    pub doubtful_end: Option<u64>,
}

impl QueueFiles {
    /// Returns every queue below `consumequeue`, in the order of topics and ids; names that are not a queue id are
    /// skipped.
    pub fn of_store(root: &Path) -> Result<Vec<QueueFiles>> {
        let mut queues = Vec::new();
        for (topic, topic_dir) in directories(&root.join("consumequeue"))? {
            for (name, dir) in directories(&topic_dir)? {
                let Ok(queue_id) = name.parse::<i32>() else { continue };
                let files = list(&[dir])?;
                if !files.is_empty() {
                    queues.push(QueueFiles { topic: topic.clone(), queue_id, files });
                }
            }
        }
        queues.sort_by(|a, b| (&a.topic, a.queue_id).cmp(&(&b.topic, b.queue_id)));
        Ok(queues)
    }

    /// Returns the first queue offset that any file can hold.
    pub fn first(&self) -> u64 {
        self.files.first().map_or(0, |file| file.start / UNIT_LEN)
    }

    pub(crate) fn unit(&self, open: &mut OpenFile, offset: u64) -> Result<Option<Unit>> {
        let byte = offset * UNIT_LEN;
        let Some(file) = holding(&self.files, byte) else { return Ok(None) };
        let mut bytes = [0u8; UNIT_LEN as usize];
        let Some(opened) = open.get(file)? else { return Ok(None) };
        let whole = file.read_at(opened, byte, &mut bytes)? == bytes.len();
        Ok(whole.then(|| Unit::decode(&bytes)))
    }

    /// Returns the end of the queue, checked against the log below `log_limit`.
    pub(crate) fn end(&self, log: &[LogFile], log_limit: u64) -> Result<QueueEnd> {
        let mut open = OpenFile::default();
        let mut end = self.first();
        for file in self.files.iter().rev() {
            let (mut low, mut high) = (0, file.len / UNIT_LEN);
            while low < high {
                let middle = (low + high) / 2;
                let valid = self.unit(&mut open, file.start / UNIT_LEN + middle)?.is_some_and(|unit| unit.is_valid());
                if valid { low = middle + 1 } else { high = middle }
            }
            if low > 0 {
                end = file.start / UNIT_LEN + low;
                break;
            }
        }
        let found_end = end;
        // Physical offsets rise along a queue: units that point behind the log are skipped in a few steps.
        let mut low = self.first();
        while low < end {
            let middle = (low + end) / 2;
            let is_behind = |unit: Unit| !unit.is_pre_blank() && unit.end() as u64 > log_limit;
            if self.unit(&mut open, middle)?.is_some_and(is_behind) { end = middle } else { low = middle + 1 }
        }
        let log_start = log.first().map_or(u64::MAX, |file| file.start);
        let below_limit = end;
        let mut doubtful_end = None;
        while end > self.first() && below_limit - end < STALE_LIMIT {
            match self.unit(&mut open, end - 1)? {
                Some(unit) if !unit.is_pre_blank() && unit.is_valid() && unit.end() as u64 <= log_start => break,
                Some(unit) if !unit.is_pre_blank() && leads_to_message(&unit, end - 1, log, log_limit)? => {
                    return Ok(QueueEnd { next: end, physical_end: Some(unit.end() as u64), doubtful_end });
                }
                unit => {
                    doubtful_end =
                        doubtful_end.max(unit.filter(|unit| !unit.is_pre_blank()).map(|unit| unit.end() as u64));
                    end -= 1;
                }
            }
        }
        // No unit leads to a message in the log: all messages expired, or the log is missing.
        Ok(QueueEnd { next: found_end, physical_end: None, doubtful_end: None })
    }

    /// Returns the first unit below `end` that points at or behind `physical_offset`, or an earlier one where units are
    /// missing.
    pub(crate) fn first_behind(&self, physical_offset: u64, end: u64) -> Result<u64> {
        let mut open = OpenFile::default();
        let (mut low, mut high) = (self.first(), end);
        while low < high {
            let middle = (low + high) / 2;
            let behind = self.unit(&mut open, middle)?.is_none_or(|unit| {
                !unit.is_pre_blank() && unit.physical_offset >= physical_offset as i64 || !unit.is_valid()
            });
            if behind { high = middle } else { low = middle + 1 }
        }
        Ok(low)
    }

    /// Calls `visit` with the units of `[from, to)` and their queue offsets.
    pub(crate) fn walk<E: From<StoreError>>(
        &self,
        from: u64,
        to: u64,
        mut visit: impl FnMut(u64, Unit) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let mut buffer = vec![0u8; WALK_UNITS * UNIT_LEN as usize];
        let mut open = OpenFile::default();
        let mut offset = from;
        while offset < to {
            let byte = offset * UNIT_LEN;
            let Some(file) = holding(&self.files, byte) else {
                // A file is missing: continue with the next one.
                match self.files.iter().find(|file| file.start > byte) {
                    Some(next) => offset = next.start / UNIT_LEN,
                    None => return Ok(()),
                }
                continue;
            };
            let wanted = ((to - offset) * UNIT_LEN).min(file.end() - byte).min(buffer.len() as u64) as usize;
            let read = match open.get(file)? {
                Some(opened) => file.read_at(opened, byte, &mut buffer[..wanted])?,
                None => 0,
            };
            for bytes in buffer[..read].chunks_exact(UNIT_LEN as usize) {
                visit(offset, Unit::decode(bytes))?;
                offset += 1;
            }
            if read < UNIT_LEN as usize {
                offset = file.end().div_ceil(UNIT_LEN).max(offset + 1);
            }
        }
        Ok(())
    }
}

/// File that was read last, kept open.
#[derive(Debug, Default)]
pub(crate) struct OpenFile(Option<(u64, File)>);

impl OpenFile {
    /// Returns the open file, or `None` if it has expired since the directory was listed.
    pub fn get(&mut self, file: &LogFile) -> Result<Option<&File>> {
        if self.0.as_ref().is_none_or(|(start, _)| *start != file.start) {
            self.0 = match file.open() {
                Err(error) if error.is_absence() => return Ok(None),
                opened => Some((file.start, opened?)),
            };
        }
        Ok(self.0.as_ref().map(|(_, opened)| opened))
    }
}

fn leads_to_message(unit: &Unit, offset: u64, log: &[LogFile], log_limit: u64) -> Result<bool> {
    let position = unit.physical_offset as u64;
    let Some(file) = holding(log, position).filter(|_| unit.end() as u64 <= log_limit) else { return Ok(false) };
    let mut window = match Window::with_piece(file, log_limit, 64) {
        Err(error) if error.is_absence() => return Ok(false),
        opened => opened?,
    };
    let head = window.bytes(position, 36)?;
    Ok(physical_offset(head) == Some(unit.physical_offset) && queue_offset(head) == Some(offset as i64))
}

fn directories(dir: &Path) -> Result<Vec<(String, std::path::PathBuf)>> {
    let failed = |e| StoreError::io("listing", dir, 0, e);
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(failed(e)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.map_err(failed)?.path();
        if let Some(name) = path.file_name().and_then(|name| name.to_str()).filter(|_| path.is_dir()) {
            found.push((name.to_string(), path));
        }
    }
    Ok(found)
}

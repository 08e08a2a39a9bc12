//! Reads single records of the log without mapping it, to check many queues at opening.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::File;

use wire::record::{self, Lead, lead};
use wire::{Crc, Record};

use crate::commit_log::CommitLog;
use crate::consume_queue::Unit;
use crate::error::Result;

/// Number of bytes that are read of a record; a longer record is recognised by its fixed fields alone.
const READ_LIMIT: usize = 64 << 10;
const FIXED_FIELDS: usize = 48;

pub(crate) struct LogPeek<'a> {
    log: &'a CommitLog,
    open: HashMap<u64, File>,
    buffer: Vec<u8>,
}

impl<'a> LogPeek<'a> {
    pub fn new(log: &'a CommitLog) -> LogPeek<'a> {
        LogPeek { log, open: HashMap::new(), buffer: vec![0; READ_LIMIT] }
    }

    /// True if the log has, at the position of the unit, the message with this topic, queue and queue offset. A message
    /// that has already left the log, or that the disk cannot read, cannot be checked; then the result is true, too.
    pub fn is_message_of(&mut self, unit: &Unit, topic: &str, queue_id: i32, queue_offset: i64) -> Result<bool> {
        if unit.physical_offset < self.log.min() {
            return Ok(true);
        }
        let offset = unit.physical_offset as u64;
        let Some(file) = self.log.files.file_at(offset) else { return Ok(false) };
        let pos = offset - file.start;
        if unit.size as u64 > file.size - pos {
            return Ok(false);
        }
        let open = match self.open.entry(file.start) {
            Entry::Occupied(open) => open.into_mut(),
            Entry::Vacant(place) => place.insert(file.open_for_reading()?),
        };
        let len = (unit.size as usize).min(READ_LIMIT);
        let bytes = &mut self.buffer[..len];
        match file.read_at(open, pos, bytes) {
            Err(error) if error.is_unreadable() => return Ok(true),
            read => read?,
        }
        if !matches!(lead(bytes), Lead::Message { total_size } if total_size == unit.size as usize)
            || len < FIXED_FIELDS
        {
            return Ok(false);
        }
        if record::physical_offset(bytes) != Some(unit.physical_offset)
            || record::queue_offset(bytes) != Some(queue_offset)
        {
            return Ok(false);
        }
        if len < unit.size as usize {
            return Ok(true);
        }
        Ok(Record::decode(bytes, Crc::Trust).is_ok_and(|(r, _)| r.topic == topic && r.queue_id == queue_id))
    }
}

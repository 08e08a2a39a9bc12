//! Reads the log of an open store from an offset to its end, message by message.
use wire::record::{Lead, lead};
use wire::{Crc, Record, RecordError};

use crate::error::Result;
use crate::flush::Durable;
use crate::scan::log_files::LogFile;
use crate::scan::window::Window;

impl Durable {
    /// Calls `visit` with every message from `from` on, where a message must begin; returns the offset at which reading
    /// ended.
    ///
    /// That is the end of the log at the time of the call, or the first place where no message begins. Messages that
    /// the disk cannot read are left out. Checksums were compared when the messages were stored or recovered.
    pub fn each_record(&self, from: u64, mut visit: impl FnMut(&Record<'_>)) -> Result<u64> {
        let end = self.log.max();
        let mut offset = from.max(self.log.min().max(0) as u64);
        while offset < end {
            let Some(file) = self.log.files.file_at(offset) else { break };
            let mut window = Window::open(&LogFile::of(&file), end)?;
            let limit = window.limit();
            while offset < limit {
                if window.unreadable_in_record(offset)?.is_some() {
                    offset = window.find_record(offset + 1, limit)?.unwrap_or(limit);
                    continue;
                }
                let bytes = window.record_bytes(offset)?;
                match lead(bytes) {
                    Lead::Message { .. } => match Record::decode(bytes, Crc::Trust) {
                        Ok((record, size)) if record.physical_offset == offset as i64 => {
                            visit(&record);
                            offset += size as u64;
                        }
                        Err(RecordError::NotUtf8 { total_size, .. }) => offset += total_size as u64,
                        _ => return Ok(offset),
                    },
                    Lead::Blank { .. } => offset = file.end(),
                    _ => return Ok(offset),
                }
            }
        }
        Ok(offset)
    }
}

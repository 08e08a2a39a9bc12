//! Reading the log of an open store from some offset to its end, message by message.
use wire::record::{Lead, lead};
use wire::{Crc, Record, RecordError};

use crate::error::Result;
use crate::flush::Durable;

impl Durable {
    /// Shows every message from `from` on, which must be where one begins; returns where that came to an end.
    ///
    /// That is the end the log had in the beginning, or the first place where no message begins. Checksums were compared when the
    /// messages were stored or recovered.
    pub fn each_record(&self, from: u64, mut visit: impl FnMut(&Record<'_>)) -> Result<u64> {
        let end = self.log.max();
        let mut offset = from.max(self.log.min().max(0) as u64);
        while offset < end {
            let Some(file) = self.log.files.file_at(offset) else { break };
            let pos = offset - file.start;
            let bytes = file.bytes(pos, (end.min(file.end()) - offset) as usize)?;
            let mut at = 0;
            while at < bytes.len() {
                match lead(&bytes[at..]) {
                    Lead::Message { .. } => match Record::decode(&bytes[at..], Crc::Trust) {
                        Ok((record, size)) if record.physical_offset == (offset + at as u64) as i64 => {
                            visit(&record);
                            at += size;
                        }
                        Err(RecordError::NotUtf8 { total_size, .. }) => at += total_size,
                        _ => return Ok(offset + at as u64),
                    },
                    Lead::Blank { .. } => break,
                    _ => return Ok(offset + at as u64),
                }
            }
            let reached = offset + at as u64;
            offset = if at < bytes.len() { file.end() } else { reached };
        }
        Ok(offset)
    }
}

//! Queue units of a Java broker with `enableConsumeQueueExt=true`.
//!
//! Such a broker writes an address in `consumequeue_ext` in place of the tags code. The content of the extension (the
//! tags code, a bloom filter) follows from the message, so the message itself is read; the files of the extension may
//! be damaged or left behind. New units have plain codes, which such a broker reads, too.

use wire::record::{Lead, lead};
use wire::{Crc, Record};

use crate::consume_queue::Unit;
use crate::error::{Result, StoreError};
use crate::flush::Durable;
use crate::message::Routing;

/// Hashes of tags are 32-bit numbers and deliver times are positive; any number below both ranges is an address.
const LAST_ADDRESS: i64 = i32::MIN as i64 - 1;

impl Unit {
    /// True if the tags code is an address in `consumequeue_ext`.
    #[inline]
    pub(crate) fn is_extended(&self) -> bool {
        self.tags_code <= LAST_ADDRESS
    }
}

impl Durable {
    /// Returns the unit with the tags code of its message in place of an address.
    pub fn resolved(&self, unit: Unit) -> Result<Unit> {
        if !unit.is_extended() {
            return Ok(unit);
        }
        let Some(bytes) = self.record_at(unit.physical_offset)? else { return Ok(unit) };
        Ok(Unit { tags_code: self.tags_code_of(&bytes, unit.physical_offset)?, ..unit })
    }

    /// Computes the tags code for the unit of a record.
    #[cold]
    pub fn tags_code_of(&self, bytes: &[u8], physical_offset: i64) -> Result<i64> {
        let (path, offset) = (self.log.files.dir.clone(), physical_offset as u64);
        match (lead(bytes), Record::decode(bytes, Crc::Trust)) {
            (Lead::Message { .. }, Ok((record, _))) => {
                let routing = Routing::of(record.properties);
                Ok(routing.tags_code(record.topic, record.store_timestamp, &self.delay_levels_ms))
            }
            _ => Err(StoreError::Corrupt { path, offset, reason: "the tags of the message cannot be read".into() }),
        }
    }
}

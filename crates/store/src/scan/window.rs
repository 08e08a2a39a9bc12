//! A file read front to back in large pieces, and the search for the next record in it.
//!
//! A position inside the log says by itself whether a record begins there: the magic stands four bytes on, and PHYSICALOFFSET equals
//! the position. So a reader may begin anywhere; what a body holds by chance (or was put there to deceive) would also have to know
//! where in the log it came to stand.

use std::fs::File;

use wire::record::{HEAD_LEN, Lead, MESSAGE_MAGIC, MIN_LEN, check_size, lead, physical_offset};
use wire::{Crc, Record, RecordError};

use super::log_files::LogFile;
use crate::error::Result;

/// What is read at once. Twice this makes a scan no faster.
const PIECE: usize = 1 << 20;
const MAGIC_AT: usize = 4;

#[derive(Debug)]
pub(crate) struct Window {
    pub log_file: LogFile,
    file: File,
    buffer: Vec<u8>,
    /// Offset of the first byte in the buffer, and how many are valid.
    at: u64,
    filled: usize,
    /// Nothing at or behind this is looked at.
    limit: u64,
    piece: usize,
}

impl Window {
    pub fn open(log_file: &LogFile, limit: u64) -> Result<Window> {
        Window::with_piece(log_file, limit, PIECE)
    }

    /// A window for looking here and there, which reads little at a time.
    pub fn with_piece(log_file: &LogFile, limit: u64, piece: usize) -> Result<Window> {
        let limit = limit.min(log_file.end());
        let file = log_file.open()?;
        Ok(Window { log_file: log_file.clone(), file, buffer: Vec::new(), at: 0, filled: 0, limit, piece })
    }

    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// The bytes from `offset` on: at least `len` of them, fewer only at the limit or the end of the file.
    #[inline]
    pub fn bytes(&mut self, offset: u64, len: usize) -> Result<&[u8]> {
        let end = offset.saturating_add(len as u64).min(self.limit);
        if offset < self.at || end > self.at + self.filled as u64 {
            self.fill(offset, len)?;
        }
        let from = (offset - self.at) as usize;
        Ok(&self.buffer[from.min(self.filled)..self.filled])
    }

    #[cold]
    fn fill(&mut self, offset: u64, len: usize) -> Result<()> {
        let wanted = (len.max(self.piece) as u64).min(self.limit.saturating_sub(offset)) as usize;
        if self.buffer.len() < wanted {
            self.buffer.resize(wanted, 0);
        }
        self.at = offset;
        self.filled = 0;
        self.filled = self.log_file.read_at(&self.file, offset, &mut self.buffer[..wanted])?;
        Ok(())
    }

    /// A record's bytes, as many as it claims to have if they are there. Of one that stands elsewhere, or whose length cannot be, only
    /// some: a damaged length may claim the rest of a large file.
    pub fn record_bytes(&mut self, offset: u64) -> Result<&[u8]> {
        let head = self.bytes(offset, HEAD_LEN)?;
        let believed = physical_offset(head) == Some(offset as i64) && check_size(head).is_ok();
        let needed = match lead(head) {
            Lead::Message { total_size } if believed => total_size,
            _ => HEAD_LEN,
        };
        self.bytes(offset, needed)
    }

    /// Whether a whole record that knows its place stands at `offset`.
    pub fn is_record(&mut self, offset: u64) -> Result<bool> {
        if physical_offset(self.bytes(offset, HEAD_LEN)?) != Some(offset as i64) {
            return Ok(false);
        }
        // Text that is not UTF-8 does not keep a record from being one: whoever reads it counts it as damaged.
        let decoded = Record::decode(self.record_bytes(offset)?, Crc::Trust);
        Ok(matches!(decoded, Ok(_) | Err(RecordError::NotUtf8 { .. })))
    }

    /// Where the first record begins that begins in `[from, to)`.
    pub fn find_record(&mut self, from: u64, to: u64) -> Result<Option<u64>> {
        let magic = MESSAGE_MAGIC.to_be_bytes();
        let to = to.min(self.limit);
        let mut from = from;
        while from < to {
            let bytes = self.bytes(from, HEAD_LEN)?;
            if bytes.len() < MIN_LEN {
                return Ok(None);
            }
            match memchr::memmem::find(&bytes[MAGIC_AT..], &magic) {
                Some(found) => {
                    let candidate = from + found as u64;
                    if candidate < to && self.is_record(candidate)? {
                        return Ok(Some(candidate));
                    }
                    from = candidate + 1;
                }
                // The last bytes may be the beginning of a magic.
                None => from += (bytes.len() - MAGIC_AT - (magic.len() - 1)) as u64,
            }
        }
        Ok(None)
    }
}

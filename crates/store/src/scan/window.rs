//! File that is read front to back in large pieces, and the search for the next record in it.
//!
//! The bytes at a position of the log show whether a record begins there: the magic follows four bytes later, and
//! PHYSICALOFFSET equals the position. So a reader may begin anywhere; bytes in a body that look like a record by
//! chance (or were put there to deceive) would also have to contain their own position in the log.
//!
//! Pages that the disk cannot read are zeros here; `first_unreadable` distinguishes them from written zeros.

use std::fs::File;
use std::ops::Range;

use wire::record::{HEAD_LEN, Lead, MESSAGE_MAGIC, MIN_LEN, check_size, lead, physical_offset};
use wire::{Crc, Record, RecordError};

use super::log_files::LogFile;
use crate::error::Result;
use crate::mapped_file::PAGE;

/// Number of bytes read at once. Twice as many do not make a scan faster.
const PIECE: usize = 1 << 20;
const MAGIC_AT: usize = 4;

#[derive(Debug)]
pub(crate) struct Window {
    pub log_file: LogFile,
    file: File,
    buffer: Vec<u8>,
    /// Offset of the first byte in the buffer, and number of valid bytes.
    at: u64,
    filled: usize,
    /// Bytes at or behind this offset are not read.
    limit: u64,
    piece: usize,
    /// Ranges of offsets that are zeros in the buffer because the disk cannot read a page.
    unreadable: Vec<Range<u64>>,
}

impl Window {
    pub fn open(log_file: &LogFile, limit: u64) -> Result<Window> {
        Window::with_piece(log_file, limit, PIECE)
    }

    /// Opens a window for reads at scattered positions, which reads little at a time.
    pub fn with_piece(log_file: &LogFile, limit: u64, piece: usize) -> Result<Window> {
        let limit = limit.min(log_file.end());
        let file = log_file.open()?;
        let (log_file, buffer, unreadable) = (log_file.clone(), Vec::new(), Vec::new());
        Ok(Window { log_file, file, buffer, at: 0, filled: 0, limit, piece, unreadable })
    }

    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Returns the bytes from `offset` on: at least `len` of them, fewer only at the limit or the end of the file.
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
        self.unreadable.clear();
        self.filled = match self.log_file.read_at(&self.file, offset, &mut self.buffer[..wanted]) {
            Err(error) if error.is_unreadable() => self.fill_by_pages(offset, wanted)?,
            read => read?,
        };
        Ok(())
    }

    /// Fills the buffer although some of its pages cannot be read.
    #[cold]
    fn fill_by_pages(&mut self, offset: u64, wanted: usize) -> Result<usize> {
        let mut filled = 0;
        while filled < wanted {
            let at = offset + filled as u64;
            let in_page = (PAGE - (at - self.log_file.start) % PAGE) as usize;
            let page = &mut self.buffer[filled..wanted.min(filled + in_page)];
            match self.log_file.read_at(&self.file, at, page) {
                Err(error) if error.is_unreadable() => {
                    page.fill(0);
                    filled += page.len();
                    self.unreadable.push(at..at + page.len() as u64);
                }
                read => match read? {
                    0 => break,
                    read => filled += read,
                },
            }
        }
        Ok(filled)
    }

    /// Returns the first byte of `[offset, offset + len)` that the disk cannot read; these bytes must just have been
    /// requested.
    pub fn first_unreadable(&self, offset: u64, len: u64) -> Option<u64> {
        let overlapping = |page: &&Range<u64>| page.start < offset + len && offset < page.end;
        self.unreadable.iter().find(overlapping).map(|page| page.start.max(offset))
    }

    /// Returns the first byte that the disk cannot read of the record that begins at `offset`, or of the place where a
    /// record should begin.
    pub fn unreadable_in_record(&mut self, offset: u64) -> Result<Option<u64>> {
        let bytes = self.record_bytes(offset)?;
        let len = match lead(bytes) {
            Lead::Message { total_size } => total_size.min(bytes.len()),
            _ => HEAD_LEN.min(bytes.len()),
        };
        Ok(self.first_unreadable(offset, len as u64))
    }

    /// Returns the bytes of a record, as many as its length field says if they are there. If the record belongs
    /// elsewhere, or its length is impossible, only some bytes are returned: a damaged length may include the rest of a
    /// large file.
    pub fn record_bytes(&mut self, offset: u64) -> Result<&[u8]> {
        let head = self.bytes(offset, HEAD_LEN)?;
        let believed = physical_offset(head) == Some(offset as i64) && check_size(head).is_ok();
        let needed = match lead(head) {
            Lead::Message { total_size } if believed => total_size,
            _ => HEAD_LEN,
        };
        self.bytes(offset, needed)
    }

    /// True if a whole record with the right physical offset begins at `offset`.
    pub fn is_record(&mut self, offset: u64) -> Result<bool> {
        if physical_offset(self.bytes(offset, HEAD_LEN)?) != Some(offset as i64) {
            return Ok(false);
        }
        // A record with text that is not UTF-8 is still a record; the scan that reads it counts it as damaged.
        let decoded = Record::decode(self.record_bytes(offset)?, Crc::Trust);
        Ok(matches!(decoded, Ok(_) | Err(RecordError::NotUtf8 { .. })))
    }

    /// Returns the position of the first record that begins in `[from, to)`.
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

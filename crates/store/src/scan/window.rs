//! A file read front to back in large pieces, and the search for the next record in it.
//!
//! A position inside the log says by itself whether a record begins there: the magic stands four bytes on, and PHYSICALOFFSET equals
//! the position. So a reader may begin anywhere; what a body holds by chance (or was put there to deceive) would also have to know
//! where in the log it came to stand.
//!
//! Pages that the disk cannot read are zeros here, and `first_unreadable` tells them from those that were written.

use std::fs::File;
use std::ops::Range;

use wire::record::{HEAD_LEN, Lead, MESSAGE_MAGIC, MIN_LEN, check_size, lead, physical_offset};
use wire::{Crc, Record, RecordError};

use super::log_files::LogFile;
use crate::error::Result;
use crate::mapped_file::PAGE;

/// Bytes that are read at once. Twice as many make a scan no faster.
const PIECE: usize = 1 << 20;
const MAGIC_AT: usize = 4;

#[derive(Debug)]
pub(crate) struct Window {
    pub log_file: LogFile,
    file: File,
    buffer: Vec<u8>,
    /// Offset of the first byte in the buffer, and the number of valid bytes.
    at: u64,
    filled: usize,
    /// Nothing at or behind this is looked at.
    limit: u64,
    piece: usize,
    /// Ranges of offsets that are zeros in the buffer because the disk cannot read a page.
    unreadable: Vec<Range<u64>>,
}

impl Window {
    pub fn open(log_file: &LogFile, limit: u64) -> Result<Window> {
        Window::with_piece(log_file, limit, PIECE)
    }

    /// A window for looking here and there, which reads little at a time.
    pub fn with_piece(log_file: &LogFile, limit: u64, piece: usize) -> Result<Window> {
        let limit = limit.min(log_file.end());
        let file = log_file.open()?;
        let (log_file, buffer, unreadable) = (log_file.clone(), Vec::new(), Vec::new());
        Ok(Window { log_file, file, buffer, at: 0, filled: 0, limit, piece, unreadable })
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

    /// The first byte of `[offset, offset + len)`, which must just have been asked for, that the disk cannot read.
    pub fn first_unreadable(&self, offset: u64, len: u64) -> Option<u64> {
        let overlapping = |page: &&Range<u64>| page.start < offset + len && offset < page.end;
        self.unreadable.iter().find(overlapping).map(|page| page.start.max(offset))
    }

    /// The first byte that the disk cannot read of the record that begins at `offset`, or of the place where one should.
    pub fn unreadable_in_record(&mut self, offset: u64) -> Result<Option<u64>> {
        let bytes = self.record_bytes(offset)?;
        let len = match lead(bytes) {
            Lead::Message { total_size } => total_size.min(bytes.len()),
            _ => HEAD_LEN.min(bytes.len()),
        };
        Ok(self.first_unreadable(offset, len as u64))
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

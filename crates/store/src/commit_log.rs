//! Commit log: every message of the broker, one after the other.
//!
//! A record never spans two files. When the next one (plus eight bytes) does not fit, the rest of the file becomes a
//! BLANK record, `bytes left i32 | BLANK magic`. The record then goes to the start of the next file.
//!
//! `max` is published after the bytes of a record; readers read only below it. The writer caches the current file and
//! takes the next one from the preallocator, or creates it itself if it was not ready in time.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use wire::record::{BLANK_MAGIC, Lead, lead};

use crate::error::{Result, StoreError};
use crate::file_sequence::FileSequence;
use crate::mapped_file::MappedFile;

/// Number of bytes kept free at the end of each file for the BLANK record.
pub(crate) const BLANK_LEN: u64 = 8;

#[derive(Debug)]
pub(crate) struct CommitLog {
    pub files: FileSequence,
    max: AtomicU64,
}

impl CommitLog {
    pub fn load(root: &Path, file_size: u64) -> Result<CommitLog> {
        let dir = root.join("commitlog");
        std::fs::create_dir_all(&dir).map_err(|e| StoreError::io("creating", &dir, 0, e))?;
        Ok(CommitLog { files: FileSequence::load(dir, file_size)?, max: AtomicU64::new(0) })
    }

    /// Returns the first offset still in the log, −1 if it has no file.
    pub fn min(&self) -> i64 {
        self.files.first().map_or(-1, |file| file.start as i64)
    }

    /// Returns the end of the last published record.
    #[inline]
    pub fn max(&self) -> u64 {
        self.max.load(Ordering::Acquire)
    }

    #[inline]
    pub fn publish(&self, max: u64) {
        self.max.store(max, Ordering::Release);
    }

    /// Returns the record at `offset`, with its file, if a whole message begins there.
    pub fn record_at(&self, offset: i64) -> Result<Option<(Arc<MappedFile>, u64, usize)>> {
        let max = self.max();
        let Ok(offset) = u64::try_from(offset) else { return Ok(None) };
        let Some(file) = self.files.file_at(offset).filter(|_| offset < max) else { return Ok(None) };
        let pos = offset - file.start;
        let available = (max.min(file.end()) - offset) as usize;
        match lead(file.bytes(pos, available.min(8))?) {
            Lead::Message { total_size } if total_size <= available => Ok(Some((file, pos, total_size))),
            _ => Ok(None),
        }
    }

    /// Fills the rest of the current file so that the next record starts a new one. Returns the start of the new file.
    pub fn end_file(file: &MappedFile, pos: u64) -> Result<u64> {
        let left = file.size - pos;
        if left >= BLANK_LEN {
            file.reserve(pos + BLANK_LEN, 0)?;
            // SAFETY: the caller holds the append lock and these bytes are not published.
            let blank = unsafe { file.bytes_mut(pos, BLANK_LEN as usize)? };
            blank[0..4].copy_from_slice(&(left as u32).to_be_bytes());
            blank[4..8].copy_from_slice(&BLANK_MAGIC.to_be_bytes());
        }
        Ok(file.end())
    }
}

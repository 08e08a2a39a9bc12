//! `checkpoint`: up to which store time each kind of file is known to be on disk.
//!
//! ```text
//! commit log i64 | consume queues i64 | index i64 | zeros up to 4096 bytes        milliseconds
//! ```
//! A timestamp is only raised after the flush it speaks of, so recovery may trust everything stored before it.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};

use crate::error::{Result, StoreError};

const FILE_LEN: u64 = 4096;
/// Clocks are read before flushes; this much slack covers messages stored within the same moment.
const SLACK_MS: i64 = 3000;

#[derive(Debug)]
pub(crate) struct Checkpoint {
    path: PathBuf,
    file: File,
    log_ms: AtomicI64,
    queues_ms: AtomicI64,
    index_ms: AtomicI64,
}

impl Checkpoint {
    pub fn open(root: &Path) -> Result<Checkpoint> {
        let path = root.join("checkpoint");
        let failed = |e| StoreError::io("opening", &path, 0, e);
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path).map_err(failed)?;
        let len = file.metadata().map_err(failed)?.len();
        if len != 0 && len != FILE_LEN {
            return Err(StoreError::WrongFileSize { path, expected: FILE_LEN, actual: len });
        }
        file.set_len(FILE_LEN).map_err(failed)?;
        let mut bytes = [0u8; 24];
        file.read_exact_at(&mut bytes, 0).map_err(failed)?;
        let at = |i: usize| AtomicI64::new(i64::from_be_bytes(bytes[i..i + 8].try_into().expect("8 bytes")));
        Ok(Checkpoint { log_ms: at(0), queues_ms: at(8), index_ms: at(16), path, file })
    }

    pub fn raise_log(&self, ms: i64) {
        self.log_ms.fetch_max(ms, Ordering::AcqRel);
    }

    pub fn raise_queues(&self, ms: i64) {
        self.queues_ms.fetch_max(ms, Ordering::AcqRel);
    }

    pub fn raise_index(&self, ms: i64) {
        self.index_ms.fetch_max(ms, Ordering::AcqRel);
    }

    /// Log and queues hold everything stored up to here.
    pub fn trusted_ms(&self) -> i64 {
        let log = self.log_ms.load(Ordering::Acquire);
        let queues = self.queues_ms.load(Ordering::Acquire);
        (log.min(queues) - SLACK_MS).max(0)
    }

    /// The index, and the log it points into, hold everything stored up to here.
    pub fn trusted_index_ms(&self) -> i64 {
        self.trusted_ms().min((self.index_ms.load(Ordering::Acquire) - SLACK_MS).max(0))
    }

    pub fn write(&self) -> Result<()> {
        let mut bytes = [0u8; 24];
        for (slot, value) in bytes.chunks_exact_mut(8).zip([&self.log_ms, &self.queues_ms, &self.index_ms]) {
            slot.copy_from_slice(&value.load(Ordering::Acquire).to_be_bytes());
        }
        self.file
            .write_all_at(&bytes, 0)
            .and_then(|()| self.file.sync_data())
            .map_err(|e| StoreError::io("writing", &self.path, 0, e))
    }
}

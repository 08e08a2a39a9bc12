//! `checkpoint`: up to which store time each kind of file is known to be on disk.
//!
//! ```text
//!  0  commit log i64 | consume queues i64 | index files i64                          milliseconds, Java's
//! 24  index entries i64 | commit log i64 | consume queues i64 | zeros up to 4096     ours
//! ```
//! A timestamp is only raised after the flush it speaks of, so recovery may trust everything stored before it.
//!
//! Of the index Java notes the end of its newest *full* file. After a crash it deletes the files that end later and indexes again what
//! was stored since (if `messageIndexSafe`), so a later time there would cost it all that the file in use knew before. We keep such a
//! file up to the last entry that is on disk. How far that is stands where Java neither reads nor writes, and counts while the two
//! times behind it are those at the beginning: else Java has run since, and may have made the file anew.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};

use crate::error::{Result, StoreError};

const FILE_LEN: u64 = 4096;
const USED_LEN: usize = 6 * 8;
/// Clocks are read before flushes; this much slack covers messages stored within the same moment.
const SLACK_MS: i64 = 3000;

#[derive(Debug)]
pub(crate) struct Checkpoint {
    path: PathBuf,
    file: File,
    log_ms: AtomicI64,
    queues_ms: AtomicI64,
    index_files_ms: AtomicI64,
    index_entries_ms: AtomicI64,
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
        let mut bytes = [0u8; USED_LEN];
        file.read_exact_at(&mut bytes, 0).map_err(failed)?;
        let [log, queues, files, entries, log_then, queues_then] =
            std::array::from_fn(|i| i64::from_be_bytes(bytes[8 * i..8 * i + 8].try_into().expect("8 bytes")));
        let entries = if (log, queues) == (log_then, queues_then) { entries.max(files) } else { files };
        Ok(Checkpoint {
            path,
            file,
            log_ms: log.into(),
            queues_ms: queues.into(),
            index_files_ms: files.into(),
            index_entries_ms: entries.into(),
        })
    }

    pub fn raise_log(&self, ms: i64) {
        self.log_ms.fetch_max(ms, Ordering::AcqRel);
    }

    pub fn raise_queues(&self, ms: i64) {
        self.queues_ms.fetch_max(ms, Ordering::AcqRel);
    }

    /// Full index files end at `files_ms` (earlier than was noted, if that was not Java's meaning of it), and entries of all files are on
    /// disk up to `entries_ms`.
    pub fn note_index(&self, files_ms: i64, entries_ms: i64) {
        self.index_files_ms.store(files_ms, Ordering::Release);
        self.index_entries_ms.fetch_max(entries_ms, Ordering::AcqRel);
    }

    /// Log and queues hold everything stored up to here.
    pub fn trusted_ms(&self) -> i64 {
        let log = self.log_ms.load(Ordering::Acquire);
        let queues = self.queues_ms.load(Ordering::Acquire);
        (log.min(queues) - SLACK_MS).max(0)
    }

    /// The index, and the log it points into, hold everything stored up to here.
    pub fn trusted_index_ms(&self) -> i64 {
        self.trusted_ms().min((self.index_entries_ms.load(Ordering::Acquire) - SLACK_MS).max(0))
    }

    pub fn write(&self) -> Result<()> {
        let [log, queues, files, entries] =
            [&self.log_ms, &self.queues_ms, &self.index_files_ms, &self.index_entries_ms]
                .map(|value| value.load(Ordering::Acquire));
        let mut bytes = [0u8; USED_LEN];
        for (slot, value) in bytes.chunks_exact_mut(8).zip([log, queues, files, entries, log, queues]) {
            slot.copy_from_slice(&value.to_be_bytes());
        }
        self.file
            .write_all_at(&bytes, 0)
            .and_then(|()| self.file.sync_data())
            .map_err(|e| StoreError::io("writing", &self.path, 0, e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noted(log_ms: i64, queues_ms: i64, files_ms: i64, entries_ms: i64) -> tempfile::TempDir {
        let place = tempfile::tempdir().expect("a directory");
        let checkpoint = Checkpoint::open(place.path()).expect("open");
        checkpoint.raise_log(log_ms);
        checkpoint.raise_queues(queues_ms);
        checkpoint.note_index(files_ms, entries_ms);
        checkpoint.write().expect("write");
        place
    }

    fn trusted_index_ms(place: &tempfile::TempDir) -> i64 {
        Checkpoint::open(place.path()).expect("open").trusted_index_ms()
    }

    fn java_notes(place: &tempfile::TempDir, field: u64, ms: i64) {
        let file = OpenOptions::new().write(true).open(place.path().join("checkpoint")).expect("open");
        file.write_all_at(&ms.to_be_bytes(), 8 * field).expect("write");
    }

    #[test]
    fn entries_of_a_file_in_use_are_trusted() {
        assert_eq!(trusted_index_ms(&noted(90_000, 90_000, 20_000, 80_000)), 80_000 - SLACK_MS);
    }

    #[test]
    fn only_full_files_are_trusted_once_java_has_run() {
        for field in [0, 1] {
            let place = noted(90_000, 90_000, 20_000, 80_000);
            java_notes(&place, field, 95_000);
            assert_eq!(trusted_index_ms(&place), 20_000 - SLACK_MS);
        }
    }

    #[test]
    fn a_file_that_java_filled_is_trusted() {
        let place = noted(90_000, 90_000, 20_000, 80_000);
        java_notes(&place, 0, 95_000);
        java_notes(&place, 1, 95_000);
        java_notes(&place, 2, 94_000);
        assert_eq!(trusted_index_ms(&place), 94_000 - SLACK_MS);
    }

    #[test]
    fn what_an_earlier_version_noted_too_late_for_java_is_corrected() {
        let place = noted(90_000, 90_000, 85_000, 85_000);
        let checkpoint = Checkpoint::open(place.path()).expect("open");
        checkpoint.note_index(20_000, 85_000);
        checkpoint.write().expect("write");
        let bytes = std::fs::read(place.path().join("checkpoint")).expect("read");
        assert_eq!(bytes[16..24], 20_000i64.to_be_bytes());
    }
}

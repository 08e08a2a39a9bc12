//! `checkpoint` file: the positions up to which each kind of file is known to be on disk.
//!
//! ```text
//!  0  commit log i64 | consume queues i64 | index files i64                           store times in milliseconds, Java's
//! 24  0 i64 | commit log i64 | consume queues i64                                     the times again, as we wrote them
//! 48  record start i64 | record end i64 | record check i64 | index end i64            offsets of the log, ours
//! 80  check of bytes 24 to 80 i64 | zeros up to 4096
//! ```
//! Java trusts store times. If a clock is set back, or was wrong once, messages that were never flushed look older than
//! the checkpoint. So this implementation also writes offsets: log and queues are on disk up to the end of one record,
//! the index up to its own end. The check of the record (a CRC of its first bytes) shows that the log still is the one
//! that was meant. The times are those of the newest message at the flush, as Java writes them, for a Java broker that
//! opens the directory.
//!
//! Java keeps our part of the file. It rewrites index files after a crash, though, so our index end counts only while
//! Java's times are those that we wrote. If the marked record is no longer in the log, Java's times count if Java wrote
//! them; otherwise nothing counts, and recovery reads the whole log.
//!
//! For the index, Java writes the end of its newest *full* file. After a crash it deletes the files that end later and
//! indexes again the messages stored since (if `messageIndexSafe`). So with a later time there it would lose all
//! earlier entries of the file in use. This implementation keeps such a file up to the last entry that is on disk.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use rustix::fs::{FallocateFlags, fallocate};

use crate::error::{Result, StoreError};
use crate::locks::Whole;

const FILE_LEN: u64 = 4096;
const OURS_AT: usize = 24;
const CHECK_AT: usize = 80;
const USED_LEN: usize = CHECK_AT + 8;
/// Clocks are read before flushes; this tolerance covers messages stored within the same moment.
const SLACK_MS: i64 = 3000;

/// Record up to whose end log and queues are on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    pub start: u64,
    pub end: u64,
    /// CRC of its first bytes.
    pub check: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Noted {
    log_ms: i64,
    queues_ms: i64,
    index_files_ms: i64,
    mark: Option<Mark>,
    /// The index has every message before this offset of the log. 0 if not known.
    index_end: u64,
    /// True if Java wrote the times.
    has_times: bool,
}

#[derive(Debug)]
pub(crate) struct Checkpoint {
    path: PathBuf,
    file: File,
    noted: Mutex<Noted>,
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
        // The block is allocated now, so that a checkpoint can be written when the disk is full. If the allocation
        // fails, a later write may fail.
        let _ = fallocate(&file, FallocateFlags::KEEP_SIZE, 0, FILE_LEN);
        let mut bytes = [0u8; USED_LEN];
        // A checkpoint that cannot be read covers nothing, so recovery only reads more.
        let noted = file.read_exact_at(&mut bytes, 0).map_or_else(|_| Noted::default(), |()| Noted::decode(&bytes));
        Ok(Checkpoint { path, file, noted: Mutex::new(noted) })
    }

    fn noted(&self) -> std::sync::MutexGuard<'_, Noted> {
        self.noted.lock().whole()
    }

    /// Records that the log is on disk up to a message stored at `ms`.
    pub fn note_log(&self, ms: i64) {
        self.noted().log_ms = ms;
    }

    /// Records that the queues are on disk up to a message stored at `ms`, and that queues and log are on disk up to
    /// the mark.
    pub fn note_queues(&self, ms: i64, mark: Option<Mark>) {
        let mut noted = self.noted();
        noted.queues_ms = ms;
        noted.mark = mark;
    }

    /// Records that full index files end at `files_ms`, and that the entries of all files are on disk for messages
    /// before `end`.
    pub fn note_index(&self, files_ms: i64, end: u64) {
        let mut noted = self.noted();
        noted.index_files_ms = files_ms;
        noted.index_end = end;
    }

    pub fn mark(&self) -> Option<Mark> {
        self.noted().mark
    }

    /// Returns the offset of the log at which the index on disk ends; `None` if not known, for example because Java has
    /// run since.
    pub fn index_end(&self) -> Option<u64> {
        Some(self.noted().index_end).filter(|&end| end > 0)
    }

    /// Returns the store time up to which log and queues are complete, by Java's times.
    pub fn trusted_ms(&self) -> i64 {
        let noted = self.noted();
        if noted.has_times { (noted.log_ms.min(noted.queues_ms) - SLACK_MS).max(0) } else { 0 }
    }

    /// Returns the store time up to which the full files of the index are complete, by Java's times.
    pub fn trusted_index_ms(&self) -> i64 {
        self.trusted_ms().min((self.noted().index_files_ms - SLACK_MS).max(0))
    }

    pub fn write(&self) -> Result<()> {
        let noted = *self.noted();
        self.file
            .write_all_at(&noted.encode(), 0)
            .and_then(|()| self.file.sync_data())
            .map_err(|e| StoreError::io("writing", &self.path, 0, e))
    }
}

impl Noted {
    fn decode(bytes: &[u8; USED_LEN]) -> Noted {
        let word = |at: usize| i64::from_be_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        let [log_ms, queues_ms, index_files_ms] = [0, 8, 16].map(word);
        let written_by_us = (log_ms, queues_ms) == (word(32), word(40));
        let whole = word(CHECK_AT) == check(bytes);
        let mark = Mark { start: word(48) as u64, end: word(56) as u64, check: word(64) as u32 };
        Noted {
            log_ms,
            queues_ms,
            index_files_ms,
            mark: Some(mark).filter(|mark| whole && mark.end > mark.start),
            index_end: if whole && written_by_us { word(72) as u64 } else { 0 },
            has_times: !written_by_us,
        }
    }

    fn encode(&self) -> [u8; USED_LEN] {
        let mark = self.mark.unwrap_or_default();
        let mut bytes = [0u8; USED_LEN];
        let words = [
            self.log_ms,
            self.queues_ms,
            self.index_files_ms,
            0,
            self.log_ms,
            self.queues_ms,
            mark.start as i64,
            mark.end as i64,
            i64::from(mark.check),
            self.index_end as i64,
        ];
        for (slot, value) in bytes.chunks_exact_mut(8).zip(words) {
            slot.copy_from_slice(&value.to_be_bytes());
        }
        let check = check(&bytes);
        bytes[CHECK_AT..].copy_from_slice(&check.to_be_bytes());
        bytes
    }
}

/// Returns the check of the bytes. It is never 0, the value in a file that this implementation did not write.
fn check(bytes: &[u8; USED_LEN]) -> i64 {
    1 << 32 | i64::from(wire::crc::body_crc(&bytes[OURS_AT..CHECK_AT]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARK: Mark = Mark { start: 1000, end: 1200, check: 7 };

    fn noted() -> tempfile::TempDir {
        let place = tempfile::tempdir().expect("a directory");
        let checkpoint = Checkpoint::open(place.path()).expect("open");
        checkpoint.note_log(90_000);
        checkpoint.note_queues(90_000, Some(MARK));
        checkpoint.note_index(20_000, 1200);
        checkpoint.write().expect("write");
        place
    }

    fn overwrite(place: &tempfile::TempDir, field: u64, value: i64) -> Checkpoint {
        let file = OpenOptions::new().write(true).open(place.path().join("checkpoint")).expect("open");
        file.write_all_at(&value.to_be_bytes(), 8 * field).expect("write");
        Checkpoint::open(place.path()).expect("open")
    }

    #[test]
    fn offsets_are_found_again() {
        let checkpoint = Checkpoint::open(noted().path()).expect("open");
        assert_eq!((checkpoint.mark(), checkpoint.index_end()), (Some(MARK), Some(1200)));
    }

    #[test]
    fn the_index_is_trusted_by_full_files_alone_once_java_has_run() {
        for field in [0, 1] {
            let checkpoint = overwrite(&noted(), field, 95_000);
            assert_eq!((checkpoint.mark(), checkpoint.index_end()), (Some(MARK), None));
            assert_eq!(checkpoint.trusted_index_ms(), 20_000 - SLACK_MS);
        }
    }

    #[test]
    fn a_damaged_offset_vouches_for_nothing() {
        for field in 6..11 {
            let checkpoint = overwrite(&noted(), field, 5);
            assert_eq!((checkpoint.mark(), checkpoint.index_end(), checkpoint.trusted_ms()), (None, None, 0));
        }
    }

    #[test]
    fn times_of_an_earlier_version_vouch_for_nothing_and_those_of_java_do() {
        let place = tempfile::tempdir().expect("a directory");
        std::fs::write(place.path().join("checkpoint"), [0; FILE_LEN as usize]).expect("write");
        for field in [0, 1, 2, 3, 4, 5] {
            overwrite(&place, field, 80_000);
        }
        assert_eq!(Checkpoint::open(place.path()).expect("open").trusted_ms(), 0);
        assert_eq!(overwrite(&place, 1, 85_000).trusted_ms(), 80_000 - SLACK_MS);
    }

    #[test]
    fn a_time_goes_back_with_the_clock_as_in_java() {
        let place = noted();
        let checkpoint = Checkpoint::open(place.path()).expect("open");
        checkpoint.note_log(50_000);
        checkpoint.note_queues(50_000, Some(MARK));
        checkpoint.write().expect("write");
        let bytes = std::fs::read(place.path().join("checkpoint")).expect("read");
        assert_eq!(bytes[..16], [50_000i64; 2].map(i64::to_be_bytes).concat());
    }
}

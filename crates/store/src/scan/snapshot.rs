//! Content of a store directory at one moment, with the end of its log.
//!
//! Nothing in the directory records where the log ends. Every file but the newest one with records is full (it ends
//! with a BLANK), so the end lies in that one. The queues give a position that is certainly below the end: the end of
//! the last message that any of them points to. From there the records are followed, one by one, up to the first bytes
//! that are not a record.
//!
//! ```text
//! │ full file │ full file │ records … ┊ records in no queue yet ┊ torn │ 0 0 0 │
//!                          dispatched ┘                 log end ┘
//! ```
//! A break *below* the dispatched end is damage in the middle of the log, and the next record is searched for behind
//! it. A break above it is the torn tail that a crash (or a copy made of a running broker's files) leaves. Without
//! queues the dispatched end is unknown: then a break with a readable record behind it counts as damage.
//!
//! If one queue points to a message, the other queues need not have all messages before it. They do while their broker
//! runs, which fills them in the order of the log, and after it was stopped. In a copy of a running broker's files each
//! queue was saved at its own moment. After a loss of power each queue has only the part that happened to be written.
//! Such a directory has an `abort` file, or (if only some files were copied) no checkpoint, and no process holds its
//! lock.

use std::path::{Path, PathBuf};

use wire::record::{Lead, lead};
use wire::{Crc, Record};

use super::log_files::{LogFile, gaps, holding, list};
use super::log_ranges::Gap;
use super::queue_files::QueueFiles;
use super::window::Window;
use crate::error::{Result, StoreError};
use crate::presence;

/// Number of zero bytes that are taken for the unused rest of a file.
const UNUSED: usize = 64 << 10;

/// Bytes behind the end of the log that are not zero: a message that was being written when the file was last changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tail {
    pub bytes: u64,
    pub reason: String,
}

#[derive(Clone, Debug)]
pub struct Snapshot {
    pub root: PathBuf,
    pub log_files: Vec<LogFile>,
    pub queues: Vec<QueueFiles>,
    /// First byte still in the log, and end of its last whole record.
    pub log_start: u64,
    pub log_end: u64,
    /// End of the last message that a queue points to; `None` without queues.
    pub dispatched_end: Option<u64>,
    /// True if all queues have all of their messages below `dispatched_end`.
    pub queues_agree: bool,
    pub tail: Option<Tail>,
    /// `[start, end)` of the parts missing between log files: whole files, or the ends of files that were cut short.
    pub gaps: Vec<Gap>,
}

impl Snapshot {
    /// Reads the store below `root`. `log_dirs` are the directories of a log that is spread over several (or lies
    /// elsewhere); if empty, the log is `commitlog`, or `root` itself when that holds log files.
    pub fn take(root: &Path, log_dirs: &[PathBuf]) -> Result<Snapshot> {
        let mut snapshot = Snapshot::list(root, log_dirs)?;
        let log_limit = snapshot.log_files.last().map_or(0, LogFile::end);
        for queue in &snapshot.queues {
            snapshot.dispatched_end =
                snapshot.dispatched_end.max(queue.end(&snapshot.log_files, log_limit)?.physical_end);
        }
        snapshot.find_end()?;
        Ok(snapshot)
    }

    /// Reads the directory as another process found it a moment ago: with the ends of that moment, and without
    /// searching for them again.
    pub fn as_of(root: &Path, log_dirs: &[PathBuf], log_end: u64, dispatched_end: Option<u64>) -> Result<Snapshot> {
        Ok(Snapshot { log_end, dispatched_end, ..Snapshot::list(root, log_dirs)? })
    }

    fn list(root: &Path, log_dirs: &[PathBuf]) -> Result<Snapshot> {
        let log_dirs = match log_dirs {
            [] if root.join("commitlog").is_dir() => vec![root.join("commitlog")],
            [] => vec![root.to_path_buf()],
            given => given.to_vec(),
        };
        if let Some(missing) = log_dirs.iter().find(|dir| !dir.is_dir()) {
            let source = std::io::Error::from(std::io::ErrorKind::NotFound);
            return Err(StoreError::Io { action: "opening", path: missing.clone(), source });
        }
        let at_rest = presence::last_exit_was_clean(root) && root.join("checkpoint").is_file();
        let queues_agree = at_rest || presence::is_in_use(root);
        // Queues are read before the log, so every message that they point to is in the log by then.
        let queues = QueueFiles::of_store(root)?;
        let (log_files, gaps) = list_log(&log_dirs)?;
        if log_files.is_empty() && queues.is_empty() && !root.join("commitlog").is_dir() {
            let source = std::io::Error::new(std::io::ErrorKind::NotFound, "no commit log here");
            return Err(StoreError::Io { action: "opening", path: root.to_path_buf(), source });
        }
        Ok(Snapshot {
            root: root.to_path_buf(),
            log_start: log_files.first().map_or(0, |file| file.start),
            log_end: 0,
            log_files,
            queues,
            dispatched_end: None,
            queues_agree,
            tail: None,
            gaps,
        })
    }

    fn find_end(&mut self) -> Result<()> {
        let Some(newest) = self.newest_with_records()?.cloned() else {
            self.log_end = self.log_start;
            return Ok(());
        };
        let known = self.dispatched_end.filter(|&end| holding(&self.log_files, end).is_some_and(|f| *f == newest));
        let mut window = Window::open(&newest, newest.end())?;
        let mut position = known.unwrap_or(newest.start);
        loop {
            match follow(&mut window, position)? {
                Followed::EndOfFile => {
                    // The next record goes to a file that does not exist yet.
                    self.log_end = newest.end();
                    return Ok(());
                }
                Followed::Record(next) => position = next,
                Followed::Nothing(reason) => {
                    let more_expected = self.dispatched_end.is_none_or(|end| position < end);
                    let next = if more_expected { window.find_record(position + 1, newest.end())? } else { None };
                    let Some(next) = next else {
                        self.log_end = position;
                        self.tail = tail(&mut window, position, reason)?;
                        return Ok(());
                    };
                    position = next;
                }
            }
        }
    }

    /// Returns the newest file that begins with a record; the files behind it were created in advance.
    fn newest_with_records(&self) -> Result<Option<&LogFile>> {
        for file in self.log_files.iter().rev() {
            let mut window = Window::with_piece(file, file.end(), 4096)?;
            let begins = window.bytes(file.start, 8)?.iter().take(8).any(|&byte| byte != 0);
            if begins || self.dispatched_end.is_some_and(|end| end > file.start) {
                return Ok(Some(file));
            }
        }
        Ok(self.log_files.first())
    }
}

/// Returns the files of the log and the gaps between them. A directory that changes while it is listed can show gaps
/// that do not exist, so a gap counts only if it is found twice.
fn list_log(dirs: &[PathBuf]) -> Result<(Vec<LogFile>, Vec<Gap>)> {
    let mut seen = Vec::new();
    loop {
        let files = list(dirs)?;
        let gaps = gaps(&files);
        if gaps == seen {
            return Ok((files, gaps));
        }
        seen = gaps;
    }
}

enum Followed {
    Record(u64),
    EndOfFile,
    Nothing(String),
}

fn follow(window: &mut Window, position: u64) -> Result<Followed> {
    let left = window.log_file.end() - position;
    if left == 0 {
        return Ok(Followed::EndOfFile);
    }
    let bytes = window.record_bytes(position)?;
    Ok(match lead(bytes) {
        Lead::Blank { total_size } if total_size as u64 >= left => Followed::EndOfFile,
        // The last record of a log may be half written with its size and magic in place: only its checksum shows that.
        Lead::Message { .. } => match Record::decode(bytes, Crc::Verify) {
            Ok((record, size)) if record.physical_offset == position as i64 => Followed::Record(position + size as u64),
            Ok((record, _)) => Followed::Nothing(format!("a record that says it stands at {}", record.physical_offset)),
            Err(error) => Followed::Nothing(error.to_string()),
        },
        _ => Followed::Nothing("no record begins here".into()),
    })
}

/// Returns the bytes behind the end of the log, unless they are all zero.
fn tail(window: &mut Window, from: u64, reason: String) -> Result<Option<Tail>> {
    let (mut position, mut last) = (from, from);
    loop {
        let bytes = window.bytes(position, UNUSED)?;
        let bytes = &bytes[..bytes.len().min(UNUSED)];
        match bytes.iter().rposition(|&byte| byte != 0) {
            Some(at) => last = position + at as u64 + 1,
            None => break,
        }
        position += bytes.len() as u64;
    }
    Ok((last > from).then_some(Tail { bytes: last - from, reason }))
}

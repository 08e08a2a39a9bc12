//! Errors of a store directory; each names the file (and offset) that it concerns.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

pub type Result<T> = std::result::Result<T, StoreError>;

#[derive(Debug, Error)]
pub enum StoreError {
    #[error("{} is held by {}; stop that broker or choose another directory", path.display(), holder_text(*holder))]
    Locked { path: PathBuf, holder: Option<i32> },

    #[error("{} is not writable ({source}); a store needs a directory it may write to", path.display())]
    ReadOnly { path: PathBuf, source: io::Error },

    #[error("no space for {} at offset {offset}: {reason}", path.display())]
    DiskFull { path: PathBuf, offset: u64, reason: String },

    #[error("a {what} of {size} bytes for topic {topic} exceeds the limit of {limit} bytes")]
    RecordTooLarge { what: &'static str, topic: String, size: u64, limit: u64 },

    #[error("store options refused: {reason}")]
    InvalidOptions { reason: String },

    #[error("message refused: {reason}")]
    InvalidMessage { reason: String },

    #[error("{} has {actual} bytes where the configured file size is {expected}; open the store with the sizes it was written with", path.display())]
    WrongFileSize { path: PathBuf, expected: u64, actual: u64 },

    #[error("{} does not belong in a store directory; move it away", path.display())]
    StrayFile { path: PathBuf },

    #[error("{} is missing between its neighbours; restore it from a backup or a replica", path.display())]
    MissingFile { path: PathBuf },

    #[error("{} is no store: it has no commit log and no checkpoint; check the path, or ask to create one there", path.display())]
    NoStore { path: PathBuf },

    #[error("{} is damaged at offset {offset}: {reason}", path.display())]
    Corrupt { path: PathBuf, offset: u64, reason: String },

    #[error("the log has nothing for {start} to {end}, behind {}: a file is missing or was cut short; restore it from a backup or a replica", path.display())]
    LogGap { path: PathBuf, start: u64, end: u64 },

    #[error("{} expired while it was read: retention deleted {start} to {end} of the log; scan again for what is still there, or keep files longer (fileReservedTime)", path.display())]
    FileExpired { path: PathBuf, start: u64, end: u64 },

    #[error("{action} {} failed: {source}", path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },

    #[error("flushing {} failed earlier and what was written since may be lost: {reason}; restart after repairing the disk", path.display())]
    FlushFailed { path: PathBuf, reason: String },

    #[error("the store in {} met a defect of its own code: {reason}", path.display())]
    Panicked { path: PathBuf, reason: String },

    #[error("an earlier append to {} ended in a panic, so nothing more is taken; restart the broker, which recovers the log", path.display())]
    Stopped { path: PathBuf },

    #[error("the store in {} is closed", path.display())]
    Closed { path: PathBuf },
}

fn holder_text(holder: Option<i32>) -> String {
    match holder {
        Some(pid) if pid == std::process::id() as i32 => "this process already".into(),
        Some(pid) => format!("process {pid}"),
        None => "another process".into(),
    }
}

impl StoreError {
    /// True if the error says that a file does not exist.
    pub(crate) fn is_absence(&self) -> bool {
        matches!(self, StoreError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }

    /// True if bytes of a file cannot be read: a bad sector, or the file was cut short. A second read would not help.
    pub(crate) fn is_unreadable(&self) -> bool {
        let lost = |e: &io::Error| e.raw_os_error() == Some(libc::EIO) || e.kind() == io::ErrorKind::UnexpectedEof;
        matches!(self, StoreError::Io { action: "reading", source, .. } if lost(source))
    }

    /// Maps an operating-system error to the error class of its cause.
    pub(crate) fn io(action: &'static str, path: &Path, offset: u64, source: io::Error) -> StoreError {
        let path = path.to_path_buf();
        match source.raw_os_error() {
            Some(libc::ENOSPC | libc::EDQUOT | libc::EFBIG) => {
                StoreError::DiskFull { path, offset, reason: source.to_string() }
            }
            Some(libc::EACCES | libc::EPERM | libc::EROFS) => StoreError::ReadOnly { path, source },
            _ => StoreError::Io { action, path, source },
        }
    }
}

//! Files of a sequence as they are found: named by the 20-digit offset of their first byte, of any length.
//!
//! Unlike the store itself a scan does not require one configured size: a copy may have been cut short, and everything
//! that was written should be readable. Names that are not an offset are skipped; a file that overlaps its successor is
//! an error.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::log_ranges::Gap;
use crate::error::{Result, StoreError};
use crate::mapped_file::MappedFile;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogFile {
    pub path: PathBuf,
    /// Offset of the first byte within the sequence.
    pub start: u64,
    pub len: u64,
}

impl LogFile {
    pub(crate) fn of(file: &MappedFile) -> LogFile {
        LogFile { path: file.path.clone(), start: file.start, len: file.size }
    }

    pub fn end(&self) -> u64 {
        self.start + self.len
    }

    pub(crate) fn open(&self) -> Result<File> {
        File::open(&self.path).map_err(|e| StoreError::io("opening", &self.path, self.start, e))
    }

    /// Returns an error if the whole directory is gone. Retention deletes files and leaves their directory.
    pub(crate) fn check_directory(&self) -> Result<()> {
        let Some(dir) = self.path.parent().filter(|dir| !dir.is_dir()) else { return Ok(()) };
        let reason = "the directory was moved or deleted after the scan was planned";
        let source = std::io::Error::new(std::io::ErrorKind::NotFound, reason);
        Err(StoreError::Io { action: "reading", path: dir.to_path_buf(), source })
    }

    /// Reads as many bytes at `offset` (of the sequence) as the file has; the rest of `buffer` is left unchanged.
    pub(crate) fn read_at(&self, file: &File, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let mut read = 0;
        while read < buffer.len() {
            match file.read_at(&mut buffer[read..], offset - self.start + read as u64) {
                Ok(0) => break,
                Ok(n) => read += n,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(StoreError::io("reading", &self.path, offset, e)),
            }
        }
        Ok(read)
    }
}

/// Returns the files of the sequence in `dirs`, oldest first. A directory that does not exist counts as empty.
pub(crate) fn list(dirs: &[PathBuf]) -> Result<Vec<LogFile>> {
    let mut files = Vec::new();
    for dir in dirs {
        let failed = |e| StoreError::io("listing", dir, 0, e);
        let entries = match fs::read_dir(dir) {
            Ok(entries) => entries,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
            Err(e) => return Err(failed(e)),
        };
        for entry in entries {
            let path = entry.map_err(failed)?.path();
            let Some(start) = offset_in_name(&path) else { continue };
            match fs::metadata(&path) {
                // An empty file is being created, or its creator was killed.
                Ok(found) if found.is_file() && found.len() > 0 => {
                    files.push(LogFile { path, start, len: found.len() });
                }
                Ok(_) => {}
                // Expired since the directory was listed.
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
                Err(e) => return Err(StoreError::io("inspecting", &path, start, e)),
            }
        }
    }
    files.sort_by_key(|file| file.start);
    if let Some(pair) = files.windows(2).find(|pair| pair[0].end() > pair[1].start) {
        return Err(StoreError::StrayFile { path: pair[1].path.clone() });
    }
    Ok(files)
}

/// Returns `[start, end)` of the parts missing between the files: whole files, or the ends of files that were cut
/// short.
pub(crate) fn gaps(files: &[LogFile]) -> Vec<Gap> {
    let between = files.windows(2).map(|pair| (pair[0].end(), pair[1].start));
    between.filter(|(start, end)| start < end).collect()
}

/// Returns the file that holds `offset`.
pub(crate) fn holding(files: &[LogFile], offset: u64) -> Option<&LogFile> {
    let after = files.partition_point(|file| file.start <= offset);
    files[..after].last().filter(|file| offset < file.end())
}

fn offset_in_name(path: &Path) -> Option<u64> {
    let name = path.file_name()?.to_str()?;
    (name.len() == 20 && name.bytes().all(|byte| byte.is_ascii_digit())).then(|| name.parse().ok())?
}

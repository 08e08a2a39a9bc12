//! Directory of equally sized files that together form one long byte sequence.
//!
//! File names are the 20-digit offset of their first byte. The sequence may begin anywhere (older files have expired)
//! but has no gap.

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};

use crate::error::{Result, StoreError};
use crate::locks::Whole;
use crate::mapped_file::{MappedFile, sync_dir};
use crate::new_file::remove_unfinished;

#[derive(Debug)]
pub(crate) struct FileSequence {
    pub dir: PathBuf,
    pub file_size: u64,
    files: RwLock<VecDeque<Arc<MappedFile>>>,
}

impl FileSequence {
    pub fn empty(dir: PathBuf, file_size: u64) -> FileSequence {
        FileSequence { dir, file_size, files: RwLock::default() }
    }

    /// Loads every file of the directory; a file that is not part of this sequence is an error that names it.
    pub fn load(dir: PathBuf, file_size: u64) -> Result<FileSequence> {
        let mut found = list(&dir)?;
        found.sort_by_key(|(_, start)| *start);
        // Java creates a file's name before it sets its size, so a kill in between leaves an empty last file.
        if found.last().is_some_and(|(path, _)| fs::metadata(path).is_ok_and(|file| file.len() == 0)) {
            let (path, _) = found.pop().expect("just looked at");
            fs::remove_file(&path).map_err(|e| StoreError::io("deleting", &path, 0, e))?;
        }
        let mut files = Vec::new();
        for (path, start) in found {
            files.push(Arc::new(MappedFile::found(path, start, file_size)?));
        }
        if let Some(misplaced) = files.first().filter(|f| f.start % file_size != 0) {
            return Err(StoreError::StrayFile { path: misplaced.path.clone() });
        }
        for pair in files.windows(2) {
            if pair[0].end() < pair[1].start {
                return Err(StoreError::MissingFile { path: dir.join(file_name(pair[0].end())) });
            } else if pair[0].end() != pair[1].start {
                return Err(StoreError::StrayFile { path: pair[1].path.clone() });
            }
        }
        Ok(FileSequence { dir, file_size, files: RwLock::new(files.into()) })
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, VecDeque<Arc<MappedFile>>> {
        self.files.read().whole()
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, VecDeque<Arc<MappedFile>>> {
        self.files.write().whole()
    }

    pub fn is_empty(&self) -> bool {
        self.read().is_empty()
    }

    pub fn all(&self) -> Vec<Arc<MappedFile>> {
        self.read().iter().cloned().collect()
    }

    pub fn first(&self) -> Option<Arc<MappedFile>> {
        self.read().front().cloned()
    }

    pub fn last(&self) -> Option<Arc<MappedFile>> {
        self.read().back().cloned()
    }

    #[inline]
    pub fn file_at(&self, offset: u64) -> Option<Arc<MappedFile>> {
        let files = self.read();
        let first = files.front()?.start;
        let index = offset.checked_sub(first)? / self.file_size;
        files.get(index as usize).cloned()
    }

    /// Creates a file for the given start without adding it to the sequence yet.
    pub fn make(&self, start: u64) -> Result<Arc<MappedFile>> {
        self.make_dir(start)?;
        let file = MappedFile::create(self.dir.join(file_name(start)), start, self.file_size)?;
        sync_dir(&self.dir)?;
        Ok(Arc::new(file))
    }

    /// Creates the directory and its parent (a queue's topic), durably: a power cut must not remove them together with
    /// flushed files.
    fn make_dir(&self, start: u64) -> Result<()> {
        if self.dir.is_dir() {
            return Ok(());
        }
        fs::create_dir_all(&self.dir).map_err(|e| StoreError::io("creating", &self.dir, start, e))?;
        self.dir.ancestors().skip(1).take(2).try_for_each(sync_dir)
    }

    pub fn push(&self, file: Arc<MappedFile>) {
        let mut files = self.write();
        debug_assert!(files.back().is_none_or(|last| last.end() == file.start));
        files.push_back(file);
    }

    /// Sets `end` as the end of the sequence: later files are deleted, bytes behind `end` in its file are zeroed. The
    /// first file stays even if it is empty, because only its name records where the sequence begins.
    pub fn cut(&self, end: u64) -> Result<()> {
        loop {
            let mut files = self.write();
            let Some(last) = files.back().cloned() else { return Ok(()) };
            if last.start >= end && files.len() > 1 {
                last.delete()?;
                files.pop_back();
                continue;
            }
            drop(files);
            let kept = end.clamp(last.start, last.end());
            return if kept < last.end() { last.erase_from(kept - last.start) } else { Ok(()) };
        }
    }

    /// Deletes the oldest file and removes it from the sequence.
    pub fn drop_first(&self) -> Result<()> {
        if let Some(first) = self.first() {
            first.delete()?;
            self.write().pop_front();
        }
        Ok(())
    }

    pub fn drop_all(&self) -> Result<()> {
        while !self.is_empty() {
            self.drop_first()?;
        }
        Ok(())
    }
}

pub(crate) fn file_name(start: u64) -> String {
    format!("{start:020}")
}

fn list(dir: &Path) -> Result<Vec<(PathBuf, u64)>> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(StoreError::io("listing", dir, 0, e)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.map_err(|e| StoreError::io("listing", dir, 0, e))?.path();
        if remove_unfinished(&path)? {
            continue;
        }
        let start = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.parse().ok());
        match start {
            Some(start) => found.push((path, start)),
            None => return Err(StoreError::StrayFile { path }),
        }
    }
    Ok(found)
}

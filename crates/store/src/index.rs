//! Key index: a series of index files, of which only the newest is written.
//!
//! A message is indexed under `topic#key` for its unique key and for each of its user keys, in log order. A message
//! below the end of the newest file is indexed already, so indexing it again after a crash changes nothing. When the
//! entries of a file are used up, the next file follows; files are named by the local time of their creation.

use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, RwLock};

use wire::hash::index_hash;

use crate::error::{Result, StoreError};
use crate::index_file::IndexFile;
use crate::local_time;
use crate::locks::Whole;
use crate::mapped_file::sync_dir;
use crate::new_file::remove_unfinished;
use crate::options::Options;

/// Maximum number of messages that Java allows one key query to return.
pub const MAX_QUERY_RESULTS: usize = 64;

#[derive(Debug)]
pub(crate) struct Index {
    dir: PathBuf,
    slots: u32,
    entries: u32,
    files: RwLock<Vec<Arc<IndexFile>>>,
    /// Next file, created before the newest one is full, so that a full disk is noticed before the message is in the
    /// log.
    next: Mutex<Option<IndexFile>>,
}

/// Keys under which one message is indexed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Keys<'a> {
    pub unique: Option<&'a str>,
    pub user: Option<&'a str>,
}

impl<'a> Keys<'a> {
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = &'a str> {
        self.unique.into_iter().chain(self.user.unwrap_or("").split(' ').filter(|key| !key.is_empty()))
    }
}

impl Index {
    pub fn load(root: &std::path::Path, options: &Options) -> Result<Index> {
        let dir = root.join("index");
        fs::create_dir_all(&dir).map_err(|e| StoreError::io("creating", &dir, 0, e))?;
        let mut paths = Vec::new();
        for entry in fs::read_dir(&dir).map_err(|e| StoreError::io("listing", &dir, 0, e))? {
            let path = entry.map_err(|e| StoreError::io("listing", &dir, 0, e))?.path();
            if remove_unfinished(&path)? {
                continue;
            }
            if path.file_name().and_then(|n| n.to_str()).is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit())) {
                paths.push(path);
            }
        }
        paths.sort();
        let files = paths
            .into_iter()
            .map(|path| Ok(Arc::new(IndexFile::open(path, options.index_slots, options.index_entries)?)))
            .collect::<Result<Vec<_>>>()?;
        Ok(Index {
            dir,
            slots: options.index_slots,
            entries: options.index_entries,
            files: RwLock::new(files),
            next: Mutex::default(),
        })
    }

    fn files(&self) -> Vec<Arc<IndexFile>> {
        self.files.read().whole().clone()
    }

    #[inline]
    fn newest(&self) -> Option<Arc<IndexFile>> {
        self.files.read().whole().last().cloned()
    }

    /// Creates the file that follows the newest one.
    fn make_file(&self, now_ms: i64) -> Result<IndexFile> {
        let mut name = local_time::yyyymmddhhmmssmmm(now_ms);
        // Names must sort by age even if two files are created within one millisecond, or the clock is set back. No
        // code reads a time out of the name.
        if let Some(newest) =
            self.newest().and_then(|file| file.number()).filter(|&newest| name <= format!("{newest:017}"))
        {
            name = format!("{:017}", newest + 1);
        }
        let path = self.dir.join(name);
        let file = IndexFile::create(path, self.slots, self.entries)?;
        sync_dir(&self.dir)?;
        Ok(file)
    }

    /// Switches to the next file.
    fn add_file(&self, now_ms: i64) -> Result<Arc<IndexFile>> {
        let made = self.next.lock().whole().take();
        let file = Arc::new(match made {
            Some(file) => file,
            None => self.make_file(now_ms)?,
        });
        if let Some(newest) = self.newest() {
            file.begin_after(newest.end_physical()?, newest.end_timestamp()?)?;
        }
        self.files.write().whole().push(file.clone());
        Ok(file)
    }

    /// Does every step of adding `count` keys that can fail, before the commit log is changed. Returns the file to add
    /// them to.
    #[inline]
    pub fn prepare(&self, count: u32, now_ms: i64) -> Result<Arc<IndexFile>> {
        let file = match self.newest() {
            Some(file) => file,
            None => self.add_file(now_ms)?,
        };
        let room = file.room()?;
        file.prepare(count.min(room))?;
        if room < count {
            let mut next = self.next.lock().whole();
            if next.is_none() {
                let following = self.make_file(now_ms)?;
                following.prepare(count)?;
                *next = Some(following);
            }
        }
        Ok(file)
    }

    /// Indexes one message in the file that `prepare` returned, or in the next one when that file is full.
    #[inline]
    pub fn put(
        &self,
        mut file: Arc<IndexFile>,
        topic: &str,
        keys: Keys<'_>,
        physical_offset: i64,
        store_timestamp: i64,
    ) -> Result<()> {
        for key in keys.iter() {
            if file.room()? == 0 {
                file = self.add_file(store_timestamp)?;
            }
            file.put(index_hash(topic, key), physical_offset, store_timestamp)?;
        }
        Ok(())
    }

    /// Indexes a message found in the log unless it is indexed already.
    pub fn rebuild(&self, topic: &str, keys: Keys<'_>, physical_offset: i64, store_timestamp: i64) -> Result<()> {
        let file = self.prepare(keys.iter().count() as u32, store_timestamp)?;
        if file.covers(physical_offset)? {
            return Ok(());
        }
        self.put(file, topic, keys, physical_offset, store_timestamp)
    }

    /// Returns the physical offsets of messages with this key (or one of the same hash) stored within `[begin_ms,
    /// end_ms]`, newest first.
    pub fn query(&self, topic: &str, key: &str, max: usize, begin_ms: i64, end_ms: i64) -> Result<Vec<i64>> {
        let hash = index_hash(topic, key);
        let max = max.min(MAX_QUERY_RESULTS);
        let mut found = Vec::new();
        for file in self.files().iter().rev() {
            let (first, last) = (file.begin_timestamp()?, file.end_timestamp()?);
            if begin_ms <= last && end_ms >= first {
                collect(file, hash, max, begin_ms, end_ms, &mut found)?;
            }
            if first < begin_ms || found.len() >= max {
                break;
            }
        }
        Ok(found)
    }

    /// Returns store time and physical offset of the newest indexed message.
    pub fn last_update(&self) -> Result<(i64, i64)> {
        match self.newest() {
            Some(file) => Ok((file.end_timestamp()?, file.end_physical()?)),
            None => Ok((0, 0)),
        }
    }

    /// Returns the store time of the last message in the newest full file, 0 if no file is full.
    pub fn full_until(&self) -> Result<i64> {
        for file in self.files().iter().rev() {
            if file.room()? == 0 {
                return file.end_timestamp();
            }
        }
        Ok(0)
    }

    /// Keeps, after a crash, the entries that were on disk by `trusted_ms`. Returns the physical offset from which
    /// messages must be indexed again.
    pub fn recover(&self, trusted_ms: i64, log_end: i64) -> Result<i64> {
        let mut files = self.files.write().whole();
        while let Some(newest) = files.last() {
            // If the newest file has anything to keep, the files before it are complete.
            if let Some(from) = newest.keep_until(trusted_ms, log_end)? {
                return Ok(from);
            }
            newest.file.delete()?;
            files.pop();
        }
        Ok(0)
    }

    /// Deletes files (never the newest) whose messages have all left the log. Returns the number of deleted files.
    pub fn drop_expired(&self, min_physical: i64) -> Result<usize> {
        let mut files = self.files.write().whole();
        let mut dropped = 0;
        while files.len() > 1 && files[0].end_physical()? < min_physical {
            files.remove(0).file.delete()?;
            dropped += 1;
        }
        Ok(dropped)
    }

    /// Writes everything to disk. Clean pages cost next to nothing.
    pub fn flush(&self) -> Result<()> {
        self.files().iter().try_for_each(|file| file.flush())
    }

    /// Removes the file that was created in advance and not needed.
    pub fn drop_unused(&self) -> Result<()> {
        match self.next.lock().whole().take() {
            Some(file) => file.file.delete(),
            None => Ok(()),
        }
    }
}

fn collect(file: &IndexFile, hash: i32, max: usize, begin_ms: i64, end_ms: i64, found: &mut Vec<i64>) -> Result<()> {
    let next_entry = file.next_entry()?;
    let file_begin = file.begin_timestamp()?;
    let mut number = file.slot(hash)?;
    while number > 0 && number < next_entry && found.len() < max {
        let entry = file.entry(number)?;
        let time = file_begin.saturating_add(i64::from(entry.seconds) * 1000);
        if entry.seconds < 0 || time < begin_ms {
            break;
        }
        if entry.hash == hash && time <= end_ms {
            found.push(entry.physical_offset);
        }
        if entry.previous >= number {
            break;
        }
        number = entry.previous;
    }
    Ok(())
}

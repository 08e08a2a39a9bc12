//! Store: one directory, opened by one process, appended to under one lock and read by any thread.

use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, RwLock, RwLockReadGuard};
use std::time::Duration;

use crate::append::Appender;
use crate::clean::{CleanRules, Cleaned, disk_used_ratio};
use crate::error::{Result, StoreError};
use crate::flush::{Durable, Flusher};
use crate::locks::Whole;
use crate::mapped_file::entries;
use crate::message::{Appended, Message};
use crate::new_file::remove_unfinished;
use crate::options::Options;
use crate::presence::{self, DirectoryLock};
use crate::read::{ReadRequest, ReadResult};
use crate::recovery::{Recovery, recover};
use crate::stored_ids::StoredIds;

/// State that exists only while the store is open.
#[derive(Debug)]
struct Open {
    durable: Arc<Durable>,
    appender: Mutex<Appender>,
    flusher: Flusher,
    /// Reason why appends are rejected at the moment, if any: the disk is too full.
    refusal: Mutex<Option<String>>,
    _lock: DirectoryLock,
}

/// Names of which every store has at least one: a started broker creates the second, messages create the first.
const MARKS: [&str; 3] = ["commitlog", "checkpoint", "lock"];

#[derive(Debug)]
pub struct Store {
    root: PathBuf,
    recovery: Recovery,
    open: RwLock<Option<Open>>,
}

impl Store {
    /// Opens the directory, creating it if necessary, and recovers the files the last user left.
    pub fn open(root: &Path, options: Options) -> Result<Store> {
        let options = options.checked()?;
        std::fs::create_dir_all(root).map_err(|e| StoreError::io("creating", root, 0, e))?;
        let lock = DirectoryLock::take(root)?;
        let clean_exit = presence::last_exit_was_clean(root);
        for entry in entries(root)? {
            remove_unfinished(&entry)?;
        }
        let durable = Arc::new(Durable::load(root, &options)?);
        let recovery = recover(&durable, &options, clean_exit)?;
        presence::mark_running(root)?;
        let open = Open {
            appender: Mutex::new(Appender::new(durable.clone(), &options)?),
            flusher: Flusher::start(&durable, &options)?,
            durable,
            refusal: Mutex::new(None),
            _lock: lock,
        };
        Ok(Store { root: root.to_path_buf(), recovery, open: RwLock::new(Some(open)) })
    }

    /// Opens a directory that is a store already; any other directory is left as it is.
    pub fn open_existing(root: &Path, options: Options) -> Result<Store> {
        if !MARKS.iter().any(|name| root.join(name).exists()) {
            return Err(StoreError::NoStore { path: root.to_path_buf() });
        }
        Store::open(root, options)
    }

    #[inline]
    fn with<T>(&self, work: impl FnOnce(&Open) -> Result<T>) -> Result<T> {
        let guard: RwLockReadGuard<'_, Option<Open>> = self.open.read().whole();
        match &*guard {
            Some(open) => work(open),
            None => Err(StoreError::Closed { path: self.root.clone() }),
        }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the result of recovery at opening.
    pub fn recovery(&self) -> &Recovery {
        &self.recovery
    }

    /// Appends one message after the other. On an error the messages in `results` are in the store, the rest are not.
    pub fn append_many(&self, messages: &[Message<'_>], now_ms: i64, results: &mut Vec<Appended>) -> Result<()> {
        self.append_with(|appender| appender.append_many(messages, now_ms, results))
    }

    /// Appends all messages contiguously in one file, or none.
    pub fn append_batch(&self, messages: &[Message<'_>], now_ms: i64, results: &mut Vec<Appended>) -> Result<()> {
        self.append_with(|appender| appender.append_batch(messages, now_ms, results))
    }

    /// Sets the maximum size of a body for later messages; larger ones are rejected.
    pub fn limit_bodies(&self, max_bytes: u64) -> Result<()> {
        self.with(|open| {
            open.appender.lock().whole().limit_bodies(max_bytes);
            Ok(())
        })
    }

    #[inline]
    fn append_with(&self, append: impl FnOnce(&mut Appender) -> Result<()>) -> Result<()> {
        self.with(|open| {
            if let Some(reason) = open.durable.flushed.failure() {
                return Err(StoreError::FlushFailed { path: self.root.clone(), reason: reason.into() });
            }
            if let Some(reason) = &*open.refusal.lock().whole() {
                let offset = open.durable.log.max();
                return Err(StoreError::DiskFull { path: self.root.clone(), offset, reason: reason.clone() });
            }
            let outcome = match open.appender.lock() {
                Ok(mut appender) => append(&mut appender),
                // An append may be half done, which only recovery can repair.
                Err(_) => return Err(StoreError::Stopped { path: self.root.clone() }),
            };
            open.flusher.appended();
            outcome
        })
    }

    pub fn read(&self, request: &ReadRequest<'_>) -> Result<ReadResult> {
        self.with(|open| open.durable.read(request))
    }

    pub fn record_at(&self, physical_offset: i64) -> Result<Option<Vec<u8>>> {
        self.with(|open| open.durable.record_at(physical_offset))
    }

    /// Returns the ids of exactly-once senders, from a snapshot and the log behind it; from the whole log if it does
    /// not begin where the snapshot ends.
    pub fn stored_ids(&self, snapshot: Option<(StoredIds, u64)>) -> Result<StoredIds> {
        self.with(|open| {
            let log = &open.durable.log;
            if let Some((mut ids, from)) = snapshot.filter(|&(_, from)| from <= log.max()) {
                let end = open.durable.each_record(from, |record| {
                    ids.learn(record.topic, record.properties, record.store_timestamp);
                })?;
                if end >= log.max() {
                    return Ok(ids);
                }
            }
            let mut ids = StoredIds::default();
            open.durable.each_record(0, |record| {
                ids.learn(record.topic, record.properties, record.store_timestamp);
            })?;
            Ok(ids)
        })
    }

    /// Returns the physical offsets, ascending, of messages that have the key (or one of the same hash) within the time
    /// range.
    pub fn query(&self, topic: &str, key: &str, max: usize, begin_ms: i64, end_ms: i64) -> Result<Vec<i64>> {
        self.with(|open| open.durable.query(topic, key, max, begin_ms, end_ms))
    }

    /// Returns store time and physical offset of the newest message in the index.
    pub fn index_last_update(&self) -> Result<(i64, i64)> {
        self.with(|open| open.durable.index.as_ref().map_or(Ok((0, 0)), |index| index.last_update()))
    }

    pub fn offset_by_time(&self, topic: &str, queue_id: i32, timestamp_ms: i64) -> Result<i64> {
        self.with(|open| open.durable.offset_by_time(topic, queue_id, timestamp_ms))
    }

    pub fn earliest_store_time(&self, topic: &str, queue_id: i32) -> Result<Option<i64>> {
        self.with(|open| open.durable.earliest_store_time(topic, queue_id))
    }

    pub fn min_offset(&self, topic: &str, queue_id: i32) -> Result<i64> {
        self.with(|open| Ok(open.durable.queues.get(topic, queue_id).map_or(0, |queue| queue.min())))
    }

    pub fn max_offset(&self, topic: &str, queue_id: i32) -> Result<i64> {
        self.with(|open| Ok(open.durable.queues.get(topic, queue_id).map_or(0, |queue| queue.max())))
    }

    /// Returns the queue unit at a queue offset: the position of the message and its tags code.
    pub fn unit_at(&self, topic: &str, queue_id: i32, queue_offset: i64) -> Result<Option<crate::Unit>> {
        self.with(|open| match open.durable.queues.get(topic, queue_id) {
            Some(queue) => queue.unit(queue_offset)?.map(|unit| open.durable.resolved(unit)).transpose(),
            None => Ok(None),
        })
    }

    /// Returns every queue that has had a message, sorted.
    pub fn queues(&self) -> Result<Vec<(String, i32)>> {
        self.with(|open| {
            let all = open.durable.queues.all();
            let mut names: Vec<_> = all.iter().map(|queue| (queue.topic.to_string(), queue.queue_id)).collect();
            names.sort();
            Ok(names)
        })
    }

    /// Returns the first offset of the log, −1 while it is empty.
    pub fn min_physical_offset(&self) -> Result<i64> {
        self.with(|open| Ok(open.durable.log.min()))
    }

    pub fn max_physical_offset(&self) -> Result<i64> {
        self.with(|open| Ok(open.durable.log.max() as i64))
    }

    /// Returns the offset below which everything is on disk.
    pub fn flushed_offset(&self) -> Result<i64> {
        self.with(|open| Ok(open.durable.flushed.get()))
    }

    /// Waits until everything below `offset` is on disk, and requests a flush if necessary. Returns false when the
    /// timeout is over.
    pub fn wait_flushed(&self, offset: i64, timeout: Duration) -> Result<bool> {
        // The lock is not held while waiting; otherwise the store could not be closed.
        let durable = self.with(|open| {
            if open.durable.flushed.get() < offset {
                open.flusher.ask();
            }
            Ok(open.durable.clone())
        })?;
        if durable.flushed.wait(offset, timeout) {
            return Ok(true);
        }
        match durable.flushed.failure() {
            Some(reason) => Err(StoreError::FlushFailed { path: self.root.clone(), reason: reason.into() }),
            None => Ok(false),
        }
    }

    /// Calls `work` with an eventfd that becomes readable whenever the flushed watermark rises.
    pub fn with_flushed_event<T>(&self, work: impl FnOnce(BorrowedFd<'_>) -> T) -> Result<T> {
        self.with(|open| Ok(work(open.durable.flushed.event())))
    }

    /// Runs one round of expiry. `used_ratio` overrides the used ratios of the file systems; the log may be on one of
    /// its own.
    pub fn clean(&self, rules: &CleanRules, now_ms: i64, due: bool, used_ratio: Option<f64>) -> Result<Cleaned> {
        let used_ratio = match used_ratio {
            Some(ratio) => ratio,
            None => disk_used_ratio(&self.root)?.max(disk_used_ratio(&self.root.join("commitlog"))?),
        };
        self.with(|open| {
            *open.refusal.lock().whole() = (used_ratio > rules.warn_ratio).then(|| {
                format!(
                    "the disk is {:.0} % full, appends stop above {:.0} %",
                    used_ratio * 100.0,
                    rules.warn_ratio * 100.0
                )
            });
            open.durable.clean(rules, now_ms, due, used_ratio)
        })
    }

    /// Deletes the queues of a topic. Its messages stay in the log, in no queue, until they expire.
    pub fn remove_topic(&self, topic: &str) -> Result<usize> {
        self.with(|open| open.durable.queues.remove(|queue| &*queue.topic == topic))
    }

    /// Deletes the queues whose messages have all left the log, except those of `kept_topic`. Their offsets begin at 0
    /// again.
    pub fn remove_expired_queues(&self, kept_topic: &str) -> Result<usize> {
        self.with(|open| {
            let min = open.durable.log.min();
            let durable = &open.durable;
            durable.queues.remove(|q| &*q.topic != kept_topic && q.max() > 0 && q.max_physical() <= min)
        })
    }

    /// Flushes everything to disk and leaves the directory as after a clean exit. Later calls do nothing. After an
    /// append that panicked the exit is not clean, so that the next opening recovers the directory.
    pub fn close(&self) -> Result<()> {
        let Some(mut open) = self.open.write().whole().take() else { return Ok(()) };
        let panicked = open.appender.is_poisoned();
        open.appender.get_mut().whole().stop()?;
        open.flusher.stop();
        open.durable.flush_log()?;
        if let Some(index) = &open.durable.index {
            index.drop_unused()?;
        }
        if !panicked {
            open.durable.write_checkpoint()?;
        }
        open.durable.flushed.fail("the store was closed".into());
        if panicked { Ok(()) } else { presence::mark_clean_exit(&self.root) }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn after_an_append_that_panicked_appends_are_refused_reads_go_on_and_the_exit_is_not_clean() {
        let place = tempfile::tempdir().expect("directory");
        let options = || Options { commit_log_file_size: 4096, ..Options::default() };
        let store = Store::open(place.path(), options()).expect("open");
        let panicked = catch_unwind(AssertUnwindSafe(|| store.append_with(|_| panic!("half-way"))));
        assert!(panicked.is_err());
        for _ in 0..2 {
            let refused = store.append_many(&[], 0, &mut Vec::new()).expect_err("must not append");
            assert!(matches!(refused, StoreError::Stopped { .. }), "{refused}");
        }
        assert_eq!(store.max_offset("T", 0).expect("read"), 0);
        store.close().expect("close");
        let again = Store::open(place.path(), options()).expect("open");
        assert!(!again.recovery().clean_exit);
        again.append_many(&[], 0, &mut Vec::new()).expect("append");
    }
}

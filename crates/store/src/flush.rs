//! The two threads that flush the mapped files to disk.
//!
//! *Log thread.* Async flush: each interval it writes the new pages; fewer pages than the minimum are written only once
//! per thorough interval. Sync flush: each append wakes it. While one `fdatasync` runs, further appends gather, and the
//! next `fdatasync` covers them all (group commit). In both modes it raises the *flushed* watermark, which
//! acknowledgements wait for.
//!
//! *Queue thread.* Consume queues and index can be rebuilt from the log, so no acknowledgement waits for them. They are
//! flushed with low urgency, and once per checkpoint interval completely; then the checkpoint records the message that
//! was the newest *before* that flush began.
//!
//! A failed flush is final: the kernel may have dropped the pages, and a second try could report success although data
//! is lost. The watermark fails, and appends are rejected.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use wire::record::{Lead, lead, physical_offset};

use crate::checkpoint::{Checkpoint, Mark};
use crate::commit_log::CommitLog;
use crate::error::{Result, StoreError};
use crate::index::Index;
use crate::locks::{Whole, panic_text};
use crate::mapped_file::PAGE;
use crate::options::{Flush, Options};
use crate::queue_table::QueueTable;
use crate::watermark::Watermark;

/// Maximum number of leading bytes of a record that its mark in the checkpoint covers: all fields of fixed length.
const MARKED_BYTES: u64 = 88;

/// Last message that was written to the log, its queue and the index.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Newest {
    pub start: u64,
    pub end: u64,
    pub store_ms: i64,
}

/// Everything that is flushed; shared with the appending side.
#[derive(Debug)]
pub(crate) struct Durable {
    pub log: Arc<CommitLog>,
    pub queues: QueueTable,
    pub index: Option<Index>,
    pub checkpoint: Checkpoint,
    pub flushed: Watermark,
    pub delay_levels_ms: Vec<i64>,
    /// `None` until this process has written or found a message.
    newest: Mutex<Option<Newest>>,
}

impl Durable {
    /// Loads every file of the directory as it is; recovery decides later how much of them is valid.
    pub fn load(root: &Path, options: &Options) -> Result<Durable> {
        Ok(Durable {
            log: Arc::new(CommitLog::load(root, options.commit_log_file_size)?),
            queues: QueueTable::load(root, options.consume_queue_file_size)?,
            index: if options.index_enabled { Some(Index::load(root, options)?) } else { None },
            checkpoint: Checkpoint::open(root)?,
            flushed: Watermark::new(0).map_err(|e| StoreError::io("making an eventfd for", root, 0, e))?,
            delay_levels_ms: options.delay_levels_ms.clone(),
            newest: Mutex::new(None),
        })
    }

    /// Records that everything up to the end of this message is in the log, the queues and the index.
    pub fn set_newest(&self, newest: Newest) {
        *self.newest.lock().whole() = Some(newest);
    }

    fn newest(&self) -> Option<Newest> {
        *self.newest.lock().whole()
    }

    /// Flushes the log up to its end and raises watermark and checkpoint.
    pub fn flush_log(&self) -> Result<()> {
        if let Some(reason) = self.flushed.failure() {
            return Err(StoreError::FlushFailed { path: self.log.files.dir.clone(), reason: reason.into() });
        }
        // Read the newest message before the position, so that the message lies below the position.
        let newest = self.newest();
        let target = self.log.max();
        let mut from = self.flushed.get() as u64;
        while from < target {
            let Some(file) = self.log.files.file_at(from) else {
                // This part expired before it was flushed.
                from = self.log.min().max(0) as u64;
                continue;
            };
            let to = target.min(file.end());
            let (first, len) = (from - file.start, to - from);
            // Data written to a lost page is not on disk.
            let flushed = file.flush(first, first + len).and_then(|()| file.check_readable(first, len));
            flushed.inspect_err(|e| self.flushed.fail(e.to_string()))?;
            from = to;
            self.flushed.raise(from as i64);
            if from == file.end() {
                file.release_pages();
            }
        }
        if let Some(newest) = newest {
            self.checkpoint.note_log(newest.store_ms);
        }
        Ok(())
    }

    pub fn flush_queues(&self, least_pages: u64) -> Result<()> {
        for queue in self.queues.all() {
            let dirty = queue.dirty_pages();
            if dirty > 0 && dirty >= least_pages {
                queue.flush()?;
            }
        }
        Ok(())
    }

    /// Flushes everything and records in the checkpoint that it is on disk. If nothing was written since, the
    /// checkpoint stays as it was.
    pub fn write_checkpoint(&self) -> Result<()> {
        let newest = self.newest();
        self.flush_queues(0)?;
        if let Some(newest) = newest {
            if self.flushed.get() < newest.end as i64 {
                self.flush_log()?;
            }
            self.checkpoint.note_queues(newest.store_ms, self.mark(newest.start, newest.end));
        }
        if let Some(index) = &self.index {
            let full_until_ms = index.full_until()?;
            index.flush()?;
            let end = newest.map(|newest| newest.end).or(self.checkpoint.index_end());
            self.checkpoint.note_index(full_until_ms, end.unwrap_or(0));
        }
        match self.checkpoint.write() {
            // The old checkpoint is still valid. It covers less, which costs time after a crash and loses no message.
            Err(StoreError::DiskFull { .. }) => Ok(()),
            written => written,
        }
    }

    /// Returns the mark of the record at `[start, end)` as the log file has it, or `None` if the record cannot be read.
    pub fn mark(&self, start: u64, end: u64) -> Option<Mark> {
        let file = self.log.files.file_at(start).filter(|file| start < end && end <= file.end())?;
        let mut bytes = [0u8; MARKED_BYTES as usize];
        let bytes = &mut bytes[..(end - start).min(MARKED_BYTES) as usize];
        file.read_at(&file.open_for_reading().ok()?, start - file.start, bytes).ok()?;
        let is_record = matches!(lead(bytes), Lead::Message { total_size } if total_size as u64 == end - start);
        let knows_its_place = physical_offset(bytes) == Some(start as i64);
        (is_record && knows_its_place).then(|| Mark { start, end, check: wire::crc::body_crc(bytes) })
    }
}

#[derive(Debug, Default)]
struct Signal {
    state: Mutex<(bool, bool)>, // (flush requested, stop requested)
    changed: Condvar,
}

impl Signal {
    fn ask(&self) {
        let mut state = self.state.lock().whole();
        if !state.0 {
            state.0 = true;
            self.changed.notify_one();
        }
    }

    fn stop(&self) {
        self.state.lock().whole().1 = true;
        self.changed.notify_one();
    }

    /// Waits until a flush is requested or the interval is over. Returns `None` when the thread must stop, else true if
    /// a flush was requested.
    fn wait(&self, interval: Duration) -> Option<bool> {
        let state = self.state.lock().whole();
        let wait = self.changed.wait_timeout_while(state, interval, |(asked, stopping)| !*asked && !*stopping);
        let mut state = wait.whole().0;
        let asked = std::mem::take(&mut state.0);
        (!state.1).then_some(asked)
    }
}

#[derive(Debug)]
pub(crate) struct Flusher {
    sync: bool,
    log_signal: Arc<Signal>,
    queue_signal: Arc<Signal>,
    threads: Vec<JoinHandle<()>>,
}

impl Flusher {
    pub fn start(durable: &Arc<Durable>, options: &Options) -> Result<Flusher> {
        let mut flusher = Flusher {
            sync: options.flush == Flush::Sync,
            log_signal: Arc::default(),
            queue_signal: Arc::default(),
            threads: Vec::new(),
        };
        let (signal, shared, settings) = (flusher.log_signal.clone(), durable.clone(), options.clone());
        flusher.spawn("orbitmq-log", durable, move || flush_log_forever(&shared, &settings, &signal))?;
        let (signal, shared, settings) = (flusher.queue_signal.clone(), durable.clone(), options.clone());
        flusher.spawn("orbitmq-queues", durable, move || flush_queues_forever(&shared, &settings, &signal))?;
        Ok(flusher)
    }

    fn spawn(&mut self, name: &str, durable: &Arc<Durable>, work: impl FnOnce() + Send + 'static) -> Result<()> {
        // If the thread ended without failing the watermark, appends would wait for it for ever.
        let shared = durable.clone();
        let guarded = move || {
            if let Err(payload) = catch_unwind(AssertUnwindSafe(work)) {
                shared.flushed.fail(format!("a thread that flushes panicked: {}", panic_text(&*payload)));
            }
        };
        let thread = std::thread::Builder::new()
            .name(name.into())
            .spawn(guarded)
            .map_err(|e| StoreError::io("starting a thread for", &durable.log.files.dir, 0, e))?;
        self.threads.push(thread);
        Ok(())
    }

    /// Notifies the log thread; called after each append.
    #[inline]
    pub fn appended(&self) {
        if self.sync {
            self.log_signal.ask();
        }
    }

    /// Requests a flush now, whatever the mode.
    pub fn ask(&self) {
        self.log_signal.ask();
    }

    pub fn stop(&mut self) {
        self.log_signal.stop();
        self.queue_signal.stop();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Drop for Flusher {
    fn drop(&mut self) {
        self.stop();
    }
}

fn flush_log_forever(durable: &Durable, options: &Options, signal: &Signal) {
    let interval = Duration::from_millis(options.flush_interval_ms);
    let thorough_interval = Duration::from_millis(options.flush_thorough_interval_ms);
    let mut last_thorough = Instant::now();
    while let Some(asked) = signal.wait(interval) {
        let dirty = durable.log.max().saturating_sub(durable.flushed.get() as u64);
        let thorough = last_thorough.elapsed() >= thorough_interval;
        if dirty == 0 || !(asked || thorough || dirty >= options.flush_least_pages * PAGE) {
            continue;
        }
        if thorough {
            last_thorough = Instant::now();
        }
        if durable.flush_log().is_err() {
            return; // The watermark carries the reason to every thread that waits or appends.
        }
    }
}

fn flush_queues_forever(durable: &Durable, options: &Options, signal: &Signal) {
    let interval = Duration::from_millis(options.queue_flush_interval_ms.min(options.checkpoint_interval_ms));
    let checkpoint_interval = Duration::from_millis(options.checkpoint_interval_ms);
    let mut last_checkpoint = Instant::now();
    while signal.wait(interval).is_some() {
        let done = if last_checkpoint.elapsed() >= checkpoint_interval {
            last_checkpoint = Instant::now();
            durable.write_checkpoint()
        } else {
            durable.flush_queues(options.queue_flush_least_pages)
        };
        if let Err(error) = done {
            durable.flushed.fail(error.to_string());
            return;
        }
    }
}

//! Thread that prepares the log ahead of its writer.
//!
//! The first access to a mapped page costs more than all other steps of an append, and a new file costs a directory
//! sync. So while the writer is busy this thread reserves and populates the pages needed next, across the end of the
//! file. It also creates the next file in time. The distance depends on the pace of the writer: the bytes it would fill
//! within two seconds. So a burst finds prepared pages, and an idle log holds no memory needlessly.
//!
//! The thread is only an optimisation: the writer itself prepares what is not ready, and errors (a full disk) are left
//! for the writer to find and report.

use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::commit_log::CommitLog;
use crate::error::Result;
use crate::locks::Whole;
use crate::mapped_file::MappedFile;

/// Number of bytes populated at once; after each chunk the thread reads the position of the writer.
const CHUNK: u64 = 8 << 20;
/// Time for which the writer should find everything prepared.
const LEAD: Duration = Duration::from_secs(2);

#[derive(Debug, Default)]
struct Plan {
    /// File being written and position of the writer, if not processed yet.
    news: Option<(Arc<MappedFile>, u64)>,
    spare: Option<Arc<MappedFile>>,
    /// Start of the newest file that the writer has requested. A spare file finished after that is in use already and
    /// must not be kept.
    claimed: Option<u64>,
    stopping: bool,
}

#[derive(Debug)]
struct Shared {
    log: Arc<CommitLog>,
    least_ahead: u64,
    plan: Mutex<Plan>,
    wake: Condvar,
}

#[derive(Debug)]
pub(crate) struct Preallocator {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Preallocator {
    pub fn start(log: Arc<CommitLog>, least_ahead: u64) -> Result<Preallocator> {
        let shared = Arc::new(Shared { log, least_ahead, plan: Mutex::default(), wake: Condvar::new() });
        let worker = shared.clone();
        let thread = std::thread::Builder::new()
            .name("orbitmq-prealloc".into())
            .spawn(move || worker.run())
            .map_err(|e| crate::StoreError::io("starting a thread for", &shared.log.files.dir, 0, e))?;
        Ok(Preallocator { shared, thread: Some(thread) })
    }

    /// Passes the position of the writer to the thread. Called each time the writer has used a quarter of the minimum
    /// that is kept ready.
    pub fn advance(&self, file: &Arc<MappedFile>, pos: u64) {
        self.shared.plan.lock().whole().news = Some((file.clone(), pos));
        self.shared.wake.notify_one();
    }

    /// Returns the file created in advance for `start`, if it is ready.
    pub fn take_spare(&self, start: u64) -> Option<Arc<MappedFile>> {
        let mut plan = self.shared.plan.lock().whole();
        plan.claimed = Some(start);
        plan.spare.take_if(|spare| spare.start == start)
    }

    /// Takes back a file that could not be used yet.
    pub fn give_back(&self, spare: Arc<MappedFile>) {
        self.shared.plan.lock().whole().spare = Some(spare);
    }

    /// Stops the thread and removes the unused file, so that the log of a cleanly closed directory ends with its last
    /// record.
    pub fn stop(&mut self) -> Result<()> {
        if let Some(thread) = self.thread.take() {
            self.shared.plan.lock().whole().stopping = true;
            self.shared.wake.notify_one();
            let _ = thread.join();
        }
        match self.shared.plan.lock().whole().spare.take() {
            Some(spare) => spare.delete(),
            None => Ok(()),
        }
    }
}

impl Drop for Preallocator {
    fn drop(&mut self) {
        let _ = self.stop();
    }
}

impl Shared {
    fn run(&self) {
        give_way();
        let mut pace = Pace::new(self.least_ahead, self.log.files.file_size);
        // Everything from the writer's position to `ready` is prepared.
        let mut ready = 0;
        while let Some((file, pos)) = self.wait_for_news() {
            let writer = file.start + pos;
            let goal = writer + pace.window(writer, Instant::now());
            ready = ready.max(writer);
            while ready < goal && !self.has_news() {
                match self.prepare(&file, ready, goal) {
                    Some(end) => ready = end,
                    None => break,
                }
            }
        }
    }

    /// Waits for a new position of the writer; returns `None` when the thread must stop.
    fn wait_for_news(&self) -> Option<(Arc<MappedFile>, u64)> {
        let mut plan = self.plan.lock().whole();
        loop {
            if plan.stopping {
                return None;
            }
            if let Some(news) = plan.news.take() {
                return Some(news);
            }
            plan = self.wake.wait(plan).whole();
        }
    }

    fn has_news(&self) -> bool {
        let plan = self.plan.lock().whole();
        plan.stopping || plan.news.is_some()
    }

    /// Prepares one more chunk, in the file being written or in the one after it. Returns the end of the chunk, `None`
    /// if that failed.
    fn prepare(&self, file: &Arc<MappedFile>, from: u64, goal: u64) -> Option<u64> {
        let target = if from < file.end() { file.clone() } else { self.spare(file.end())? };
        let end = goal.min(from + CHUNK).min(target.end());
        let (first, last) = (from.checked_sub(target.start)?, end.checked_sub(target.start)?);
        target.reserve(last, 0).and_then(|()| target.populate(first, last)).ok()?;
        if goal > file.end() - file.size / 4 {
            // Near the end the next file is created even if none of it is populated yet.
            self.spare(file.end());
        }
        (last > first).then_some(end)
    }

    /// Returns the file created in advance for `start`, creating it if necessary; `None` if the writer was faster.
    fn spare(&self, start: u64) -> Option<Arc<MappedFile>> {
        if let Some(spare) = self.plan.lock().whole().spare.as_ref() {
            return (spare.start == start).then(|| spare.clone());
        }
        if self.log.files.file_at(start).is_some() {
            return None;
        }
        let made = self.log.files.make(start).ok()?;
        let mut plan = self.plan.lock().whole();
        if plan.claimed.is_some_and(|claimed| claimed >= start) {
            return None;
        }
        plan.spare = Some(made.clone());
        Some(made)
    }
}

/// Lowers the priority of this thread: where cores are few, the writer comes first.
fn give_way() {
    const NICENESS: libc::c_int = 10;
    // SAFETY: plain system calls about the calling thread. A refusal by the kernel does no harm.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, libc::gettid() as libc::id_t, NICENESS) };
}

/// Measures the pace of the writer, which determines how far ahead of it to work.
struct Pace {
    least: u64,
    most: u64,
    last: Option<(u64, Instant)>,
}

impl Pace {
    fn new(least: u64, most: u64) -> Pace {
        Pace { least: least.min(most), most, last: None }
    }

    fn window(&mut self, writer: u64, now: Instant) -> u64 {
        let last = self.last.replace((writer, now));
        let Some((before, then)) = last else { return self.least };
        let elapsed_s = now.duration_since(then).as_secs_f64().max(1e-6);
        let filled = writer.saturating_sub(before) as f64 / elapsed_s * LEAD.as_secs_f64();
        (filled as u64).clamp(self.least, self.most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_follows_the_pace_within_its_bounds() {
        let mut pace = Pace::new(16, 1000);
        let start = Instant::now();
        let after = |ms| start + Duration::from_millis(ms);
        assert_eq!(pace.window(0, start), 16, "nothing is known of the pace yet");
        assert_eq!(pace.window(100, after(1000)), 200, "two seconds' worth");
        assert_eq!(pace.window(100_000, after(2000)), 1000, "not more than a file");
        assert_eq!(pace.window(100_001, after(60_000)), 16, "idle again");
    }
}

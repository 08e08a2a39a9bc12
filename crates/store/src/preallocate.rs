//! The thread that prepares the log ahead of its writer.
//!
//! First touch of a mapped page costs more than everything else an append does, and a new file costs a directory sync. So while the
//! writer fills the current file this thread reserves and populates the stretch before it, and when the file is three quarters full
//! makes the next one. It is an optimisation only: whatever is not ready, the writer does itself, and errors (a full disk) are left
//! for the writer to meet and report.

use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;

use crate::commit_log::CommitLog;
use crate::error::Result;
use crate::mapped_file::MappedFile;

#[derive(Debug, Default)]
struct Plan {
    /// The file being written and how far its writer is.
    current: Option<(Arc<MappedFile>, u64)>,
    spare: Option<Arc<MappedFile>>,
    /// Start of the newest file the writer has asked for. A spare finished later than that is in use already and not ours to keep.
    claimed: Option<u64>,
    stopping: bool,
}

#[derive(Debug)]
struct Shared {
    log: Arc<CommitLog>,
    ahead: u64,
    plan: Mutex<Plan>,
    wake: Condvar,
}

#[derive(Debug)]
pub(crate) struct Preallocator {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Preallocator {
    pub fn start(log: Arc<CommitLog>, ahead: u64) -> Result<Preallocator> {
        let shared = Arc::new(Shared { log, ahead, plan: Mutex::default(), wake: Condvar::new() });
        let worker = shared.clone();
        let thread = std::thread::Builder::new()
            .name("orbitmq-prealloc".into())
            .spawn(move || worker.run())
            .map_err(|e| crate::StoreError::io("starting a thread for", &shared.log.files.dir, 0, e))?;
        Ok(Preallocator { shared, thread: Some(thread) })
    }

    /// Tells how far the writer is. Called each time it has used up a quarter of what was populated.
    pub fn advance(&self, file: &Arc<MappedFile>, pos: u64) {
        self.shared.plan.lock().expect("preallocation lock").current = Some((file.clone(), pos));
        self.shared.wake.notify_one();
    }

    /// The file made in advance for `start`, if it is ready.
    pub fn take_spare(&self, start: u64) -> Option<Arc<MappedFile>> {
        let mut plan = self.shared.plan.lock().expect("preallocation lock");
        plan.claimed = Some(start);
        plan.spare.take_if(|spare| spare.start == start)
    }

    /// Stops the thread and removes the unused file, so that a clean directory ends with its last record.
    pub fn stop(&mut self) -> Result<()> {
        if let Some(thread) = self.thread.take() {
            self.shared.plan.lock().expect("preallocation lock").stopping = true;
            self.shared.wake.notify_one();
            let _ = thread.join();
        }
        match self.shared.plan.lock().expect("preallocation lock").spare.take() {
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
        // Which file was populated how far.
        let mut populated = (0, 0);
        let mut plan = self.plan.lock().expect("preallocation lock");
        while !plan.stopping {
            let Some((file, pos)) = plan.current.take() else {
                plan = self.wake.wait(plan).expect("preallocation lock");
                continue;
            };
            let spare_due = plan.spare.is_none() && pos + self.ahead > file.size / 4 * 3;
            drop(plan);

            let from = if populated.0 == file.start { populated.1.max(pos) } else { pos };
            populated = (file.start, self.populate(&file, from, (pos + self.ahead).min(file.size)));
            let spare = if spare_due { self.make_spare(file.end()) } else { None };

            plan = self.plan.lock().expect("preallocation lock");
            if let Some(spare) = spare.filter(|spare| plan.claimed.is_none_or(|claimed| claimed < spare.start)) {
                plan.spare = Some(spare);
            }
        }
    }

    /// Returns how far the file is populated now.
    fn populate(&self, file: &MappedFile, from: u64, to: u64) -> u64 {
        match file.reserve(to, 0).and_then(|()| file.populate(from, to)) {
            Ok(()) => to.max(from),
            Err(_) => from,
        }
    }

    fn make_spare(&self, start: u64) -> Option<Arc<MappedFile>> {
        if self.log.files.file_at(start).is_some() {
            return None;
        }
        let spare = self.log.files.make(start).ok()?;
        self.populate(&spare, 0, self.ahead.min(spare.size));
        Some(spare)
    }
}

//! Position that only rises, with waiting threads.
//!
//! There are two ways to wait: blocking a thread, or watching an eventfd that becomes readable with every rise, so that
//! an event loop is notified without a thread of its own.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Condvar, Mutex, OnceLock};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, eventfd};

use crate::locks::Whole;

#[derive(Debug)]
pub(crate) struct Watermark {
    position: AtomicI64,
    /// Reason why no rise can be expected any more; set once.
    failure: OnceLock<String>,
    lock: Mutex<()>,
    risen: Condvar,
    event: OwnedFd,
}

impl Watermark {
    pub fn new(position: i64) -> std::io::Result<Watermark> {
        Ok(Watermark {
            position: AtomicI64::new(position),
            failure: OnceLock::new(),
            lock: Mutex::new(()),
            risen: Condvar::new(),
            event: eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?,
        })
    }

    pub fn get(&self) -> i64 {
        self.position.load(Ordering::Acquire)
    }

    pub fn raise(&self, position: i64) {
        if self.position.fetch_max(position, Ordering::AcqRel) < position {
            self.announce();
        }
    }

    pub fn fail(&self, reason: String) {
        if self.failure.set(reason).is_ok() {
            self.announce();
        }
    }

    pub fn failure(&self) -> Option<&str> {
        self.failure.get().map(String::as_str)
    }

    fn announce(&self) {
        drop(self.lock.lock().whole());
        self.risen.notify_all();
        // A full counter means that the event is pending anyway.
        let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
    }

    /// Waits until the position has reached `position`. Returns false when the timeout is over or no rise can follow
    /// any more.
    pub fn wait(&self, position: i64, timeout: Duration) -> bool {
        let deadline = Instant::now().checked_add(timeout);
        let mut guard = self.lock.lock().whole();
        while self.get() < position {
            if self.failure.get().is_some() {
                return false;
            }
            let left = deadline.map_or(Duration::from_secs(3600), |d| d.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return false;
            }
            guard = self.risen.wait_timeout(guard, left).whole().0;
        }
        true
    }

    pub fn event(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

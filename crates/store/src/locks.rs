//! Use of locks after a panic.
//!
//! A lock is poisoned when its holder panics, and `expect` would make every later request panic, too. The data behind
//! these locks (lists of files, flags, a plan) is changed by single assignments. So it is consistent at any moment, and
//! the next holder can continue. The append lock is different: see `Store::append_with`.

use std::any::Any;
use std::sync::{LockResult, PoisonError};

pub(crate) trait Whole<T> {
    /// Returns the guard, also if an earlier holder panicked.
    fn whole(self) -> T;
}

impl<T> Whole<T> for LockResult<T> {
    #[inline]
    fn whole(self) -> T {
        self.unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the message of a panic.
pub fn panic_text(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("a panic without words").to_owned()
}

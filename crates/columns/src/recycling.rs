//! Reuse of the memory of columns: it comes back when the consumer of a batch drops it, and is filled again.
//!
//! A batch needs some megabytes at a time. An allocator returns memory of that size to the system as soon as it is
//! free. For the next batch it gets the memory again, page by page and filled with zeros, which costs as much as
//! building the columns.

use std::sync::{Arc, Mutex, PoisonError};

use arrow_buffer::Buffer;
use bytes::Bytes;

/// Smaller blocks are kept by the allocator itself.
const WORTH_KEEPING: usize = 64 << 10;
/// Larger blocks are needed only for single messages that are larger than all others, and then probably not again.
const TOO_LARGE: usize = 128 << 20;
/// Maximum number of free blocks per column.
const SPARES: usize = 4;

/// Free memory of one column.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spares(Arc<Mutex<Vec<Vec<u8>>>>);

impl Spares {
    /// Returns an empty vector with room for `capacity` bytes.
    pub fn take(&self, capacity: usize) -> Vec<u8> {
        let spare = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        spare.unwrap_or_else(|| Vec::with_capacity(capacity))
    }

    /// Returns a buffer of the bytes for a column; their memory comes back when the buffer is dropped.
    pub fn lend(&self, bytes: Vec<u8>) -> Buffer {
        if !(WORTH_KEEPING..TOO_LARGE).contains(&bytes.capacity()) {
            return Buffer::from_vec(bytes);
        }
        Buffer::from(Bytes::from_owner(Lent { bytes, home: self.clone() }))
    }
}

struct Lent {
    bytes: Vec<u8>,
    home: Spares,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let mut spares = self.home.0.lock().unwrap_or_else(PoisonError::into_inner);
        if spares.len() < SPARES {
            self.bytes.clear();
            spares.push(std::mem::take(&mut self.bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_filled_again_only_when_nobody_has_it() {
        let spares = Spares::default();
        let column = spares.lend(vec![7; WORTH_KEEPING]);
        let copy = column.clone();
        let place = column.as_ptr();
        drop(column);
        assert_eq!(spares.take(0).capacity(), 0, "somebody still reads it");
        drop(copy);
        let again = spares.take(0);
        assert_eq!((again.as_ptr(), again.len(), again.capacity()), (place, 0, WORTH_KEEPING));
    }

    #[test]
    fn memory_of_a_giant_is_not_kept() {
        let spares = Spares::default();
        drop(spares.lend(Vec::with_capacity(TOO_LARGE)));
        assert_eq!(spares.take(0).capacity(), 0);
    }

    #[test]
    fn what_is_free_has_a_bound() {
        let spares = Spares::default();
        let columns: Vec<_> = (0..3 * SPARES).map(|_| spares.lend(vec![7; WORTH_KEEPING])).collect();
        drop(columns);
        assert_eq!(spares.0.lock().unwrap().len(), SPARES);
    }
}

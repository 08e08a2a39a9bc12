//! `bytes` object that is filled step by step.
//!
//! Python's own function for one of a given size fills it with zeros first, which for a response of a megabyte costs as
//! much as copying it. Here the memory is left uninitialised; the object is not visible to other code before each of
//! its bytes has been written.
use std::mem::MaybeUninit;
use std::ptr::NonNull;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// `bytes` object of which the first `filled` of `len` bytes are written.
pub struct FilledBytes {
    object: Py<PyBytes>,
    memory: NonNull<MaybeUninit<u8>>,
    len: usize,
    filled: usize,
}

// SAFETY: the memory belongs to the object, which lives as long as this struct and has no other owner.
unsafe impl Send for FilledBytes {}
// SAFETY: as above, and nothing is read or written through a shared reference.
unsafe impl Sync for FilledBytes {}

impl FilledBytes {
    /// Creates an object with room for `len` bytes.
    pub fn new(py: Python<'_>, len: usize) -> PyResult<FilledBytes> {
        let size = ffi::Py_ssize_t::try_from(len)?;
        // SAFETY: without a source Python creates an object of this size and leaves it to the caller to write its
        // bytes.
        let object =
            unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyBytes_FromStringAndSize(std::ptr::null(), size))? };
        // SAFETY: it is a `bytes` object, whose memory stays at its address.
        let memory = unsafe { ffi::PyBytes_AsString(object.as_ptr()) };
        let memory = NonNull::new(memory.cast()).ok_or_else(|| PyErr::fetch(py))?;
        Ok(FilledBytes { object: object.cast_into::<PyBytes>()?.unbind(), memory, len, filled: 0 })
    }

    /// Returns the part that is not written yet.
    pub fn rest(&mut self) -> &mut [MaybeUninit<u8>] {
        // SAFETY: the object has `len` bytes, and this struct is its only owner.
        unsafe { std::slice::from_raw_parts_mut(self.memory.as_ptr().add(self.filled), self.len - self.filled) }
    }

    /// Counts bytes as written.
    ///
    /// # Safety
    /// The first `count` bytes of [`FilledBytes::rest`] must have been written.
    pub unsafe fn advance(&mut self, count: usize) {
        assert!(count <= self.len - self.filled, "no more than there is room for");
        self.filled += count;
    }

    /// Writes the next bytes.
    ///
    /// # Panics
    /// If there is no room for them.
    pub fn push(&mut self, bytes: &[u8]) {
        let room = &mut self.rest()[..bytes.len()];
        // SAFETY: written and unwritten bytes have one layout.
        room.copy_from_slice(unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len()) });
        // SAFETY: these bytes were written just now.
        unsafe { self.advance(bytes.len()) };
    }

    /// True if all bytes are written.
    pub fn is_whole(&self) -> bool {
        self.filled == self.len
    }

    /// Returns the object, which may then be shared.
    ///
    /// # Panics
    /// If not all bytes are written.
    pub fn finish(self) -> Py<PyBytes> {
        assert!(self.is_whole(), "{} of {} bytes are written", self.filled, self.len);
        self.object
    }
}

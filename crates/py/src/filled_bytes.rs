//! A `bytes` object that is filled step by step.
//!
//! Python's own way to make one of a given size fills it with zeros first, which for an answer of a megabyte costs as much as copying
//! it. Here the memory is as it was found; nobody sees the object before each of its bytes has been written.
use std::mem::MaybeUninit;
use std::ptr::NonNull;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// A `bytes` object of which the first `filled` of `len` bytes are written.
pub struct FilledBytes {
    object: Py<PyBytes>,
    memory: NonNull<MaybeUninit<u8>>,
    len: usize,
    filled: usize,
}

// SAFETY: the memory belongs to the object, which lives as long as this does and which nobody else has.
unsafe impl Send for FilledBytes {}
// SAFETY: as above, and through a shared reference nothing is read or written.
unsafe impl Sync for FilledBytes {}

impl FilledBytes {
    /// Room for `len` bytes.
    pub fn new(py: Python<'_>, len: usize) -> PyResult<FilledBytes> {
        let size = ffi::Py_ssize_t::try_from(len)?;
        // SAFETY: without a source Python makes an object of this size and leaves it to the caller to write its bytes.
        let object =
            unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyBytes_FromStringAndSize(std::ptr::null(), size))? };
        // SAFETY: it is a `bytes` object, whose memory stays where it is.
        let memory = unsafe { ffi::PyBytes_AsString(object.as_ptr()) };
        let memory = NonNull::new(memory.cast()).ok_or_else(|| PyErr::fetch(py))?;
        Ok(FilledBytes { object: object.cast_into::<PyBytes>()?.unbind(), memory, len, filled: 0 })
    }

    /// What is not written yet.
    pub fn rest(&mut self) -> &mut [MaybeUninit<u8>] {
        // SAFETY: the object has `len` bytes, and only this has the object.
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
    /// When there is no room for them.
    pub fn push(&mut self, bytes: &[u8]) {
        let room = &mut self.rest()[..bytes.len()];
        // SAFETY: written and unwritten bytes have one layout.
        room.copy_from_slice(unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len()) });
        // SAFETY: they were written just now.
        unsafe { self.advance(bytes.len()) };
    }

    /// Whether all is written.
    pub fn is_whole(&self) -> bool {
        self.filled == self.len
    }

    /// The object, for everybody.
    ///
    /// # Panics
    /// When it is not whole.
    pub fn finish(self) -> Py<PyBytes> {
        assert!(self.is_whole(), "{} of {} bytes are written", self.filled, self.len);
        self.object
    }
}

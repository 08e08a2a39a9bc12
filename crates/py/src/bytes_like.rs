//! Arguments with bytes: `bytes` is used as it is, any other buffer is copied once.
//!
//! A `bytes` object never changes, so a class may keep it and slice views out of it as long as it lives. A `bytearray`
//! or a `memoryview` may change as soon as the call returns, hence the copy.
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// Bytes of an argument, as an object that can be kept.
pub struct BytesLike(pub Py<PyBytes>);

impl<'py> FromPyObject<'_, 'py> for BytesLike {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(bytes) = object.cast::<PyBytes>() {
            return Ok(BytesLike(bytes.to_owned().unbind()));
        }
        let py = object.py();
        let buffer = PyBuffer::<u8>::get(&object)?;
        let copied = PyBytes::new_with(py, buffer.len_bytes(), |room| buffer.copy_to_slice(py, room))?;
        Ok(BytesLike(copied.unbind()))
    }
}

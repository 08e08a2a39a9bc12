//! The one place where Rust errors become the classes of `orbitmq.errors`.
//!
//! The classes are written in Python, where people read and catch them; here each error of the crates is given its class, its
//! text and, where they apply, the `path` and `offset` it speaks of.
use std::path::Path;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use wire::RecordError;

/// An instance of `orbitmq.errors.<class>`; or whatever went wrong while making it.
fn instance(py: Python<'_>, class: &str, text: String, path: Option<&Path>, offset: Option<u64>) -> PyErr {
    let made = (|| {
        let arguments = PyDict::new(py);
        if let Some(path) = path {
            arguments.set_item("path", path)?;
        }
        if let Some(offset) = offset {
            arguments.set_item("offset", offset)?;
        }
        py.import("orbitmq.errors")?.getattr(class)?.call((text,), Some(&arguments))
    })();
    made.map_or_else(|failure| failure, PyErr::from_value)
}

/// A record that cannot be read, or values that cannot become one; `at` is where it begins in the bytes given.
pub fn record_error(py: Python<'_>, error: RecordError, at: usize) -> PyErr {
    instance(py, "MalformedRecord", format!("record at byte {at}: {error}"), None, Some(at as u64))
}

//! Conversion of Rust errors into the classes of `orbitmq.errors`, in one place.
//!
//! The classes are written in Python, where people read and catch them; here each error of the crates gets its class,
//! its text and, where they apply, its `path` and `offset`.
use std::io;
use std::path::{Path, PathBuf};

use columns::packing::PackError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use store::StoreError;
use store::stored_ids::{BadSnapshot, NotTaken};
use wire::RecordError;
use wire::batch::BatchError;
use wire::compression::CompressionError;
use wire::filter::FilterError;
use wire::frame::FrameError;
use wire::ids::IdError;
use wire::json::JsonError;

/// Creates an instance of `orbitmq.errors.<class>`, or returns the error raised while creating it.
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

/// Converts the error of a record that cannot be decoded or encoded; `at` is its position in the bytes given.
pub fn record_error(py: Python<'_>, error: RecordError, at: usize) -> PyErr {
    instance(py, "MalformedRecord", format!("record at byte {at}: {error}"), None, Some(at as u64))
}

/// Converts the error of a frame or command that cannot be decoded or encoded; `at` is its position in the stream.
pub fn frame_error(py: Python<'_>, error: FrameError, at: Option<u64>) -> PyErr {
    let class = match error {
        FrameError::TooLong { .. } => "FrameTooLarge",
        FrameError::BadLength { .. } | FrameError::HeaderTooLong { .. } | FrameError::UnknownEncoding(_) => {
            "MalformedFrame"
        }
        FrameError::Header(_) => "MalformedHeader",
    };
    instance(py, class, error.to_string(), None, at)
}

/// Creates the error for an ext field that is missing or is not a number.
pub fn header_fault(py: Python<'_>, text: String) -> PyErr {
    instance(py, "HeaderFault", text, None, None)
}

/// Converts the error of text that is not JSON.
pub fn json_error(py: Python<'_>, error: JsonError) -> PyErr {
    instance(py, "MalformedJson", error.to_string(), None, Some(error.at as u64))
}

/// Creates the error for JSON that has no Python value.
pub fn json_error_without_place(py: Python<'_>, text: String) -> PyErr {
    instance(py, "MalformedJson", text, None, None)
}

/// Converts the error of a batch that cannot be decoded or encoded; `at` is the position of the message in the batch.
pub fn batch_error(py: Python<'_>, error: BatchError, at: usize) -> PyErr {
    instance(py, "MalformedBatch", format!("message at byte {at}: {error}"), None, Some(at as u64))
}

/// Converts the error of text that is not a message id.
pub fn id_error(py: Python<'_>, error: IdError) -> PyErr {
    instance(py, "MalformedId", error.to_string(), None, None)
}

/// Converts the error of a body that cannot be decompressed.
pub fn compression_error(py: Python<'_>, error: &CompressionError) -> PyErr {
    instance(py, "MalformedBody", error.to_string(), None, None)
}

/// Like [`compression_error`], with a text that names the message.
pub fn compression_error_in(py: Python<'_>, text: String) -> PyErr {
    instance(py, "MalformedBody", text, None, None)
}

/// Converts the error of a text that is not a valid selector.
pub fn filter_error(py: Python<'_>, error: &FilterError) -> PyErr {
    let class = if matches!(error, FilterError::Limit(_)) { "FilterTooLarge" } else { "MalformedFilter" };
    instance(py, class, error.to_string(), None, None)
}

/// Converts the error of a row that cannot be sent.
pub fn pack_error(py: Python<'_>, error: &PackError) -> PyErr {
    instance(py, "BadMessage", error.to_string(), None, None)
}

/// Converts the error of an exactly-once sender's batch that is rejected.
pub fn not_taken(py: Python<'_>, error: &NotTaken) -> PyErr {
    instance(py, "BatchNotTaken", error.to_string(), None, None)
}

/// Converts the error of bytes that are not a snapshot of stored ids.
pub fn snapshot_error(py: Python<'_>, error: BadSnapshot) -> PyErr {
    instance(py, "WireError", error.to_string(), None, None)
}

/// Creates the error for a message id that is not 32 hex digits.
pub fn unknown_id(py: Python<'_>, id: &str) -> PyErr {
    instance(py, "MalformedId", format!("{id:?} is not an id of 32 hex digits"), None, None)
}

/// Converts an error of a store directory.
pub fn store_error(py: Python<'_>, error: &StoreError) -> PyErr {
    let (class, path, offset) = match error {
        StoreError::Locked { path, .. } => ("StoreLocked", Some(path), None),
        StoreError::ReadOnly { path, .. } => ("ReadOnlyStore", Some(path), None),
        StoreError::DiskFull { path, offset, .. } => ("DiskFull", Some(path), Some(*offset)),
        StoreError::RecordTooLarge { .. } => ("RecordTooLarge", None, None),
        StoreError::InvalidOptions { .. } => ("InvalidOptions", None, None),
        StoreError::InvalidMessage { .. } => ("InvalidMessage", None, None),
        StoreError::WrongFileSize { path, .. } => ("WrongFileSize", Some(path), None),
        StoreError::NoStore { path } => ("NoStore", Some(path), None),
        StoreError::StrayFile { path } => ("StrayFile", Some(path), None),
        StoreError::MissingFile { path } => ("MissingFile", Some(path), None),
        StoreError::LogGap { path, start, .. } => ("MissingFile", Some(path), Some(*start)),
        StoreError::FileExpired { path, start, .. } => ("FileExpired", Some(path), Some(*start)),
        StoreError::Stopped { path } => ("FlushFailed", Some(path), None),
        StoreError::Panicked { path, .. } => ("StorePanic", Some(path), None),
        StoreError::Corrupt { path, offset, .. } => ("CorruptStore", Some(path), Some(*offset)),
        StoreError::Io { path, .. } => ("StoreIOError", Some(path), None),
        StoreError::FlushFailed { path, .. } => ("FlushFailed", Some(path), None),
        StoreError::Closed { path } => ("StoreClosed", Some(path), None),
    };
    instance(py, class, error.to_string(), path.map(PathBuf::as_path), offset)
}

/// Like [`store_error`], with the messages appended before the error.
pub fn append_error(py: Python<'_>, error: &StoreError, appended: Bound<'_, PyList>) -> PyErr {
    let raised = store_error(py, error);
    match raised.value(py).setattr("appended", appended) {
        Ok(()) => raised,
        Err(failure) => failure,
    }
}

/// Converts an operating-system error that does not concern a file of the store.
pub fn store_os_error(py: Python<'_>, error: io::Error, root: &Path) -> PyErr {
    instance(py, "StoreIOError", error.to_string(), Some(root), None)
}

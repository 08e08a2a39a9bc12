//! The one place where Rust errors become the classes of `orbitmq.errors`.
//!
//! The classes are written in Python, where people read and catch them; here each error of the crates is given its class, its
//! text and, where they apply, the `path` and `offset` it speaks of.
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

/// A frame that cannot be cut or read, or a command that cannot become one; `at` is where it begins in the stream.
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

/// An ext field that is missing or no number.
pub fn header_fault(py: Python<'_>, text: String) -> PyErr {
    instance(py, "HeaderFault", text, None, None)
}

/// Text that is not JSON.
pub fn json_error(py: Python<'_>, error: JsonError) -> PyErr {
    instance(py, "MalformedJson", error.to_string(), None, Some(error.at as u64))
}

/// JSON that Python has no value for.
pub fn json_error_without_place(py: Python<'_>, text: String) -> PyErr {
    instance(py, "MalformedJson", text, None, None)
}

/// A batch that cannot be read, or messages that cannot become one; `at` is where the message begins in the batch.
pub fn batch_error(py: Python<'_>, error: BatchError, at: usize) -> PyErr {
    instance(py, "MalformedBatch", format!("message at byte {at}: {error}"), None, Some(at as u64))
}

/// Text that is not a message id.
pub fn id_error(py: Python<'_>, error: IdError) -> PyErr {
    instance(py, "MalformedId", error.to_string(), None, None)
}

/// A body that cannot be inflated.
pub fn compression_error(py: Python<'_>, error: &CompressionError) -> PyErr {
    instance(py, "MalformedBody", error.to_string(), None, None)
}

/// As [`compression_error`], with the message it belongs to.
pub fn compression_error_in(py: Python<'_>, text: String) -> PyErr {
    instance(py, "MalformedBody", text, None, None)
}

/// A text that is no selector.
pub fn filter_error(py: Python<'_>, error: &FilterError) -> PyErr {
    let class = if matches!(error, FilterError::Limit(_)) { "FilterTooLarge" } else { "MalformedFilter" };
    instance(py, class, error.to_string(), None, None)
}

/// A row that cannot be sent.
pub fn pack_error(py: Python<'_>, error: &PackError) -> PyErr {
    instance(py, "BadMessage", error.to_string(), None, None)
}

/// A batch of an exactly-once sender that is not taken.
pub fn not_taken(py: Python<'_>, error: &NotTaken) -> PyErr {
    instance(py, "BatchNotTaken", error.to_string(), None, None)
}

/// Bytes that are no snapshot of stored ids.
pub fn snapshot_error(py: Python<'_>, error: BadSnapshot) -> PyErr {
    instance(py, "WireError", error.to_string(), None, None)
}

/// A text in the place of a message's id.
pub fn unknown_id(py: Python<'_>, id: &str) -> PyErr {
    instance(py, "MalformedId", format!("{id:?} is not an id of 32 hex digits"), None, None)
}

/// Something about a store directory.
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

/// As [`store_error`], with what was appended before it.
pub fn append_error(py: Python<'_>, error: &StoreError, appended: Bound<'_, PyList>) -> PyErr {
    let raised = store_error(py, error);
    match raised.value(py).setattr("appended", appended) {
        Ok(()) => raised,
        Err(failure) => failure,
    }
}

/// The operating system refused something that is not a file of the store.
pub fn store_os_error(py: Python<'_>, error: io::Error, root: &Path) -> PyErr {
    instance(py, "StoreIOError", error.to_string(), Some(root), None)
}

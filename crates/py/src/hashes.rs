//! Java's string hash and RocketMQ's hashes based on it, and the checksum of bodies.
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::bytes_like::BytesLike;

/// Returns `String.hashCode` of Java: over UTF-16 units, wrapping at 32 bits.
#[pyfunction]
#[pyo3(signature = (text, /))]
pub fn java_hash(text: &str) -> i32 {
    wire::hash::java_hash(text)
}

/// Returns the number that represents a TAGS property in the consume queue; 0 without tags.
#[pyfunction]
#[pyo3(signature = (tags, /))]
pub fn tags_code(tags: &str) -> i64 {
    wire::hash::tags_code(tags)
}

/// Returns the checksum of a body as its record contains it.
#[pyfunction]
#[pyo3(signature = (body, /))]
pub fn body_crc(py: Python<'_>, body: BytesLike) -> u32 {
    let body: &Bound<'_, PyBytes> = body.0.bind(py);
    wire::crc::body_crc(body.as_bytes())
}

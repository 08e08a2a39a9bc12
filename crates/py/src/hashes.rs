//! Java's string hash and what RocketMQ builds on it, and the checksum of bodies.
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::bytes_like::BytesLike;

/// `String.hashCode` of Java: over UTF-16 units, wrapping at 32 bits.
#[pyfunction]
#[pyo3(signature = (text, /))]
pub fn java_hash(text: &str) -> i32 {
    wire::hash::java_hash(text)
}

/// The number that stands for a TAGS property in the consume queue; 0 for none.
#[pyfunction]
#[pyo3(signature = (tags, /))]
pub fn tags_code(tags: &str) -> i64 {
    wire::hash::tags_code(tags)
}

/// The checksum a record carries for its body.
#[pyfunction]
#[pyo3(signature = (body, /))]
pub fn body_crc(py: Python<'_>, body: BytesLike) -> u32 {
    let body: &Bound<'_, PyBytes> = body.0.bind(py);
    wire::crc::body_crc(body.as_bytes())
}

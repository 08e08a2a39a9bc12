//! Compressed bodies. In Python a codec is its name: `zlib`, `lz4`, `zstd`.
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use wire::compression::{Codec, DEFAULT_LIMIT};

use crate::bytes_like::BytesLike;
use crate::errors::compression_error;

// The signatures contain the limit as a literal, so that people and stubs see the number.
const _: () = assert!(DEFAULT_LIMIT == 16777216);

/// Codec argument.
pub struct CodecName(Codec);

impl<'py> FromPyObject<'_, 'py> for CodecName {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        match object.extract::<String>()?.as_str() {
            "zlib" => Ok(CodecName(Codec::Zlib)),
            "lz4" => Ok(CodecName(Codec::Lz4)),
            "zstd" => Ok(CodecName(Codec::Zstd)),
            other => Err(PyValueError::new_err(format!("a codec is \"zlib\", \"lz4\" or \"zstd\", not {other:?}"))),
        }
    }
}

/// Compresses a body.
#[pyfunction]
#[pyo3(signature = (body, codec, /, *, level = 5))]
pub fn compress<'py>(py: Python<'py>, body: BytesLike, codec: CodecName, level: u32) -> PyResult<Bound<'py, PyBytes>> {
    let bytes = body.0.as_bytes(py);
    let compressed = py.detach(|| codec.0.compress(bytes, level)).map_err(|error| compression_error(py, &error))?;
    Ok(PyBytes::new(py, &compressed))
}

/// Decompresses a body.
#[pyfunction]
#[pyo3(signature = (body, codec, /, *, max_bytes = 16777216))]
pub fn decompress<'py>(
    py: Python<'py>,
    body: BytesLike,
    codec: CodecName,
    max_bytes: usize,
) -> PyResult<Bound<'py, PyBytes>> {
    let bytes = body.0.as_bytes(py);
    let inflated = py.detach(|| codec.0.decompress(bytes, max_bytes)).map_err(|error| compression_error(py, &error))?;
    Ok(PyBytes::new(py, &inflated))
}

/// Returns the sysFlag bits of a body compressed with a codec.
#[pyfunction]
#[pyo3(signature = (codec, /))]
pub fn compression_flags(codec: CodecName) -> i32 {
    codec.0.flags()
}

/// Returns a stored body as its producer wrote it.
pub fn inflated<'py>(py: Python<'py>, body: &[u8], sys_flag: i32) -> PyResult<Bound<'py, PyBytes>> {
    let outcome = match Codec::of(sys_flag) {
        Ok(None) => return Ok(PyBytes::new(py, body)),
        Ok(Some(codec)) => py.detach(|| codec.decompress(body, DEFAULT_LIMIT)),
        Err(error) => Err(error),
    };
    let inflated = outcome.map_err(|error| compression_error(py, &error))?;
    Ok(PyBytes::new(py, &inflated))
}

//! Batch bodies ⇄ lists of `(flag, body, properties string)`.
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use wire::batch::{self, BatchMessage};

use crate::bytes_like::BytesLike;
use crate::errors::batch_error;
use crate::properties::PropertiesArgument;

/// The body of a batch.
#[pyfunction]
#[pyo3(signature = (messages, /))]
pub fn encode_batch<'py>(
    py: Python<'py>,
    messages: Vec<(i32, BytesLike, PropertiesArgument)>,
) -> PyResult<Bound<'py, PyBytes>> {
    let mut out = Vec::new();
    for (flag, body, PropertiesArgument(properties)) in messages {
        let message = BatchMessage { flag, body: body.0.as_bytes(py), properties: &properties };
        let at = out.len();
        message.encode(&mut out).map_err(|error| batch_error(py, error, at))?;
    }
    Ok(PyBytes::new(py, &out))
}

/// The body of a batch that grows message by message.
#[pyclass(module = "orbitmq._native")]
pub struct BatchBody(Vec<u8>);

#[pymethods]
impl BatchBody {
    #[new]
    fn new() -> BatchBody {
        BatchBody(Vec::new())
    }

    /// Appends a message.
    #[pyo3(signature = (flag, body, properties, /))]
    fn add(&mut self, py: Python<'_>, flag: i32, body: BytesLike, properties: &str) -> PyResult<()> {
        let message = BatchMessage { flag, body: body.0.as_bytes(py), properties };
        let at = self.0.len();
        message.encode(&mut self.0).map_err(|error| batch_error(py, error, at))
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }

    fn __bytes__<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0)
    }
}

/// The messages of a batch.
#[pyfunction]
#[pyo3(signature = (data, /))]
pub fn decode_batch(py: Python<'_>, data: BytesLike) -> PyResult<Bound<'_, PyList>> {
    let data = data.0.as_bytes(py);
    let messages = PyList::empty(py);
    let mut rest = data;
    while !rest.is_empty() {
        let at = data.len() - rest.len();
        let (message, after) = BatchMessage::decode(rest).map_err(|error| batch_error(py, error, at))?;
        messages.append((message.flag, PyBytes::new(py, message.body), message.properties))?;
        rest = after;
    }
    Ok(messages)
}

/// The properties string a batched message is stored with.
#[pyfunction]
#[pyo3(signature = (own, of_batch, /))]
pub fn join_batch_properties(py: Python<'_>, own: &str, of_batch: &str) -> PyResult<String> {
    let joined = batch::stored_properties(own, of_batch).map_err(|error| batch_error(py, error, 0))?;
    Ok(joined.into_owned())
}

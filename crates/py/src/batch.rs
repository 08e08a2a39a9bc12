//! Batch bodies ⇄ lists of `(flag, body, properties string)`.
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use wire::batch::{self, BatchMessage};

use crate::bytes_like::BytesLike;
use crate::errors::batch_error;
use crate::ids::UniqueIds;
use crate::properties::PropertiesArgument;

/// Encodes the body of a batch.
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

/// Body of a batch that grows message by message, each with an id of its own.
#[pyclass(module = "orbitmq._native")]
#[derive(Default)]
pub struct BatchBody {
    encoded: Vec<u8>,
    ids: String,
    count: usize,
    properties: String,
}

#[pymethods]
impl BatchBody {
    #[new]
    fn new() -> BatchBody {
        BatchBody::default()
    }

    /// Appends a message under the next of `ids`; returns the number of messages so far.
    #[pyo3(signature = (ids, month_ms, flag, body, wait_store_ok, more, /))]
    #[expect(clippy::too_many_arguments, reason = "a message, and where its id comes from")]
    fn add(
        &mut self,
        py: Python<'_>,
        ids: PyRef<'_, UniqueIds>,
        month_ms: u32,
        flag: i32,
        body: BytesLike,
        wait_store_ok: bool,
        more: &str,
    ) -> PyResult<usize> {
        let ids_before = self.ids.len();
        if self.count > 0 {
            self.ids.push(',');
        }
        let id_begin = self.ids.len();
        ids.write_next(month_ms, &mut self.ids);
        self.properties.clear();
        for part in
            ["UNIQ_KEY\x01", &self.ids[id_begin..], "\x02WAIT\x01", if wait_store_ok { "true" } else { "false" }, more]
        {
            self.properties.push_str(part);
        }
        let message = BatchMessage { flag, body: body.0.as_bytes(py), properties: &self.properties };
        let at = self.encoded.len();
        if let Err(error) = message.encode(&mut self.encoded) {
            self.ids.truncate(ids_before);
            return Err(batch_error(py, error, at));
        }
        self.count += 1;
        Ok(self.count)
    }

    /// Returns the ids of all messages, joined by commas.
    #[getter]
    fn ids(&self) -> &str {
        &self.ids
    }

    fn __len__(&self) -> usize {
        self.encoded.len()
    }

    fn __bytes__<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.encoded)
    }
}

/// Decodes the messages of a batch.
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

/// Returns the properties string under which a batched message is stored.
#[pyfunction]
#[pyo3(signature = (own, of_batch, /))]
pub fn join_batch_properties(py: Python<'_>, own: &str, of_batch: &str) -> PyResult<String> {
    let joined = batch::stored_properties(own, of_batch).map_err(|error| batch_error(py, error, 0))?;
    Ok(joined.into_owned())
}

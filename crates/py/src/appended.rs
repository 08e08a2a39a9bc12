//! `Appended`: the position at which a message was stored, and the response that reports it to the producer.
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use wire::ids::OffsetId;

use crate::command::Command;
use crate::ext_fields::ExtTexts;
use crate::host::HostArgument;

/// Position at which a message was stored.
#[pyclass(frozen, eq, module = "orbitmq._native")]
#[derive(PartialEq)]
pub struct Appended(pub store::Appended);

#[pymethods]
impl Appended {
    #[getter]
    fn physical_offset(&self) -> i64 {
        self.0.physical_offset
    }

    #[getter]
    fn size(&self) -> u32 {
        self.0.size
    }

    #[getter]
    fn queue_offset(&self) -> i64 {
        self.0.queue_offset
    }

    #[getter]
    fn end(&self) -> i64 {
        self.0.end()
    }

    fn __repr__(&self) -> String {
        format!(
            "Appended(physical_offset={}, size={}, queue_offset={})",
            self.0.physical_offset, self.0.size, self.0.queue_offset
        )
    }
}

/// Creates the response to a send: the positions of its messages, and the fields common to all responses to sends.
#[pyfunction]
#[pyo3(signature = (request, code, store_host, region, trace_on, queue_id, appended, /))]
#[allow(clippy::too_many_arguments)] // the fields of the response
pub fn answer_send(
    py: Python<'_>,
    request: &Command,
    code: i32,
    store_host: HostArgument,
    region: &str,
    trace_on: bool,
    queue_id: i32,
    appended: Vec<Py<Appended>>,
) -> Command {
    let mut ids = String::with_capacity(33 * appended.len());
    for one in &appended {
        if !ids.is_empty() {
            ids.push(',');
        }
        ids.push_str(&OffsetId { store_host: store_host.0, physical_offset: one.get().0.physical_offset }.encode());
    }
    let queue_offset = appended.first().map_or(0, |one| one.get().0.queue_offset);
    let ext = ExtTexts::new(&[
        ("MSG_REGION", region),
        ("TRACE_ON", if trace_on { "true" } else { "false" }),
        ("msgId", &ids),
        ("queueId", &queue_id.to_string()),
        ("queueOffset", &queue_offset.to_string()),
    ]);
    request.answer(py, code, None, ext, PyBytes::new(py, b"").unbind())
}

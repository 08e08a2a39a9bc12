//! `RowPacker` and `PackedSend`: Arrow columns of rows as the bodies of sends, with no object per row.
//!
//! Only two pointers per Arrow batch pass between Python and Rust; packing releases the GIL.
use std::collections::{HashMap, HashSet};
use std::sync::Mutex;

use arrow_array::{RecordBatch, StructArray};
use arrow_data::ffi::FFI_ArrowArray;
use arrow_schema::ffi::FFI_ArrowSchema;
use columns::packing::{Ids, Limits, NewIds, PackError, Packer, Place, Rows, ScopedIds, Send};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule};

use crate::errors::pack_error;

/// Messages of one request: a batch, or a single message.
#[pyclass(frozen, get_all, module = "orbitmq._native")]
pub struct PackedSend {
    topic: String,
    broker_name: Option<String>,
    queue_id: Option<i32>,
    slot: Option<u32>,
    body: Py<PyBytes>,
    properties: Option<String>,
    rows: u32,
}

impl PackedSend {
    fn new(py: Python<'_>, send: Send) -> PackedSend {
        let (broker_name, queue_id, slot) = match send.place {
            Place::Any => (None, None, None),
            Place::Broker(name) => (Some(name), None, None),
            Place::Queue { broker, queue_id } => (broker, Some(queue_id), None),
            Place::Slot(slot) => (None, None, Some(slot)),
        };
        let body = PyBytes::new(py, &send.body).unbind();
        PackedSend {
            topic: send.topic,
            broker_name,
            queue_id,
            slot,
            body,
            properties: send.properties,
            rows: send.rows,
        }
    }
}

/// Packs rows into sends.
#[pyclass(frozen, module = "orbitmq._native")]
pub struct RowPacker(Mutex<Packer>);

impl RowPacker {
    fn with<T: std::marker::Send>(&self, py: Python<'_>, work: impl FnOnce(&mut Packer) -> T + std::marker::Send) -> T {
        py.detach(|| work(&mut self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())))
    }
}

#[pymethods]
impl RowPacker {
    #[new]
    #[pyo3(signature = (*, topic = None, batch_bytes, body_bytes, waiting_bytes, left_out, id_prefix = None, scope = None))]
    fn new(
        topic: Option<String>,
        batch_bytes: usize,
        body_bytes: usize,
        waiting_bytes: usize,
        left_out: HashSet<String>,
        id_prefix: Option<[u8; 10]>,
        scope: Option<&str>,
    ) -> PyResult<RowPacker> {
        let ids = match (id_prefix, scope) {
            (Some(prefix), None) => Ids::New(NewIds::new(prefix)),
            (None, Some(scope)) => Ids::Scoped(ScopedIds::new(scope)),
            _ => return Err(PyValueError::new_err("either id_prefix or scope says how ids are made")),
        };
        let limits = Limits { batch_bytes, body_bytes, waiting_bytes };
        Ok(RowPacker(Mutex::new(Packer::new(limits, topic, left_out, ids))))
    }

    /// Returns the topics of a batch's rows, each once.
    fn topics(&self, py: Python<'_>, batch: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
        let batch = import(batch)?;
        self.with(py, |packer| packer.topics(&Rows::of(&batch)?)).map_err(|error| pack_error(py, &error))
    }

    /// Packs a batch's rows; returns the full sends.
    #[pyo3(signature = (batch, *, queue_counts, month_ms))]
    fn push(
        &self,
        py: Python<'_>,
        batch: &Bound<'_, PyAny>,
        queue_counts: HashMap<String, Vec<u32>>,
        month_ms: u32,
    ) -> PyResult<Vec<PackedSend>> {
        let batch = import(batch)?;
        let pushed: Result<Vec<Send>, PackError> = self.with(py, |packer| {
            if let Ids::New(ids) = packer.ids_mut() {
                ids.set_time(month_ms);
            }
            packer.push(&Rows::of(&batch)?, &queue_counts)
        });
        let sends = pushed.map_err(|error| pack_error(py, &error))?;
        Ok(sends.into_iter().map(|send| PackedSend::new(py, send)).collect())
    }

    /// Returns all sends that wait for more rows.
    fn finish(&self, py: Python<'_>) -> Vec<PackedSend> {
        self.with(py, Packer::finish).into_iter().map(|send| PackedSend::new(py, send)).collect()
    }
}

/// Imports a batch from any library that implements the Arrow PyCapsule interface.
fn import(batch: &Bound<'_, PyAny>) -> PyResult<RecordBatch> {
    let (schema, array): (Bound<'_, PyCapsule>, Bound<'_, PyCapsule>) =
        batch.call_method0("__arrow_c_array__")?.extract()?;
    let schema = schema.pointer_checked(Some(c"arrow_schema"))?;
    let array = array.pointer_checked(Some(c"arrow_array"))?;
    // SAFETY: the names of the capsules identify their content, and the capsules outlive this call. `from_raw` moves
    // the array out of its capsule, as the interface requires of a consumer, so it is released once.
    let data = unsafe {
        let array = FFI_ArrowArray::from_raw(array.as_ptr().cast());
        arrow_array::ffi::from_ffi(array, schema.cast::<FFI_ArrowSchema>().as_ref())
    };
    let data = data.map_err(|error| PyValueError::new_err(error.to_string()))?;
    Ok(RecordBatch::from(StructArray::from(data)))
}

//! `RecordColumns` and `ArrowBatch`: records as Arrow columns, for every library that supports the Arrow PyCapsule
//! interface.
//!
//! Python and Rust exchange data once per pull: bytes go in, and a batch is returned as two pointers, with no object
//! per message and no copy of the columns. Building releases the GIL.
use std::ffi::CStr;
use std::sync::Mutex;

use arrow_array::{Array, RecordBatch, StructArray};
use arrow_data::ffi::FFI_ArrowArray;
use arrow_schema::ffi::FFI_ArrowSchema;
use columns::{Bounds, Column, ColumnsError, Selection};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use wire::Crc;

use crate::bytes_like::BytesLike;
use crate::errors::{compression_error_in, record_error};

const SCHEMA: &CStr = c"arrow_schema";
const ARRAY: &CStr = c"arrow_array";

/// Record batch that Arrow libraries import without a copy.
#[pyclass(frozen, module = "orbitmq._native")]
pub struct ArrowBatch(RecordBatch);

impl ArrowBatch {
    /// Wraps a batch for Python.
    pub fn new(batch: RecordBatch) -> ArrowBatch {
        ArrowBatch(batch)
    }
}

#[pymethods]
impl ArrowBatch {
    #[getter]
    fn num_rows(&self) -> usize {
        self.0.num_rows()
    }

    /// Returns the schema, in the form of the Arrow PyCapsule interface.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(self.0.schema().as_ref()).map_err(arrow_error)?;
        PyCapsule::new_with_value(py, schema, SCHEMA)
    }

    /// Returns schema and columns, in the form of the Arrow PyCapsule interface.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        // The requested schema is optional: a consumer that needs other types casts the result.
        drop(requested_schema);
        let array = FFI_ArrowArray::new(&StructArray::from(self.0.clone()).to_data());
        Ok((self.__arrow_c_schema__(py)?, PyCapsule::new_with_value(py, array, ARRAY)?))
    }

    fn __repr__(&self) -> String {
        format!("ArrowBatch({} rows, {} columns)", self.0.num_rows(), self.0.num_columns())
    }
}

fn arrow_error(error: arrow_schema::ArrowError) -> PyErr {
    PyRuntimeError::new_err(error.to_string())
}

/// Builds record batches of message records.
#[pyclass(frozen, module = "orbitmq._native")]
pub struct RecordColumns(Mutex<columns::RecordColumns>);

impl RecordColumns {
    fn with<T>(&self, work: impl FnOnce(&mut columns::RecordColumns) -> T) -> T {
        // No holder of the lock panics half-way through a row.
        work(&mut self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()))
    }
}

#[pymethods]
impl RecordColumns {
    #[new]
    #[pyo3(signature = (columns = None, /, *, max_rows = 16384, max_bytes = 33554432, keep_damaged = false))]
    fn new(
        columns: Option<Vec<String>>,
        max_rows: usize,
        max_bytes: usize,
        keep_damaged: bool,
    ) -> PyResult<RecordColumns> {
        if max_rows == 0 || max_bytes == 0 {
            return Err(PyValueError::new_err("max_rows and max_bytes must be positive"));
        }
        let columns = match columns {
            None => Column::ALL.to_vec(),
            Some(names) => column_list(&names)?,
        };
        let bounds = Bounds { max_rows, max_bytes };
        let mut builder = columns::RecordColumns::new(&columns, None, bounds);
        if keep_damaged {
            builder.keep_damaged();
        }
        Ok(RecordColumns(Mutex::new(builder)))
    }

    /// Adds records.
    #[pyo3(signature = (
        data, at = 0, /, *, broker_name = None, topic = None, from_offset = 0, to_offset = 9223372036854775807,
        tags = None, verify_crc = true,
    ))]
    #[allow(clippy::too_many_arguments)] // one is always given, the others by name
    fn append(
        &self,
        py: Python<'_>,
        data: BytesLike,
        at: usize,
        broker_name: Option<&str>,
        topic: Option<&str>,
        from_offset: i64,
        to_offset: i64,
        tags: Option<Vec<String>>,
        verify_crc: bool,
    ) -> PyResult<usize> {
        let bytes = data.0.as_bytes(py);
        if at > bytes.len() {
            return Err(PyValueError::new_err(format!("byte {at} of {}", bytes.len())));
        }
        let crc = if verify_crc { Crc::Verify } else { Crc::Trust };
        let selection = Selection { queue_offsets: from_offset..to_offset, tags: tags.as_deref() };
        let outcome = py.detach(|| {
            self.with(|builder| {
                builder.set_broker_name(broker_name);
                builder.set_topic(topic);
                builder.append(bytes, at, crc, &selection)
            })
        });
        outcome.map_err(|error| columns_error(py, &error))
    }

    #[getter]
    fn num_rows(&self) -> usize {
        self.with(|builder| builder.rows())
    }

    #[getter]
    fn num_bytes(&self) -> usize {
        self.with(|builder| builder.bytes())
    }

    #[getter]
    fn num_records(&self) -> u64 {
        self.with(|builder| builder.records())
    }

    /// Returns the number of bodies that were kept damaged since the last call, and descriptions of the first ones.
    fn take_damages(&self) -> (usize, Vec<String>) {
        let damages = self.with(columns::RecordColumns::take_damages);
        (damages.count, damages.texts)
    }

    #[getter]
    fn is_full(&self) -> bool {
        self.with(|builder| builder.is_full())
    }

    /// Returns the batch of the rows so far.
    fn finish(&self, py: Python<'_>) -> ArrowBatch {
        ArrowBatch(py.detach(|| self.with(columns::RecordColumns::finish)))
    }

    fn __repr__(&self) -> String {
        self.with(|builder| format!("RecordColumns({} rows, {} bytes)", builder.rows(), builder.bytes()))
    }
}

/// Returns columns by their names.
pub fn column_list(names: &[String]) -> PyResult<Vec<Column>> {
    let mut columns = Vec::with_capacity(names.len());
    for name in names {
        let column = name.parse::<Column>().map_err(PyValueError::new_err)?;
        if columns.contains(&column) {
            return Err(PyValueError::new_err(format!("column {name:?} is named twice")));
        }
        columns.push(column);
    }
    Ok(columns)
}

/// Converts the error of records that cannot become columns.
pub fn columns_error(py: Python<'_>, error: &ColumnsError) -> PyErr {
    match error {
        ColumnsError::Record { at, cause } => record_error(py, *cause, *at),
        ColumnsError::Damaged { .. } | ColumnsError::Body { .. } => compression_error_in(py, error.to_string()),
    }
}

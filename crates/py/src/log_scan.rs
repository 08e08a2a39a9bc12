//! `LogScan`: ranges of a commit log as Arrow record batches, and `ScanReport`: what was met on the way.
//!
//! Batches come one by one (`for batch in scan`) or all behind one pointer (`__arrow_c_stream__`, what Polars, DuckDB and pyarrow ask
//! for), in either case from the same place in the log. Reading and building let go of the GIL; a consumer of the stream may pull from
//! a thread that Python does not know.
use std::ffi::CStr;
use std::sync::{Arc, Mutex};

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{ArrowError, SchemaRef};
use columns::{Bounds, Column, RecordColumns};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use store::StoreError;
use store::scan::{Damage, RangeScan, Seen, Selection};
use wire::Crc;

use crate::errors::store_error;
use crate::record_columns::{ArrowBatch, column_list};
use crate::store_snapshot::{LogFileTuple, RangeTuple, TopicsArgument, log_file, log_range, selection};

const STREAM: &CStr = c"arrow_array_stream";
const SCHEMA: &CStr = c"arrow_schema";

struct Scan {
    ranges: RangeScan,
    wished: Selection,
    columns: RecordColumns,
    matched: u64,
    fail_on_damage: bool,
}

impl Scan {
    /// The next batch, `None` at the end.
    fn next(&mut self) -> Result<Option<RecordBatch>, StoreError> {
        let Scan { ranges, wished, columns, matched, .. } = self;
        let outcome = ranges.run::<StoreError>(|visit| {
            if !wished.wants(visit.record) {
                return Ok(Seen::Next);
            }
            if let Err(error) = columns.push(visit.record) {
                return Ok(Seen::Damaged(error.to_string()));
            }
            *matched += 1;
            Ok(if columns.is_full() { Seen::Pause } else { Seen::Next })
        });
        if self.fail_on_damage {
            if let Some(error) = self.ranges.first_damage() {
                return Err(error);
            }
        }
        match outcome {
            Err(error) => Err(error),
            Ok(_) if self.columns.rows() == 0 => Ok(None),
            Ok(_) => Ok(Some(self.columns.finish())),
        }
    }

    /// The next damages, none at the end; the rows in between are dropped.
    fn next_damages(&mut self) -> Result<Vec<Damage>, StoreError> {
        let Scan { ranges, wished, columns, .. } = self;
        ranges.next_damages::<StoreError>(|visit| {
            if columns.is_full() {
                drop(columns.finish());
            }
            let pushed = if wished.wants(visit.record) { columns.push(visit.record) } else { Ok(()) };
            Ok(pushed.map_or_else(|error| Seen::Damaged(error.to_string()), |()| Seen::Next))
        })
    }
}

type Shared = Arc<Mutex<Scan>>;

fn with<T>(shared: &Shared, work: impl FnOnce(&mut Scan) -> T) -> T {
    // A scan that panicked half-way is in no state to go on, but none does.
    work(&mut shared.lock().unwrap_or_else(|poisoned| poisoned.into_inner()))
}

struct Reader(Shared, SchemaRef);

impl Iterator for Reader {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        with(&self.0, Scan::next).map_err(|error| ArrowError::ExternalError(Box::new(error))).transpose()
    }
}

impl RecordBatchReader for Reader {
    fn schema(&self) -> SchemaRef {
        self.1.clone()
    }
}

/// Records of a commit log as Arrow record batches.
#[pyclass(frozen, module = "orbitmq._native")]
pub struct LogScan {
    scan: Shared,
    schema: SchemaRef,
}

#[pymethods]
impl LogScan {
    #[new]
    #[pyo3(signature = (
        log_files, log_end, ranges, /, *, topics = None, start_ms = None, end_ms = None, keys = None, columns = None,
        broker_name = None, max_rows = 16384, max_bytes = 33554432, verify_crc = true, fail_on_damage = false,
    ))]
    #[allow(clippy::too_many_arguments)] // three are given always, the others by name
    fn new(
        log_files: Vec<LogFileTuple>,
        log_end: u64,
        ranges: Vec<RangeTuple>,
        topics: Option<TopicsArgument>,
        start_ms: Option<i64>,
        end_ms: Option<i64>,
        keys: Option<Vec<String>>,
        columns: Option<Vec<String>>,
        broker_name: Option<&str>,
        max_rows: usize,
        max_bytes: usize,
        verify_crc: bool,
        fail_on_damage: bool,
    ) -> PyResult<LogScan> {
        let columns = match columns {
            None => Column::ALL.to_vec(),
            Some(names) => column_list(&names)?,
        };
        let bounds = Bounds { max_rows: max_rows.max(1), max_bytes: max_bytes.max(1) };
        let columns = RecordColumns::new(&columns, broker_name, bounds);
        let schema = columns.schema();
        let files = log_files.into_iter().map(log_file).collect();
        let crc = if verify_crc { Crc::Verify } else { Crc::Trust };
        let ranges = RangeScan::new(files, log_end, ranges.into_iter().map(log_range).collect(), crc);
        let wished = selection(topics, start_ms, end_ms, keys);
        let scan = Scan { ranges, wished, columns, matched: 0, fail_on_damage };
        Ok(LogScan { scan: Arc::new(Mutex::new(scan)), schema })
    }

    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<ArrowBatch>> {
        match py.detach(|| with(&self.scan, Scan::next)) {
            Ok(batch) => Ok(batch.map(ArrowBatch::new)),
            Err(error) => Err(store_error(py, &error)),
        }
    }

    /// The schema of the batches, as the Arrow PyCapsule interface has it.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(self.schema.as_ref());
        PyCapsule::new_with_value(py, schema.map_err(|error| PyRuntimeError::new_err(error.to_string()))?, SCHEMA)
    }

    /// What is left of the scan, as the Arrow PyCapsule interface has it.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // A wish only: whoever wants other types casts what it gets.
        drop(requested_schema);
        let reader = Reader(self.scan.clone(), self.schema.clone());
        PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(reader)), STREAM)
    }

    fn next_damages(&self, py: Python<'_>) -> PyResult<Vec<DamageTuple>> {
        let found = py.detach(|| with(&self.scan, Scan::next_damages)).map_err(|error| store_error(py, &error))?;
        Ok(found.iter().map(damage_tuple).collect())
    }

    /// What has been met so far.
    fn report(&self, py: Python<'_>) -> ScanReport {
        py.detach(|| {
            with(&self.scan, |scan| {
                let report = scan.ranges.report();
                ScanReport {
                    records: report.records,
                    bytes: report.bytes,
                    matched: scan.matched,
                    damaged: report.damaged,
                    damaged_bytes: report.damaged_bytes,
                    damages: report.damages.iter().map(damage_tuple).collect(),
                }
            })
        })
    }
}

/// What a scan has met.
#[pyclass(frozen, get_all, module = "orbitmq._native")]
pub struct ScanReport {
    records: u64,
    bytes: u64,
    matched: u64,
    damaged: u64,
    damaged_bytes: u64,
    damages: Vec<DamageTuple>,
}

/// Kind, where in the log, how many bytes, why; topic, queue and queue offset where they can be told.
type DamageTuple = (&'static str, u64, u64, String, Option<String>, Option<i32>, Option<i64>);

fn damage_tuple(damage: &Damage) -> DamageTuple {
    let (topic, queue_id, queue_offset) = match damage.place.clone() {
        Some((topic, queue_id, queue_offset)) => (Some(topic), Some(queue_id), Some(queue_offset)),
        None => (None, None, None),
    };
    let (kind, reason) = (damage.kind.name(), damage.reason.clone());
    (kind, damage.physical_offset, damage.len, reason, topic, queue_id, queue_offset)
}

#[pymethods]
impl ScanReport {
    fn __repr__(&self) -> String {
        format!("ScanReport(records={}, matched={}, damaged={})", self.records, self.matched, self.damaged)
    }
}

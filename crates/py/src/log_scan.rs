//! `LogScan`: ranges of a commit log as Arrow record batches, and `ScanReport`: the counts and damages of a scan.
//!
//! Batches are returned one by one (`for batch in scan`) or all behind one pointer (`__arrow_c_stream__`, which Polars,
//! DuckDB and pyarrow use). Both ways share the position in the log. Reading and building release the GIL; a consumer
//! of the stream may pull from a thread that was not created by Python.
use std::ffi::CStr;
use std::sync::{Arc, Mutex};

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{ArrowError, SchemaRef};
use columns::{Bounds, Column};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use store::StoreError;
use store::scan::Damage;
use wire::Crc;

use crate::errors::store_error;
use crate::read_ahead::ReadAhead;
use crate::record_columns::{ArrowBatch, column_list};
use crate::scan::{Scan, Tally, Wishes};
use crate::store_snapshot::{LogFileTuple, RangeTuple, TopicsArgument, log_file, log_range, selection};

const STREAM: &CStr = c"arrow_array_stream";
const SCHEMA: &CStr = c"arrow_schema";

/// Source of batches: the calling thread reads, or other threads read ahead.
enum Source {
    Here(Box<Scan>),
    Ahead(ReadAhead),
}

impl Source {
    fn next(&mut self) -> Result<Option<RecordBatch>, StoreError> {
        match self {
            Source::Here(scan) => scan.next(),
            Source::Ahead(threads) => threads.next(),
        }
    }

    fn tally(&self) -> Tally {
        match self {
            Source::Here(scan) => scan.tally(),
            Source::Ahead(threads) => threads.tally(),
        }
    }
}

type Shared = Arc<Mutex<Source>>;

fn with<T>(shared: &Shared, work: impl FnOnce(&mut Source) -> T) -> T {
    // A scan that panicked half-way could not continue, but no scan panics.
    work(&mut shared.lock().unwrap_or_else(|poisoned| poisoned.into_inner()))
}

struct Reader(Shared, SchemaRef);

impl Iterator for Reader {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        with(&self.0, Source::next).map_err(|error| ArrowError::ExternalError(Box::new(error))).transpose()
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
        log_files, log_end, pieces, /, *, threads = 1, topics = None, start_ms = None, end_ms = None, keys = None,
        columns = None, broker_name = None, max_rows = 16384, max_bytes = 33554432, verify_crc = true, fail_on_damage = false,
    ))]
    #[allow(clippy::too_many_arguments)] // three are always given, the others by name
    fn new(
        log_files: Vec<LogFileTuple>,
        log_end: u64,
        pieces: Vec<Vec<RangeTuple>>,
        threads: usize,
        topics: Option<TopicsArgument>,
        start_ms: Option<i64>,
        end_ms: Option<i64>,
        keys: Option<Vec<String>>,
        columns: Option<Vec<String>>,
        broker_name: Option<String>,
        max_rows: usize,
        max_bytes: usize,
        verify_crc: bool,
        fail_on_damage: bool,
    ) -> PyResult<LogScan> {
        let columns = match columns {
            None => Column::ALL.to_vec(),
            Some(names) => column_list(&names)?,
        };
        let wishes = Arc::new(Wishes {
            files: log_files.into_iter().map(log_file).collect(),
            log_end,
            selection: selection(topics, start_ms, end_ms, keys),
            columns,
            broker_name,
            bounds: Bounds { max_rows: max_rows.max(1), max_bytes: max_bytes.max(1) },
            crc: if verify_crc { Crc::Verify } else { Crc::Trust },
            fail_on_damage,
        });
        let schema = wishes.builder().schema();
        let pieces = pieces.into_iter().map(|piece| piece.into_iter().map(log_range).collect::<Vec<_>>());
        let scan = match threads > 1 && pieces.len() > 1 {
            true => Source::Ahead(ReadAhead::new(&wishes, pieces.collect(), threads)?),
            false => Source::Here(Box::new(Scan::new(wishes, pieces.flatten().collect()))),
        };
        Ok(LogScan { scan: Arc::new(Mutex::new(scan)), schema })
    }

    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<ArrowBatch>> {
        match py.detach(|| with(&self.scan, Source::next)) {
            Ok(batch) => Ok(batch.map(ArrowBatch::new)),
            Err(error) => Err(store_error(py, &error)),
        }
    }

    /// Returns the schema of the batches, in the form of the Arrow PyCapsule interface.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(self.schema.as_ref());
        PyCapsule::new_with_value(py, schema.map_err(|error| PyRuntimeError::new_err(error.to_string()))?, SCHEMA)
    }

    /// Returns the rest of the scan, in the form of the Arrow PyCapsule interface.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The requested schema is optional: a consumer that needs other types casts the result.
        drop(requested_schema);
        let reader = Reader(self.scan.clone(), self.schema.clone());
        PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(reader)), STREAM)
    }

    fn next_damages(&self, py: Python<'_>) -> PyResult<Vec<DamageTuple>> {
        let found = py.detach(|| {
            with(&self.scan, |source| match source {
                Source::Here(scan) => Some(scan.next_damages()),
                Source::Ahead(_) => None,
            })
        });
        let found = found.ok_or_else(|| PyValueError::new_err("damages are listed by scans of one thread"))?;
        let found = found.map_err(|error| store_error(py, &error))?;
        Ok(found.iter().map(damage_tuple).collect())
    }

    /// Returns the report of the scan so far.
    fn report(&self, py: Python<'_>) -> ScanReport {
        let Tally { report, matched } = py.detach(|| with(&self.scan, |source| source.tally()));
        ScanReport {
            records: report.records,
            bytes: report.bytes,
            matched,
            damaged: report.damaged,
            damaged_bytes: report.damaged_bytes,
            damages: report.damages.iter().map(damage_tuple).collect(),
        }
    }
}

/// Counts and damages of a scan.
#[pyclass(frozen, get_all, module = "orbitmq._native")]
pub struct ScanReport {
    records: u64,
    bytes: u64,
    matched: u64,
    damaged: u64,
    damaged_bytes: u64,
    damages: Vec<DamageTuple>,
}

/// Kind, physical offset, number of bytes, reason; topic, queue and queue offset if known.
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

//! `ReadResult`: the records found by a read of a queue, and the offset to continue at.
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use store::ReadStatus;
use wire::Crc;
use wire::record::store_timestamp;

use crate::command::Command;
use crate::errors::store_error;
use crate::ext_fields::ExtTexts;
use crate::filled_bytes::FilledBytes;
use crate::record::decode_list;

/// Response code for a result with records.
const SUCCESS: i32 = 0;

/// Result of a read of a queue.
#[pyclass(frozen, module = "orbitmq._native")]
pub struct ReadResult {
    #[pyo3(get)]
    status: &'static str,
    #[pyo3(get)]
    next_offset: i64,
    #[pyo3(get)]
    min_offset: i64,
    #[pyo3(get)]
    max_offset: i64,
    #[pyo3(get)]
    behind_bytes: i64,
    #[pyo3(get)]
    last_store_timestamp: i64,
    #[pyo3(get)]
    count: usize,
    #[pyo3(get)]
    data: Py<PyBytes>,
}

impl ReadResult {
    /// Copies the records out of the mapped files, once. They may have to come from the disk, so the GIL is released.
    /// If one of them cannot be read, returns the number of records before it; if it is the first one, returns an
    /// error.
    pub fn copied(py: Python<'_>, found: store::ReadResult) -> PyResult<Result<ReadResult, usize>> {
        let mut data = FilledBytes::new(py, found.bytes)?;
        let (mut copied, mut last_store_timestamp) = (0, 0);
        let outcome = py.detach(|| {
            found.records().try_for_each(|record| {
                let record = record?;
                data.push(record);
                copied += 1;
                last_store_timestamp = store_timestamp(record).unwrap_or(last_store_timestamp);
                Ok(())
            })
        });
        match outcome {
            Ok(()) => {}
            Err(_) if copied > 0 => return Ok(Err(copied)),
            Err(error) => return Err(store_error(py, &error)),
        }
        Ok(Ok(ReadResult {
            status: status_name(found.status),
            next_offset: found.next_offset,
            min_offset: found.min_offset,
            max_offset: found.max_offset,
            behind_bytes: found.behind_bytes,
            last_store_timestamp,
            count: found.len(),
            data: data.finish(),
        }))
    }
}

/// Returns RocketMQ's name of the status, which is also the remark of a pull response.
fn status_name(status: ReadStatus) -> &'static str {
    match status {
        ReadStatus::Found => "FOUND",
        ReadStatus::NoMessageInQueue => "NO_MESSAGE_IN_QUEUE",
        ReadStatus::OffsetTooSmall => "OFFSET_TOO_SMALL",
        ReadStatus::OffsetOverflowOne => "OFFSET_OVERFLOW_ONE",
        ReadStatus::OffsetOverflowBadly => "OFFSET_OVERFLOW_BADLY",
        ReadStatus::OffsetFoundNull => "OFFSET_FOUND_NULL",
        ReadStatus::NoMatchedMessage => "NO_MATCHED_MESSAGE",
        ReadStatus::MessageWasRemoving => "MESSAGE_WAS_REMOVING",
        ReadStatus::NotResident => "NOT_RESIDENT",
    }
}

#[pymethods]
impl ReadResult {
    /// Creates the response to the pull of which this is the result; it contains the records if its code is that of a
    /// result with records.
    #[pyo3(signature = (request, code, suggested_broker_id, /))]
    fn answer(&self, py: Python<'_>, request: &Command, code: i32, suggested_broker_id: i64) -> Command {
        let ext = ExtTexts::new(&[
            ("suggestWhichBrokerId", suggested_broker_id.to_string()),
            ("nextBeginOffset", self.next_offset.to_string()),
            ("minOffset", self.min_offset.to_string()),
            ("maxOffset", self.max_offset.to_string()),
        ]);
        let body = if code == SUCCESS { self.data.clone_ref(py) } else { PyBytes::new(py, b"").unbind() };
        request.answer(py, code, Some(self.status), ext, body)
    }

    /// Decodes the records in `data`.
    fn records<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        decode_list(self.data.bind(py), Crc::Verify)
    }

    fn __repr__(&self) -> String {
        format!("ReadResult(status={:?}, count={}, next_offset={})", self.status, self.count, self.next_offset)
    }
}

//! `StoredIds`: the ids of exactly-once senders' messages that are in the log already.
use std::sync::{Mutex, MutexGuard};

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use store::stored_ids::{self, Id, NotTaken, Owner};

use crate::bytes_like::BytesLike;
use crate::errors::{not_taken, snapshot_error, unknown_id};

/// Table of the ids of the newest batch of every sender.
#[pyclass(frozen, module = "orbitmq._native")]
pub struct StoredIds(Mutex<stored_ids::StoredIds>);

impl StoredIds {
    /// Wraps a set of ids for Python.
    pub fn new(ids: stored_ids::StoredIds) -> StoredIds {
        StoredIds(Mutex::new(ids))
    }

    fn lock(&self) -> MutexGuard<'_, stored_ids::StoredIds> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

#[pymethods]
impl StoredIds {
    #[new]
    fn empty() -> StoredIds {
        StoredIds::new(stored_ids::StoredIds::default())
    }

    /// Returns for each id of a batch true if it is stored already.
    #[pyo3(signature = (sender, batch, ids, /, *, limit, topic = "", account = ""))]
    #[allow(clippy::too_many_arguments)] // Python passes them by name
    fn stored(
        &self,
        py: Python<'_>,
        sender: &str,
        batch: u64,
        ids: Vec<String>,
        limit: usize,
        topic: &str,
        account: &str,
    ) -> PyResult<Vec<bool>> {
        let ids = parse(py, &ids)?;
        let stored: Result<Vec<bool>, NotTaken> =
            self.lock().stored(Owner { account, topic, sender }, batch, &ids, limit);
        stored.map_err(|error| not_taken(py, &error))
    }

    /// Adds ids that are in the log now.
    #[pyo3(signature = (sender, batch, ids, /, *, now_ms, topic = "", account = ""))]
    #[allow(clippy::too_many_arguments)]
    fn add(
        &self,
        py: Python<'_>,
        sender: &str,
        batch: u64,
        ids: Vec<String>,
        now_ms: i64,
        topic: &str,
        account: &str,
    ) -> PyResult<()> {
        let ids = parse(py, &ids)?;
        self.lock().add(Owner { account, topic, sender }, batch, ids, now_ms);
        Ok(())
    }

    /// Drops the ids of a batch that will not be sent again.
    #[pyo3(signature = (sender, batch, /, *, topic = "", account = ""))]
    fn end(&self, sender: &str, batch: u64, topic: &str, account: &str) -> usize {
        self.lock().end(Owner { account, topic, sender }, batch)
    }

    /// Removes senders that have sent nothing since `time_ms`.
    #[pyo3(signature = (time_ms, /))]
    fn forget_before(&self, time_ms: i64) -> usize {
        self.lock().forget_before(time_ms)
    }

    /// Returns a snapshot of the table, as of a physical offset.
    #[pyo3(signature = (physical_offset, /))]
    fn snapshot<'py>(&self, py: Python<'py>, physical_offset: u64) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.lock().snapshot(physical_offset))
    }

    fn __len__(&self) -> usize {
        self.lock().len()
    }
}

/// Reads a snapshot.
pub fn restore(py: Python<'_>, snapshot: BytesLike) -> PyResult<(stored_ids::StoredIds, u64)> {
    stored_ids::StoredIds::restore(snapshot.0.as_bytes(py)).map_err(|error| snapshot_error(py, error))
}

/// Splits a scope into sender and batch; `None` if it is not a scope.
#[pyfunction]
#[pyo3(signature = (text, /))]
pub fn parse_scope(text: &str) -> Option<(&str, u64)> {
    stored_ids::parse_scope(text)
}

fn parse(py: Python<'_>, ids: &[String]) -> PyResult<Vec<Id>> {
    ids.iter().map(|id| stored_ids::parse_id(id).ok_or_else(|| unknown_id(py, id))).collect()
}

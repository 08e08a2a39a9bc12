//! `StoreAudit`: compares log, queues and index of a store directory, and `AuditPart`: the findings of one piece of
//! that comparison.
use std::collections::BTreeMap;
use std::path::PathBuf;

use pyo3::prelude::*;
use store::scan::{Audit, Findings, LogAudit, Snapshot};
use store::{Result, StoreError};

use crate::errors::store_error;
use crate::store_snapshot::{RangeTuple, log_range};

/// Checks a store directory.
#[pyclass(frozen, module = "orbitmq._native")]
pub struct StoreAudit(Audit);

impl StoreAudit {
    fn part(&self, py: Python<'_>, check: impl Send + FnOnce(&Audit) -> Result<Findings>) -> PyResult<AuditPart> {
        let found = py.detach(|| check(&self.0)).map_err(|error| store_error(py, &error))?;
        Ok(AuditPart::from(LogAudit { findings: found, ..LogAudit::default() }))
    }
}

#[pymethods]
impl StoreAudit {
    #[new]
    #[pyo3(signature = (path, /, *, commit_log_paths = Vec::new(), log_end = None, dispatched_end = None))]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        commit_log_paths: Vec<PathBuf>,
        log_end: Option<u64>,
        dispatched_end: Option<u64>,
    ) -> PyResult<StoreAudit> {
        let opened = py.detach(|| {
            let snapshot = match log_end {
                Some(log_end) => Snapshot::as_of(&path, &commit_log_paths, log_end, dispatched_end),
                None => Snapshot::take(&path, &commit_log_paths),
            };
            Ok::<_, StoreError>(StoreAudit(Audit::new(snapshot?)?))
        });
        opened.map_err(|error| store_error(py, &error))
    }

    /// Returns the paths of the readable index files, and the number of entries of each.
    #[getter]
    fn index_files(&self) -> Vec<(String, u64)> {
        self.0.index_files()
    }

    fn check_directory(&self, py: Python<'_>) -> PyResult<AuditPart> {
        self.part(py, |audit| Ok(audit.check_directory()))
    }

    #[pyo3(signature = (ranges, /))]
    fn check_log(&self, py: Python<'_>, ranges: Vec<RangeTuple>) -> PyResult<AuditPart> {
        let ranges = ranges.into_iter().map(log_range).collect();
        let found = py.detach(|| self.0.check_log(ranges)).map_err(|error| store_error(py, &error))?;
        Ok(AuditPart::from(found))
    }

    #[pyo3(signature = (topic, queue_id, from_offset, to_offset, /))]
    fn check_queue(
        &self,
        py: Python<'_>,
        topic: &str,
        queue_id: i32,
        from_offset: u64,
        to_offset: u64,
    ) -> PyResult<AuditPart> {
        self.part(py, |audit| audit.check_queue(topic, queue_id, from_offset, to_offset))
    }

    #[pyo3(signature = (path, from_entry, to_entry, /))]
    fn check_index(&self, py: Python<'_>, path: &str, from_entry: u64, to_entry: u64) -> PyResult<AuditPart> {
        self.part(py, |audit| audit.check_index(path, from_entry, to_entry))
    }

    #[pyo3(signature = (path, /))]
    fn check_chains(&self, py: Python<'_>, path: &str) -> PyResult<AuditPart> {
        self.part(py, |audit| audit.check_chains(path))
    }
}

/// Kind, topic, queue, queue offset, physical offset, and description.
type FindingTuple = (&'static str, String, i32, i64, i64, String);
/// Messages, bytes, bytes of bodies, first and last store time.
type SizeTuple = (u64, u64, u64, i64, i64);

/// Findings of a part of an audit.
#[pyclass(frozen, get_all, module = "orbitmq._native")]
pub struct AuditPart {
    checked: u64,
    counts: BTreeMap<&'static str, u64>,
    findings: Vec<FindingTuple>,
    topics: BTreeMap<String, SizeTuple>,
}

impl From<LogAudit> for AuditPart {
    fn from(found: LogAudit) -> AuditPart {
        let findings = found
            .findings
            .named
            .into_iter()
            .map(|f| (f.kind.name(), f.topic, f.queue_id, f.queue_offset, f.physical_offset, f.detail));
        let size = |s: store::scan::TopicSize| (s.messages, s.bytes, s.body_bytes, s.first_ms, s.last_ms);
        AuditPart {
            checked: found.findings.checked,
            counts: found.findings.counts.into_iter().map(|(kind, count)| (kind.name(), count)).collect(),
            findings: findings.collect(),
            topics: found.topics.into_iter().map(|(topic, sizes)| (topic, size(sizes))).collect(),
        }
    }
}

#[pymethods]
impl AuditPart {
    fn __repr__(&self) -> String {
        format!("AuditPart(checked={}, counts={:?})", self.checked, self.counts)
    }
}

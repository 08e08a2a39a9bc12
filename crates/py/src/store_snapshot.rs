//! `StoreSnapshot`: the content of a store directory, read without owning it.
use std::collections::HashMap;
use std::path::PathBuf;

use pyo3::prelude::*;
use store::scan::{LogFile, LogRange, Selection, Snapshot};

use crate::errors::store_error;

/// Path, first offset and length of a log file.
pub type LogFileTuple = (PathBuf, u64, u64);
/// First byte, end, and true if a record is known to begin at the first byte.
pub type RangeTuple = (u64, u64, bool);
/// Wanted topics, each with its wanted queues and their offsets, or `None` for all its queues.
pub type TopicsArgument = HashMap<String, Option<HashMap<i32, (i64, i64)>>>;

pub fn log_file(file: LogFileTuple) -> LogFile {
    LogFile { path: file.0, start: file.1, len: file.2 }
}

pub fn log_range(range: RangeTuple) -> LogRange {
    LogRange { start: range.0, end: range.1, aligned: range.2 }
}

fn range_tuple(range: LogRange) -> RangeTuple {
    (range.start, range.end, range.aligned)
}

pub fn selection(
    topics: Option<TopicsArgument>,
    start_ms: Option<i64>,
    end_ms: Option<i64>,
    keys: Option<Vec<String>>,
) -> Selection {
    let queues = |wished: HashMap<i32, (i64, i64)>| wished.into_iter().map(|(id, (from, to))| (id, from..to)).collect();
    let topics = topics.map(|topics| topics.into_iter().map(|(name, wished)| (name, wished.map(queues))).collect());
    Selection { topics, start_ms, end_ms, keys }
}

/// Content of a store directory at one moment.
#[pyclass(frozen, module = "orbitmq._native")]
pub struct StoreSnapshot(Snapshot);

#[pymethods]
impl StoreSnapshot {
    #[new]
    #[pyo3(signature = (path, /, *, commit_log_paths = Vec::new()))]
    fn new(py: Python<'_>, path: PathBuf, commit_log_paths: Vec<PathBuf>) -> PyResult<StoreSnapshot> {
        let taken = py.detach(|| Snapshot::take(&path, &commit_log_paths));
        taken.map(StoreSnapshot).map_err(|error| store_error(py, &error))
    }

    #[getter]
    fn log_files(&self) -> Vec<LogFileTuple> {
        self.0.log_files.iter().map(|file| (file.path.clone(), file.start, file.len)).collect()
    }

    #[getter]
    fn log_start(&self) -> u64 {
        self.0.log_start
    }

    #[getter]
    fn log_end(&self) -> u64 {
        self.0.log_end
    }

    #[getter]
    fn dispatched_end(&self) -> Option<u64> {
        self.0.dispatched_end
    }

    #[getter]
    fn tail(&self) -> Option<(u64, &str)> {
        self.0.tail.as_ref().map(|tail| (tail.bytes, tail.reason.as_str()))
    }

    #[getter]
    fn gaps(&self) -> Vec<(u64, u64)> {
        self.0.gaps.clone()
    }

    /// Returns every queue with its first and its next queue offset.
    fn queues(&self, py: Python<'_>) -> PyResult<Vec<(String, i32, u64, u64)>> {
        let bounds = py.detach(|| {
            let queues = self.0.queues.iter().map(|queue| {
                let (first, end) = self.0.queue_bounds(queue)?;
                Ok((queue.topic.clone(), queue.queue_id, first, end))
            });
            queues.collect::<Result<Vec<_>, _>>()
        });
        bounds.map_err(|error| store_error(py, &error))
    }

    /// Returns the names of the topics that have queues.
    #[getter]
    fn topics(&self) -> Vec<&str> {
        let mut names: Vec<_> = self.0.queues.iter().map(|queue| queue.topic.as_str()).collect();
        names.dedup();
        names
    }

    fn whole(&self) -> Vec<RangeTuple> {
        self.0.whole().into_iter().map(range_tuple).collect()
    }

    #[pyo3(signature = (*, topics = None, start_ms = None, end_ms = None, keys = None))]
    fn ranges(
        &self,
        py: Python<'_>,
        topics: Option<TopicsArgument>,
        start_ms: Option<i64>,
        end_ms: Option<i64>,
        keys: Option<Vec<String>>,
    ) -> PyResult<Vec<RangeTuple>> {
        let wished = selection(topics, start_ms, end_ms, keys);
        let ranges = py.detach(|| self.0.ranges(&wished)).map_err(|error| store_error(py, &error))?;
        Ok(ranges.into_iter().map(range_tuple).collect())
    }

    fn __repr__(&self) -> String {
        format!("StoreSnapshot({:?}, log {} to {})", self.0.root, self.0.log_start, self.0.log_end)
    }
}

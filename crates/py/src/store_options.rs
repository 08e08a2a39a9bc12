//! `StoreOptions`: the layout of a store, and its limits and intervals for writing.
//!
//! The defaults are defined once, in `store::Options`; they apply to arguments that are left out or `None`.
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use store::{Flush, Options};

/// Sizes and intervals of a store.
#[pyclass(frozen, module = "orbitmq._native")]
pub struct StoreOptions(pub Options);

#[pymethods]
impl StoreOptions {
    #[new]
    #[pyo3(signature = (
        *, commit_log_file_size = None, consume_queue_file_size = None, index_enabled = None, index_slots = None,
        index_entries = None, flush = None, flush_interval_ms = None, flush_least_pages = None,
        flush_thorough_interval_ms = None, queue_flush_interval_ms = None, queue_flush_least_pages = None,
        checkpoint_interval_ms = None, max_body_bytes = None, check_crc_on_recover = None, delay_levels_ms = None,
        populate_ahead_bytes = None,
    ))]
    #[allow(clippy::too_many_arguments)] // keyword arguments, every one with a default
    fn new(
        commit_log_file_size: Option<u64>,
        consume_queue_file_size: Option<u64>,
        index_enabled: Option<bool>,
        index_slots: Option<u32>,
        index_entries: Option<u32>,
        flush: Option<&str>,
        flush_interval_ms: Option<u64>,
        flush_least_pages: Option<u64>,
        flush_thorough_interval_ms: Option<u64>,
        queue_flush_interval_ms: Option<u64>,
        queue_flush_least_pages: Option<u64>,
        checkpoint_interval_ms: Option<u64>,
        max_body_bytes: Option<u64>,
        check_crc_on_recover: Option<bool>,
        delay_levels_ms: Option<Vec<i64>>,
        populate_ahead_bytes: Option<u64>,
    ) -> PyResult<StoreOptions> {
        let usual = Options::default();
        let flush = match flush {
            None => usual.flush,
            Some("async") => Flush::Async,
            Some("sync") => Flush::Sync,
            Some(other) => {
                return Err(PyValueError::new_err(format!("flush is \"async\" or \"sync\", not {other:?}")));
            }
        };
        Ok(StoreOptions(Options {
            commit_log_file_size: commit_log_file_size.unwrap_or(usual.commit_log_file_size),
            consume_queue_file_size: consume_queue_file_size.unwrap_or(usual.consume_queue_file_size),
            index_enabled: index_enabled.unwrap_or(usual.index_enabled),
            index_slots: index_slots.unwrap_or(usual.index_slots),
            index_entries: index_entries.unwrap_or(usual.index_entries),
            flush,
            flush_interval_ms: flush_interval_ms.unwrap_or(usual.flush_interval_ms),
            flush_least_pages: flush_least_pages.unwrap_or(usual.flush_least_pages),
            flush_thorough_interval_ms: flush_thorough_interval_ms.unwrap_or(usual.flush_thorough_interval_ms),
            queue_flush_interval_ms: queue_flush_interval_ms.unwrap_or(usual.queue_flush_interval_ms),
            queue_flush_least_pages: queue_flush_least_pages.unwrap_or(usual.queue_flush_least_pages),
            checkpoint_interval_ms: checkpoint_interval_ms.unwrap_or(usual.checkpoint_interval_ms),
            max_body_bytes: max_body_bytes.unwrap_or(usual.max_body_bytes),
            check_crc_on_recover: check_crc_on_recover.unwrap_or(usual.check_crc_on_recover),
            delay_levels_ms: delay_levels_ms.unwrap_or(usual.delay_levels_ms),
            populate_ahead_bytes: populate_ahead_bytes.unwrap_or(usual.populate_ahead_bytes),
        }))
    }

    #[getter]
    fn commit_log_file_size(&self) -> u64 {
        self.0.commit_log_file_size
    }

    #[getter]
    fn consume_queue_file_size(&self) -> u64 {
        self.0.consume_queue_file_size
    }

    #[getter]
    fn index_enabled(&self) -> bool {
        self.0.index_enabled
    }

    #[getter]
    fn index_slots(&self) -> u32 {
        self.0.index_slots
    }

    #[getter]
    fn index_entries(&self) -> u32 {
        self.0.index_entries
    }

    #[getter]
    fn flush(&self) -> &'static str {
        match self.0.flush {
            Flush::Async => "async",
            Flush::Sync => "sync",
        }
    }

    #[getter]
    fn flush_interval_ms(&self) -> u64 {
        self.0.flush_interval_ms
    }

    #[getter]
    fn flush_least_pages(&self) -> u64 {
        self.0.flush_least_pages
    }

    #[getter]
    fn flush_thorough_interval_ms(&self) -> u64 {
        self.0.flush_thorough_interval_ms
    }

    #[getter]
    fn queue_flush_interval_ms(&self) -> u64 {
        self.0.queue_flush_interval_ms
    }

    #[getter]
    fn queue_flush_least_pages(&self) -> u64 {
        self.0.queue_flush_least_pages
    }

    #[getter]
    fn checkpoint_interval_ms(&self) -> u64 {
        self.0.checkpoint_interval_ms
    }

    #[getter]
    fn max_body_bytes(&self) -> u64 {
        self.0.max_body_bytes
    }

    #[getter]
    fn check_crc_on_recover(&self) -> bool {
        self.0.check_crc_on_recover
    }

    #[getter]
    fn delay_levels_ms(&self) -> Vec<i64> {
        self.0.delay_levels_ms.clone()
    }

    #[getter]
    fn populate_ahead_bytes(&self) -> u64 {
        self.0.populate_ahead_bytes
    }

    fn __repr__(&self) -> String {
        format!(
            "StoreOptions(commit_log_file_size={}, consume_queue_file_size={}, flush={:?})",
            self.0.commit_log_file_size,
            self.0.consume_queue_file_size,
            self.flush()
        )
    }
}

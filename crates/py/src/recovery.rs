//! `Recovery`: the report of recovery at the opening of a store.
use pyo3::prelude::*;

/// Report of recovery at the opening of a store.
#[pyclass(frozen, get_all, module = "orbitmq._native")]
pub struct Recovery {
    clean_exit: bool,
    log_end: i64,
    scanned_from: i64,
    rebuilt: u64,
    elapsed_ms: u64,
    notes: Vec<String>,
}

impl From<&store::Recovery> for Recovery {
    fn from(recovery: &store::Recovery) -> Self {
        Recovery {
            clean_exit: recovery.clean_exit,
            log_end: recovery.log_end,
            scanned_from: recovery.scanned_from,
            rebuilt: recovery.rebuilt,
            elapsed_ms: recovery.elapsed_ms,
            notes: recovery.notes.clone(),
        }
    }
}

#[pymethods]
impl Recovery {
    fn __repr__(&self) -> String {
        format!(
            "Recovery(clean_exit={}, log_end={}, rebuilt={}, elapsed_ms={})",
            if self.clean_exit { "True" } else { "False" },
            self.log_end,
            self.rebuilt,
            self.elapsed_ms
        )
    }
}

//! `Cleaned`: the result of a round of cleaning.
use pyo3::prelude::*;

/// Result of a round of cleaning.
#[pyclass(frozen, get_all, module = "orbitmq._native")]
pub struct Cleaned {
    log_files: usize,
    queue_files: usize,
    index_files: usize,
    used_ratio: f64,
}

impl From<store::Cleaned> for Cleaned {
    fn from(cleaned: store::Cleaned) -> Self {
        Cleaned {
            log_files: cleaned.log_files,
            queue_files: cleaned.queue_files,
            index_files: cleaned.index_files,
            used_ratio: cleaned.used_ratio,
        }
    }
}

#[pymethods]
impl Cleaned {
    fn __repr__(&self) -> String {
        format!(
            "Cleaned(log_files={}, queue_files={}, index_files={}, used_ratio={})",
            self.log_files, self.queue_files, self.index_files, self.used_ratio
        )
    }
}

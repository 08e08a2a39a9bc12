//! `Appended`: where a message was put.
use pyo3::prelude::*;

/// Where a message was put.
#[pyclass(frozen, eq, module = "orbitmq._native")]
#[derive(PartialEq)]
pub struct Appended(pub store::Appended);

#[pymethods]
impl Appended {
    #[getter]
    fn physical_offset(&self) -> i64 {
        self.0.physical_offset
    }

    #[getter]
    fn size(&self) -> u32 {
        self.0.size
    }

    #[getter]
    fn queue_offset(&self) -> i64 {
        self.0.queue_offset
    }

    #[getter]
    fn end(&self) -> i64 {
        self.0.end()
    }

    fn __repr__(&self) -> String {
        format!(
            "Appended(physical_offset={}, size={}, queue_offset={})",
            self.0.physical_offset, self.0.size, self.0.queue_offset
        )
    }
}

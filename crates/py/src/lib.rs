//! `orbitmq._native`: lists the classes; each lives in its own file.
use pyo3::prelude::*;

#[pymodule]
fn _native(_module: &Bound<'_, PyModule>) -> PyResult<()> {
    Ok(())
}

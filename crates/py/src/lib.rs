//! `orbitmq._native`: lists what the module holds; each class lives in its own file.
use pyo3::prelude::*;

#[pymodule]
mod _native {}

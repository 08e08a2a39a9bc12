//! The properties string of a message ⇄ a dict.
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

/// The properties in a properties string; a later duplicate wins, entries no reader accepts are left out.
#[pyfunction]
#[pyo3(signature = (text, /))]
pub fn decode_properties<'py>(py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyDict>> {
    let properties = PyDict::new(py);
    for (name, value) in wire::properties::iter(text) {
        properties.set_item(name, value)?;
    }
    Ok(properties)
}

/// The properties string of a dict, in its order.
///
/// Raises `ValueError` for what no reader would give back: an empty name or value, or a separator inside one.
#[pyfunction]
#[pyo3(signature = (properties, /))]
pub fn encode_properties(properties: &Bound<'_, PyDict>) -> PyResult<String> {
    let pairs: Vec<(String, String)> =
        properties.iter().map(|(name, value)| Ok((name.extract()?, value.extract()?))).collect::<PyResult<_>>()?;
    for (name, value) in &pairs {
        if !wire::properties::is_plain(name) || !wire::properties::is_plain(value) {
            return Err(PyValueError::new_err(format!(
                "property {name:?} = {value:?} cannot be stored: neither side may be empty or hold the characters 1 and 2"
            )));
        }
    }
    Ok(wire::properties::encode(pairs.iter().map(|(name, value)| (name.as_str(), value.as_str()))))
}

/// Properties as an argument: a dict, or a string that is already in the stored form.
#[derive(FromPyObject)]
pub enum PropertiesArgument<'py> {
    /// Taken as it is.
    Encoded(Bound<'py, PyString>),
    /// Encoded first.
    Pairs(Bound<'py, PyDict>),
}

impl PropertiesArgument<'_> {
    /// The stored form.
    pub fn into_text(self) -> PyResult<String> {
        match self {
            PropertiesArgument::Encoded(text) => text.extract(),
            PropertiesArgument::Pairs(pairs) => encode_properties(&pairs),
        }
    }
}

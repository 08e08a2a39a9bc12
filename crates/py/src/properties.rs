//! The properties string of a message ⇄ a dict.
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

/// Decodes a properties string; a later duplicate wins, entries that no reader accepts are left out.
#[pyfunction]
#[pyo3(signature = (text, /))]
pub fn decode_properties<'py>(py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyDict>> {
    let properties = PyDict::new(py);
    for (name, value) in wire::properties::iter(text) {
        properties.set_item(name, value)?;
    }
    Ok(properties)
}

/// Encodes a dict as a properties string, in its order.
///
/// Raises `ValueError` for entries that would not be read back: an empty name or value, a separator in a name, the
/// character 2 in a value. So the result of `decode_properties` can always be encoded again.
#[pyfunction]
#[pyo3(signature = (properties, /))]
pub fn encode_properties(properties: &Bound<'_, PyDict>) -> PyResult<String> {
    let items: Vec<_> = properties.iter().collect();
    let mut pairs = Vec::with_capacity(items.len());
    for (name, value) in &items {
        let (name, value) = (name.cast::<PyString>()?.to_str()?, value.cast::<PyString>()?.to_str()?);
        if !wire::properties::is_name(name) || !wire::properties::is_value(value) {
            return Err(not_plain(name, value));
        }
        pairs.push((name, value));
    }
    Ok(wire::properties::encode(pairs))
}

/// Creates the error for a property that would not be read back.
pub fn not_plain(name: &str, value: &str) -> PyErr {
    PyValueError::new_err(format!(
        "property {name:?} = {value:?} cannot be stored: neither side may be empty or hold the character 2, nor a name the character 1"
    ))
}

/// Properties as an argument: a dict, or a string that is already in the stored form.
pub struct PropertiesArgument(pub String);

impl PropertiesArgument {
    /// Returns the stored form; empty for `None`.
    pub fn text(argument: Option<PropertiesArgument>) -> String {
        argument.map_or_else(String::new, |PropertiesArgument(text)| text)
    }
}

impl<'py> FromPyObject<'_, 'py> for PropertiesArgument {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(pairs) = object.cast::<PyDict>() {
            return Ok(PropertiesArgument(encode_properties(&pairs)?));
        }
        match object.cast::<PyString>() {
            Ok(text) => Ok(PropertiesArgument(text.to_str()?.to_owned())),
            Err(_) => {
                Err(PyTypeError::new_err(format!("properties are a dict or a str, not {}", object.get_type().name()?)))
            }
        }
    }
}

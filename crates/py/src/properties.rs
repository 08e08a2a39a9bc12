//! The properties string of a message ⇄ a dict.
use pyo3::exceptions::{PyTypeError, PyValueError};
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
/// Raises `ValueError` for what would not read back: an empty name or value, a separator in a name, the character 2 in a value. So
/// what `decode_properties` returns can always be written again.
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

/// A property that would not read back.
pub fn not_plain(name: &str, value: &str) -> PyErr {
    PyValueError::new_err(format!(
        "property {name:?} = {value:?} cannot be stored: neither side may be empty or hold the character 2, nor a name the character 1"
    ))
}

/// Properties as an argument: a dict, or a string that is already in the stored form.
pub struct PropertiesArgument(pub String);

impl PropertiesArgument {
    /// The stored form; empty for none.
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

//! Conversion between JSON in fastjson's dialect and Python objects.
//!
//! Objects become dicts and lists become lists, as usual. Python's own reader does not support objects as keys; they
//! become tuples of `(name, value)` pairs sorted by name, so that two spellings of one key are one key:
//!
//! ```text
//! {0:"a"}                              {0: "a"}
//! {{"topic":"T","queueId":1}:5}        {(("queueId", 1), ("topic", "T")): 5}
//! ```
use std::borrow::Cow;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use wire::json::{Keys, Limits, Value, parse, write};

use crate::bytes_like::BytesLike;
use crate::errors::{json_error, json_error_without_place};

/// Reads JSON as fastjson writes it.
#[pyfunction]
#[pyo3(signature = (data, /))]
pub fn loads_lenient(py: Python<'_>, data: BytesLike) -> PyResult<Bound<'_, PyAny>> {
    let value = parse(data.0.as_bytes(py)).map_err(|error| json_error(py, error))?;
    object(py, &value)
}

/// Writes JSON as fastjson does.
#[pyfunction]
#[pyo3(signature = (value, /, *, quote_keys = false))]
pub fn dumps_lenient<'py>(
    py: Python<'py>,
    value: &Bound<'py, PyAny>,
    quote_keys: bool,
) -> PyResult<Bound<'py, PyBytes>> {
    let keys = if quote_keys { Keys::Quoted } else { Keys::Bare };
    let mut out = Vec::new();
    write(&value_of(value, Limits::DEFAULT.depth)?, keys, &mut out);
    Ok(PyBytes::new(py, &out))
}

fn object<'py>(py: Python<'py>, value: &Value<'_>) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Null => py.None().into_bound(py),
        Value::Bool(truth) => PyBool::new(py, *truth).to_owned().into_any(),
        Value::Int(number) => number.into_pyobject(py)?.into_any(),
        Value::Number(text) => number(py, text)?,
        Value::Text(text) => PyString::new(py, text).into_any(),
        Value::List(items) => {
            let list = PyList::empty(py);
            for item in items {
                list.append(object(py, item)?)?;
            }
            list.into_any()
        }
        Value::Map(pairs) => {
            let dict = PyDict::new(py);
            for (key, value) in pairs {
                dict.set_item(hashable(py, key)?, object(py, value)?)?;
            }
            dict.into_any()
        }
    })
}

/// Converts a number that does not fit 64 bits: a long integer, or a decimal.
fn number<'py>(py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyAny>> {
    if text.contains(['.', 'e', 'E']) {
        let number: f64 = text.parse().map_err(|_| json_error_without_place(py, format!("{text:?} is no number")))?;
        return Ok(PyFloat::new(py, number).into_any());
    }
    // Python rejects integers of thousands of digits; they are reported as invalid input here, too.
    let made = py.get_type::<PyInt>().call1((text,));
    made.map_err(|_| json_error_without_place(py, format!("an integer of {} digits", text.len())))
}

/// Converts a value that is used as a key.
fn hashable<'py>(py: Python<'py>, key: &Value<'_>) -> PyResult<Bound<'py, PyAny>> {
    match key {
        Value::List(_) => Err(json_error_without_place(py, "a list in the place of a key".into())),
        Value::Map(pairs) => {
            let mut entries = Vec::with_capacity(pairs.len());
            for (name, value) in pairs {
                let Some(name) = name.as_str() else {
                    return Err(json_error_without_place(py, "a key whose own keys are not strings".into()));
                };
                entries.push((name, hashable(py, value)?));
            }
            entries.sort_by_key(|(name, _)| *name);
            Ok(PyTuple::new(py, entries)?.into_any())
        }
        _ => object(py, key),
    }
}

/// Converts an object to a value. `depth` is the remaining depth of nested containers: written values can be read back,
/// and a list that contains itself does not overflow the stack.
fn value_of<'a>(object: &Bound<'_, PyAny>, depth: usize) -> PyResult<Value<'a>> {
    if object.is_none() {
        Ok(Value::Null)
    } else if let Ok(truth) = object.cast::<PyBool>() {
        Ok(Value::Bool(truth.is_true()))
    } else if let Ok(text) = object.cast::<PyString>() {
        Ok(Value::Text(Cow::Owned(text.extract()?)))
    } else if object.is_instance_of::<PyInt>() {
        match object.extract::<i64>() {
            Ok(number) => Ok(Value::Int(number)),
            Err(_) => Ok(Value::Number(Cow::Owned(object.str()?.extract()?))),
        }
    } else if let Ok(number) = object.cast::<PyFloat>() {
        let number = number.value();
        if !number.is_finite() {
            return Err(PyValueError::new_err(format!("{number} has no JSON form")));
        }
        Ok(Value::Number(Cow::Owned(format!("{number:?}"))))
    } else if let Ok(dict) = object.cast::<PyDict>() {
        let depth = deeper(depth)?;
        let pairs = dict.iter().map(|(key, value)| Ok((key_of(&key, depth)?, value_of(&value, depth)?)));
        Ok(Value::Map(pairs.collect::<PyResult<_>>()?))
    } else if let Ok(list) = object.cast::<PyList>() {
        let depth = deeper(depth)?;
        Ok(Value::List(list.iter().map(|item| value_of(&item, depth)).collect::<PyResult<_>>()?))
    } else {
        Err(PyTypeError::new_err(format!("{} has no JSON form", object.get_type())))
    }
}

/// Converts a dict's key: a plain one, or the tuple of pairs that represents an object.
fn key_of<'a>(key: &Bound<'_, PyAny>, depth: usize) -> PyResult<Value<'a>> {
    let Ok(pairs) = key.cast::<PyTuple>() else { return value_of(key, depth) };
    let depth = deeper(depth)?;
    let mut entries = Vec::with_capacity(pairs.len());
    for pair in pairs.iter() {
        let (name, value): (String, Bound<'_, PyAny>) = pair.extract()?;
        entries.push((Value::Text(Cow::Owned(name)), key_of(&value, depth)?));
    }
    Ok(Value::Map(entries))
}

fn deeper(depth: usize) -> PyResult<usize> {
    depth.checked_sub(1).ok_or_else(|| PyValueError::new_err("nested too deep for JSON"))
}

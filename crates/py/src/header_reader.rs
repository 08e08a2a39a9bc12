//! `HeaderReader`: converts a command's ext fields to typed values, in one call.
//!
//! The fields of a header and their types are defined in Python, once per header class; here they are read once per
//! request. The rules are Java's: a number is an optional sign and decimal digits within its 32 or 64 bits, a boolean
//! is `true` in any case or else false. An invalid number in a field with a default counts as missing, but not in
//! strict headers.
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::command::Command;
use crate::errors::header_fault;

#[derive(Clone, Copy)]
enum Kind {
    Text,
    Boolean,
    Int,
    Long,
}

struct Field {
    name: Py<PyString>,
    wire_name: String,
    kind: Kind,
    /// `None`: the field is required.
    default: Option<Py<PyAny>>,
}

/// Field as Python passes it: its name, its name on the wire, its kind, and a tuple with the default, empty if the
/// field is required.
type FieldArgument = (Py<PyString>, String, String, Vec<Py<PyAny>>);

/// Reads the ext fields of commands into the values of one header class.
#[pyclass(frozen, module = "orbitmq._native")]
pub struct HeaderReader {
    fields: Vec<Field>,
    strict: bool,
}

#[pymethods]
impl HeaderReader {
    #[new]
    #[pyo3(signature = (fields, *, strict = false))]
    fn new(fields: Vec<FieldArgument>, strict: bool) -> PyResult<HeaderReader> {
        let fields = fields.into_iter().map(|(name, wire_name, kind, default)| {
            let kind = match kind.as_str() {
                "str" => Kind::Text,
                "bool" => Kind::Boolean,
                "int" => Kind::Int,
                "long" => Kind::Long,
                _ => return Err(PyValueError::new_err(format!("no field is of kind {kind:?}"))),
            };
            Ok(Field { name, wire_name, kind, default: default.into_iter().next() })
        });
        Ok(HeaderReader { fields: fields.collect::<PyResult<_>>()?, strict })
    }

    /// Returns the values of a command's header by their names.
    #[pyo3(signature = (command, /))]
    fn read<'py>(&self, py: Python<'py>, command: &Command) -> PyResult<Bound<'py, PyDict>> {
        let values = PyDict::new(py);
        let texts = command.texts(py)?;
        self.read_into(py, &values, |name| texts.get(name))?;
        Ok(values)
    }
}

impl HeaderReader {
    fn read_into<'a>(
        &self,
        py: Python<'_>,
        values: &Bound<'_, PyDict>,
        find: impl Fn(&str) -> Option<&'a str>,
    ) -> PyResult<()> {
        for field in &self.fields {
            let name = &field.name;
            let number = match (find(&field.wire_name), field.kind) {
                (Some(text), Kind::Text) => {
                    values.set_item(name, text)?;
                    continue;
                }
                (Some(text), Kind::Boolean) => {
                    values.set_item(name, text.eq_ignore_ascii_case("true"))?;
                    continue;
                }
                (Some(text), Kind::Int) => text.parse::<i32>().map(i64::from).map_err(|_| text),
                (Some(text), Kind::Long) => text.parse::<i64>().map_err(|_| text),
                (None, _) => match &field.default {
                    Some(default) => {
                        values.set_item(name, default)?;
                        continue;
                    }
                    None => return Err(header_fault(py, format!("field {} is missing", field.wire_name))),
                },
            };
            match (number, &field.default) {
                (Ok(number), _) => values.set_item(name, number)?,
                (Err(_), Some(default)) if !self.strict => values.set_item(name, default)?,
                (Err(text), _) => {
                    return Err(header_fault(py, format!("field {} is not a number: '{text}'", field.wire_name)));
                }
            }
        }
        Ok(())
    }
}

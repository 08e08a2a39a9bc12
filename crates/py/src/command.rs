//! `Command`: one request or response, header and body.
//!
//! A decoded command owns its parts as Python objects, so a handler may read a field as often as it likes. `ext` is `None` when
//! the header had no such map: in JSON that differs from an empty one, and some peers care.
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};
use wire::frame::{self, Frame, FrameError};
use wire::header::{self, Encoding, Language};

use crate::bytes_like::BytesLike;
use crate::errors::frame_error;

/// One request or response.
#[pyclass(frozen, module = "orbitmq._native")]
pub struct Command {
    #[pyo3(get)]
    code: i32,
    #[pyo3(get)]
    version: i32,
    #[pyo3(get)]
    opaque: i32,
    #[pyo3(get)]
    flag: i32,
    #[pyo3(get)]
    remark: Option<Py<PyString>>,
    #[pyo3(get)]
    ext: Option<Py<PyDict>>,
    #[pyo3(get)]
    body: Py<PyBytes>,
    language: Language,
    encoding: Encoding,
}

impl Command {
    /// The command a frame carries.
    pub fn decode(py: Python<'_>, frame: &Frame<'_>) -> PyResult<Result<Command, FrameError>> {
        let header = match frame.command() {
            Ok(header) => header,
            Err(error) => return Ok(Err(error)),
        };
        let ext = match &header.ext_fields {
            Some(pairs) => {
                let ext = PyDict::new(py);
                for (name, value) in pairs {
                    ext.set_item(name.as_ref(), value.as_ref())?;
                }
                Some(ext.unbind())
            }
            None => None,
        };
        Ok(Ok(Command {
            code: header.code,
            version: header.version,
            opaque: header.opaque,
            flag: header.flag,
            remark: header.remark.map(|remark| PyString::new(py, &remark).unbind()),
            ext,
            body: PyBytes::new(py, frame.body).unbind(),
            language: header.language,
            encoding: frame.encoding,
        }))
    }

    fn encode_into(&self, py: Python<'_>, out: &mut Vec<u8>) -> PyResult<()> {
        let remark = self.remark.as_ref().map(|remark| remark.bind(py).to_cow()).transpose()?;
        let ext: Option<Vec<(String, String)>> = match &self.ext {
            Some(ext) => {
                let pairs = ext.bind(py).iter();
                Some(pairs.map(|(name, value)| Ok((name.extract()?, value.extract()?))).collect::<PyResult<_>>()?)
            }
            None => None,
        };
        let header = header::Command {
            code: self.code,
            language: self.language,
            version: self.version,
            opaque: self.opaque,
            flag: self.flag,
            remark,
            ext_fields: ext
                .as_ref()
                .map(|pairs| pairs.iter().map(|(name, value)| (name.into(), value.into())).collect()),
        };
        frame::encode(&header, self.encoding, self.body.as_bytes(py), out).map_err(|error| frame_error(py, error, None))
    }
}

#[pymethods]
impl Command {
    #[new]
    #[pyo3(signature = (
        code, *, opaque = 0, flag = 0, remark = None, ext = None, body = None, language = "PYTHON", version = 407,
        encoding = "json",
    ))]
    #[allow(clippy::too_many_arguments)] // the fields of the header, all but one of them with a default
    fn new(
        py: Python<'_>,
        code: i32,
        opaque: i32,
        flag: i32,
        remark: Option<Py<PyString>>,
        ext: Option<Py<PyDict>>,
        body: Option<BytesLike>,
        language: &str,
        version: i32,
        encoding: &str,
    ) -> PyResult<Command> {
        let known_language = Language::from_name(language);
        if known_language.name() != language {
            return Err(PyValueError::new_err(format!("no language is called {language:?}")));
        }
        let encoding = match encoding {
            "json" => Encoding::Json,
            "binary" => Encoding::Binary,
            _ => return Err(PyValueError::new_err(format!("encoding is \"json\" or \"binary\", not {encoding:?}"))),
        };
        Ok(Command {
            code,
            version,
            opaque,
            flag,
            remark,
            ext,
            body: body.map_or_else(|| PyBytes::new(py, b"").unbind(), |BytesLike(body)| body),
            language: known_language,
            encoding,
        })
    }

    #[getter]
    fn language(&self) -> &'static str {
        self.language.name()
    }

    #[getter]
    fn encoding(&self) -> &'static str {
        match self.encoding {
            Encoding::Json => "json",
            Encoding::Binary => "binary",
        }
    }

    #[getter]
    fn is_response(&self) -> bool {
        self.flag & header::FLAG_RESPONSE != 0
    }

    #[getter]
    fn is_oneway(&self) -> bool {
        self.flag & header::FLAG_ONEWAY != 0
    }

    /// One ext field.
    #[pyo3(signature = (name, /))]
    fn get_ext<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
        match &self.ext {
            Some(ext) => ext.bind(py).get_item(name),
            None => Ok(None),
        }
    }

    /// The command's frame.
    fn encode<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let mut out = Vec::with_capacity(256 + self.body.as_bytes(py).len());
        self.encode_into(py, &mut out)?;
        Ok(PyBytes::new(py, &out))
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        format!(
            "Command(code={}, opaque={}, flag={}, encoding={:?}, {} bytes of body)",
            self.code,
            self.opaque,
            self.flag,
            self.encoding(),
            self.body.as_bytes(py).len(),
        )
    }
}

/// The frames of several commands, back to back: what leaves in one write.
#[pyfunction]
#[pyo3(signature = (commands, /))]
pub fn encode_commands<'py>(py: Python<'py>, commands: Vec<Py<Command>>) -> PyResult<Bound<'py, PyBytes>> {
    let body_len: usize = commands.iter().map(|command| command.get().body.as_bytes(py).len()).sum();
    let mut out = Vec::with_capacity(256 * commands.len() + body_len);
    for command in &commands {
        command.get().encode_into(py, &mut out)?;
    }
    Ok(PyBytes::new(py, &out))
}

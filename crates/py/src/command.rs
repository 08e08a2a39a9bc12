//! `Command`: a request or response, header and body.
//!
//! `ext` is `None` if the header had no such map: in JSON that differs from an empty one, and some peers depend on the
//! difference. The ext fields of a received command, and of responses with numbers made here, are texts; their dict is
//! created at the first access.
use std::borrow::Cow;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyString};
use wire::frame::{self, Frame, FrameError};
use wire::header::{self, Encoding, Language};

use crate::bytes_like::BytesLike;
use crate::errors::frame_error;
use crate::ext_fields::ExtTexts;

/// Language and version of commands made here; the signature of `new` contains both as literals.
pub const OUR_LANGUAGE: Language = Language::Python;
pub const OUR_VERSION: i32 = 407;

/// Request or response.
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
    texts: Option<ExtTexts>,
    ext: PyOnceLock<Option<Py<PyDict>>>,
    #[pyo3(get)]
    body: Py<PyBytes>,
    language: Language,
    encoding: Encoding,
}

impl Command {
    /// Decodes the command in a frame.
    pub fn decode(py: Python<'_>, frame: &Frame<'_>) -> Result<Command, FrameError> {
        let head = Command::decode_head(py, frame)?;
        Ok(head.with_body(PyBytes::new(py, frame.body).unbind()))
    }

    /// Decodes the command in a frame without its body.
    pub fn decode_head(py: Python<'_>, frame: &Frame<'_>) -> Result<Command, FrameError> {
        let header = frame.command()?;
        Ok(Command {
            code: header.code,
            version: header.version,
            opaque: header.opaque,
            flag: header.flag,
            remark: header.remark.map(|remark| PyString::new(py, &remark).unbind()),
            texts: header.ext_fields.as_deref().map(ExtTexts::new),
            ext: PyOnceLock::new(),
            body: PyBytes::new(py, b"").unbind(),
            language: header.language,
            encoding: frame.encoding,
        })
    }

    /// Returns the command with this body.
    pub fn with_body(self, body: Py<PyBytes>) -> Command {
        Command { body, ..self }
    }

    pub fn code(&self) -> i32 {
        self.code
    }

    pub fn body_bytes(&self) -> &Py<PyBytes> {
        &self.body
    }

    /// Returns the ext fields as texts; those of a command made with a dict are copied out of it.
    pub fn texts(&self, py: Python<'_>) -> PyResult<Cow<'_, ExtTexts>> {
        if let Some(texts) = &self.texts {
            return Ok(Cow::Borrowed(texts));
        }
        let items: Vec<_> = self.ext_dict(py)?.map(|ext| ext.bind(py).iter().collect()).unwrap_or_default();
        let pairs = items.iter().map(text_pair).collect::<PyResult<Vec<_>>>()?;
        Ok(Cow::Owned(ExtTexts::new(&pairs)))
    }

    /// Creates the response to this request, its ext fields as texts.
    pub fn answer(&self, py: Python<'_>, code: i32, remark: Option<&str>, ext: ExtTexts, body: Py<PyBytes>) -> Command {
        Command {
            code,
            version: OUR_VERSION,
            opaque: self.opaque,
            flag: header::FLAG_RESPONSE,
            remark: remark.map(|remark| PyString::intern(py, remark).unbind()),
            texts: Some(ext),
            ext: PyOnceLock::new(),
            body,
            language: OUR_LANGUAGE,
            encoding: self.encoding,
        }
    }

    pub fn ext_dict(&self, py: Python<'_>) -> PyResult<Option<&Py<PyDict>>> {
        let ext = self
            .ext
            .get_or_try_init(py, || self.texts.as_ref().map(|texts| texts.dict(py).map(Bound::unbind)).transpose())?;
        Ok(ext.as_ref())
    }

    /// Appends the frame without its body.
    fn encode_head_into(&self, py: Python<'_>, out: &mut Vec<u8>) -> PyResult<()> {
        let remark = self.remark.as_ref().map(|remark| remark.bind(py).to_cow()).transpose()?;
        // A dict that was accessed may have been changed since.
        let items: Vec<_>;
        let ext_fields = match (self.ext.get(py), &self.texts) {
            (Some(None), _) | (None, None) => None,
            (Some(Some(ext)), _) => {
                items = ext.bind(py).iter().collect();
                Some(items.iter().map(text_pair).collect::<PyResult<_>>()?)
            }
            (None, Some(texts)) => Some(texts.iter().map(|(name, value)| (name.into(), value.into())).collect()),
        };
        let header = header::Command {
            code: self.code,
            language: self.language,
            version: self.version,
            opaque: self.opaque,
            flag: self.flag,
            remark,
            ext_fields,
        };
        let body_len = self.body.as_bytes(py).len();
        frame::encode_head(&header, self.encoding, body_len, out).map_err(|error| frame_error(py, error, None))
    }
}

fn given(py: Python<'_>, ext: Option<Py<PyDict>>) -> PyOnceLock<Option<Py<PyDict>>> {
    let cell = PyOnceLock::new();
    cell.get_or_init(py, || ext);
    cell
}

fn text_pair<'a>((name, value): &'a (Bound<'_, PyAny>, Bound<'_, PyAny>)) -> PyResult<(Cow<'a, str>, Cow<'a, str>)> {
    Ok((name.cast::<PyString>()?.to_str()?.into(), value.cast::<PyString>()?.to_str()?.into()))
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
            texts: None,
            ext: given(py, ext),
            body: body.map_or_else(|| PyBytes::new(py, b"").unbind(), |BytesLike(body)| body),
            language: known_language,
            encoding,
        })
    }

    /// Creates the response to this request: with its opaque and its encoding.
    #[pyo3(signature = (code, remark = None, ext = None, body = None))]
    fn respond(
        &self,
        py: Python<'_>,
        code: i32,
        remark: Option<Py<PyString>>,
        ext: Option<Py<PyDict>>,
        body: Option<BytesLike>,
    ) -> Command {
        Command {
            code,
            version: OUR_VERSION,
            opaque: self.opaque,
            flag: header::FLAG_RESPONSE,
            remark,
            texts: None,
            ext: given(py, ext),
            body: body.map_or_else(|| PyBytes::new(py, b"").unbind(), |BytesLike(body)| body),
            language: OUR_LANGUAGE,
            encoding: self.encoding,
        }
    }

    #[getter(ext)]
    fn ext_or_none(&self, py: Python<'_>) -> PyResult<Option<&Py<PyDict>>> {
        self.ext_dict(py)
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

    /// Returns the number of bytes that a received command keeps: its body and its ext fields.
    #[getter]
    fn size(&self, py: Python<'_>) -> usize {
        self.body.as_bytes(py).len() + self.texts.as_ref().map_or(0, ExtTexts::size)
    }

    /// Returns one ext field.
    #[pyo3(signature = (name, /))]
    fn get_ext<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
        match self.ext_dict(py)? {
            Some(ext) => ext.bind(py).get_item(name),
            None => Ok(None),
        }
    }

    /// Encodes the command as a frame.
    fn encode<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let body = self.body.as_bytes(py);
        let mut out = Vec::with_capacity(256 + body.len());
        self.encode_head_into(py, &mut out)?;
        out.extend_from_slice(body);
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

/// Encodes the frame of a request, for callers that need no `Command`.
#[pyfunction]
#[pyo3(signature = (code, opaque, ext, body, encoding, /))]
pub fn encode_request<'py>(
    py: Python<'py>,
    code: i32,
    opaque: i32,
    ext: Option<Py<PyDict>>,
    body: Option<BytesLike>,
    encoding: &str,
) -> PyResult<Bound<'py, PyBytes>> {
    Command::new(py, code, opaque, 0, None, ext, body, OUR_LANGUAGE.name(), OUR_VERSION, encoding)?.encode(py)
}

/// Size from which a body is written from its own memory, and received into its final memory: copying it would cost
/// more than one more buffer, or one more call.
pub const LARGE_BODY_LEN: usize = 16 * 1024;

/// Encodes the frames of several commands, back to back, in the smallest worthwhile number of buffers for one write.
#[pyfunction]
#[pyo3(signature = (commands, /))]
pub fn encode_commands<'py>(py: Python<'py>, commands: Vec<Py<Command>>) -> PyResult<Vec<Bound<'py, PyBytes>>> {
    let small_len = |command: &Py<Command>| match command.get().body.as_bytes(py).len() {
        len if len < LARGE_BODY_LEN => len,
        _ => 0,
    };
    let mut buffers = Vec::with_capacity(1);
    let mut together = Vec::with_capacity(commands.iter().map(|command| 256 + small_len(command)).sum());
    for command in &commands {
        let command = command.get();
        command.encode_head_into(py, &mut together)?;
        let body = command.body.as_bytes(py);
        if body.len() < LARGE_BODY_LEN {
            together.extend_from_slice(body);
        } else {
            buffers.push(PyBytes::new(py, &together));
            buffers.push(command.body.bind(py).clone());
            together.clear();
        }
    }
    if !together.is_empty() {
        buffers.push(PyBytes::new(py, &together));
    }
    Ok(buffers)
}

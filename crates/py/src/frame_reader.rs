//! `FrameReader`: cuts the bytes of a connection into commands.
//!
//! Bytes are fed as the socket returns them, whole commands are returned; the rest of a frame waits for the next bytes.
//! Nothing is kept when a read ends exactly at a frame's end, which is the usual case, so then nothing is copied but
//! the bodies.
//!
//! An invalid frame ends the stream, because the start of the next frame is then unknown. The commands before it are
//! still returned, `failure` then holds the error, and every later call raises it.
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::PyList;
use wire::frame::{Cut, MAX_FRAME_LEN, cut_head, cut_with};

use crate::bytes_like::BytesLike;
use crate::command::{Command, LARGE_BODY_LEN};
use crate::errors::frame_error;
use crate::filled_bytes::FilledBytes;

/// Capacity that an idle connection may keep for its next partial frame.
const KEPT_CAPACITY: usize = 64 * 1024;

/// Received size from which a frame gets room for all of it at once. Growing by doubling would leave free blocks of all
/// sizes, which together take more memory than the frames.
const BELIEVED_LEN: usize = 256 * 1024;

// The signature below contains the limit as a literal, so that people and stubs see the number.
const _: () = assert!(MAX_FRAME_LEN == 16777216);

/// Cuts a connection's bytes into commands.
#[pyclass(module = "orbitmq._native")]
pub struct FrameReader {
    max_frame_bytes: usize,
    partial: Vec<u8>,
    /// Number of bytes of the stream before the first one in `partial`.
    position: u64,
    failure: Option<Py<PyException>>,
}

#[pymethods]
impl FrameReader {
    #[new]
    #[pyo3(signature = (*, max_frame_bytes = 16777216))]
    fn new(max_frame_bytes: usize) -> FrameReader {
        FrameReader { max_frame_bytes, partial: Vec::new(), position: 0, failure: None }
    }

    /// Takes the next bytes of the stream; returns the commands that are complete now.
    #[pyo3(signature = (data, /))]
    fn feed<'py>(&mut self, py: Python<'py>, data: BytesLike) -> PyResult<Bound<'py, PyList>> {
        let commands = PyList::empty(py);
        self.feed_slice(py, data.0.as_bytes(py), &commands)?;
        Ok(commands)
    }

    #[getter]
    fn failure<'py>(&self, py: Python<'py>) -> Option<&Bound<'py, PyException>> {
        self.failure.as_ref().map(|failure| failure.bind(py))
    }

    #[getter]
    fn pending_bytes(&self) -> usize {
        self.partial.len()
    }
}

impl Default for FrameReader {
    fn default() -> FrameReader {
        FrameReader::new(MAX_FRAME_LEN)
    }
}

impl FrameReader {
    /// Raises the error that ended the stream.
    pub fn check(&self, py: Python<'_>) -> PyResult<()> {
        match &self.failure {
            Some(failure) => Err(PyErr::from_value(failure.bind(py).clone().into_any())),
            None => Ok(()),
        }
    }

    /// Takes the next bytes of the stream; appends the commands that are complete now.
    pub fn feed_slice(&mut self, py: Python<'_>, data: &[u8], commands: &Bound<'_, PyList>) -> PyResult<()> {
        self.check(py)?;
        let mut partial = std::mem::take(&mut self.partial);
        let bytes = if partial.is_empty() {
            data
        } else {
            partial.extend_from_slice(data);
            &partial
        };
        let (taken, frame_len) = self.cut_all(py, bytes, commands)?;
        self.position += taken as u64;
        if self.failure.is_some() {
            return Ok(());
        }
        if partial.is_empty() {
            self.partial.extend_from_slice(&data[taken..]);
        } else {
            partial.drain(..taken);
            if !(partial.is_empty() && partial.capacity() > KEPT_CAPACITY) {
                self.partial = partial;
            }
        }
        if self.partial.len() >= BELIEVED_LEN {
            self.partial.reserve_exact(frame_len.saturating_sub(self.partial.len()));
        }
        Ok(())
    }

    /// Takes the partial frame if its body is large: returns its head, and the part of the body received so far. The
    /// stream continues after it.
    pub fn take_large(&mut self, py: Python<'_>) -> PyResult<Option<(Command, FilledBytes)>> {
        // Errors of a frame are found when it is complete.
        let Ok(Some((frame, body_len))) = cut_head(&self.partial, self.max_frame_bytes) else { return Ok(None) };
        if body_len < LARGE_BODY_LEN {
            return Ok(None);
        }
        let Ok(head) = Command::decode_head(py, &frame) else { return Ok(None) };
        let mut body = FilledBytes::new(py, body_len)?;
        body.push(frame.body);
        self.position += (self.partial.len() - frame.body.len() + body_len) as u64;
        self.partial.clear();
        Ok(Some((head, body)))
    }

    /// Appends every whole command of `bytes` to `commands`; returns the number of bytes they took, and the length of
    /// the frame after them.
    fn cut_all(&mut self, py: Python<'_>, bytes: &[u8], commands: &Bound<'_, PyList>) -> PyResult<(usize, usize)> {
        let mut taken = 0;
        loop {
            let cut = match cut_with(&bytes[taken..], self.max_frame_bytes) {
                Ok(Cut::NeedMore { len }) => return Ok((taken, len)),
                Ok(Cut::Frame { frame, len }) => Command::decode(py, &frame).map(|command| (command, len)),
                Err(error) => Err(error),
            };
            match cut {
                Ok((command, len)) => {
                    commands.append(command)?;
                    taken += len;
                }
                Err(error) => {
                    let error = frame_error(py, error, Some(self.position + taken as u64));
                    self.failure = Some(error.into_value(py).cast_bound::<PyException>(py)?.clone().unbind());
                    return Ok((taken, 0));
                }
            }
        }
    }
}

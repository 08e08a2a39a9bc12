//! `SocketReader`: receives commands from a socket, large bodies directly into their final memory.
//!
//! ```text
//! socket ──► room ──► FrameReader ──► commands             heads, small commands
//!    └────────────────► the body's own bytes ──► command   rest of a large body once its head has arrived
//! ```
//! A `FrameReader` that is fed copies a body three times: out of the receive buffer, to the rest of its frame, and into
//! its command. For a reader of gigabytes that is as much work as all its other work with them. The GIL is released
//! while bytes are copied or waited for.
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use pyo3::exceptions::{PyEOFError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyList;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

use crate::command::Command;
use crate::filled_bytes::FilledBytes;
use crate::frame_reader::FrameReader;

/// Size of the room: enough for all of a small response; of a large one this many bytes are copied once more.
const ROOM: usize = 16 * 1024;

/// Receives commands from a socket.
#[pyclass(module = "orbitmq._native")]
pub struct SocketReader {
    frames: FrameReader,
    room: Box<[u8; ROOM]>,
    arriving: Option<Arriving>,
}

/// Command whose body is still being received.
struct Arriving {
    head: Command,
    body: FilledBytes,
}

#[pymethods]
impl SocketReader {
    #[new]
    fn new() -> SocketReader {
        SocketReader { frames: FrameReader::default(), room: Box::new([0; ROOM]), arriving: None }
    }

    /// Waits until a command is complete, but not longer than `timeout_s`; returns the complete commands.
    #[pyo3(signature = (fd, timeout_s, /))]
    fn receive<'py>(&mut self, py: Python<'py>, fd: i32, timeout_s: f64) -> PyResult<Bound<'py, PyList>> {
        self.frames.check(py)?;
        if fd < 0 {
            return Err(std::io::Error::from(Errno::BADF).into()); // the descriptor that Python returns for a closed socket
        }
        let timeout = Duration::try_from_secs_f64(timeout_s).ok();
        let Some(deadline) = timeout.and_then(|timeout| Instant::now().checked_add(timeout)) else {
            return Err(PyValueError::new_err(format!("a timeout of {timeout_s} seconds")));
        };
        // SAFETY: the caller's socket is open, and stays so while its thread is in this call.
        let socket = unsafe { BorrowedFd::borrow_raw(fd) };
        let commands = PyList::empty(py);
        while commands.is_empty() {
            match py.detach(|| self.read_in_time(socket, deadline)) {
                Ok(None) => break,
                Ok(Some(0)) => return Err(PyEOFError::new_err("the peer has closed the connection")),
                Ok(Some(count)) => self.take(py, count, &commands)?,
                Err(Errno::INTR) => py.check_signals()?,
                Err(error) => return Err(std::io::Error::from(error).into()),
            }
        }
        Ok(commands)
    }
}

impl SocketReader {
    /// Receives the next bytes; returns `None` if none arrive in time.
    fn read_in_time(&mut self, socket: BorrowedFd<'_>, deadline: Instant) -> Result<Option<usize>, Errno> {
        loop {
            match self.read(socket) {
                Err(Errno::AGAIN) if wait(socket, deadline)? => {}
                Err(Errno::AGAIN) => return Ok(None),
                outcome => return outcome.map(Some),
            }
        }
    }

    /// Receives the available bytes without waiting: into the body being received, else into the room.
    fn read(&mut self, socket: BorrowedFd<'_>) -> Result<usize, Errno> {
        match &mut self.arriving {
            None => recv(socket, &mut self.room[..], RecvFlags::DONTWAIT).map(|(count, _)| count),
            Some(Arriving { body, .. }) => {
                let ((received, _), _) = recv(socket, body.rest(), RecvFlags::DONTWAIT)?;
                let count = received.len();
                // SAFETY: these bytes were received just now.
                unsafe { body.advance(count) };
                Ok(count)
            }
        }
    }

    /// Adds the received bytes to the frame or body they belong to.
    fn take(&mut self, py: Python<'_>, count: usize, commands: &Bound<'_, PyList>) -> PyResult<()> {
        match self.arriving.take() {
            Some(Arriving { head, body }) if body.is_whole() => commands.append(head.with_body(body.finish())),
            Some(unfinished) => {
                self.arriving = Some(unfinished);
                Ok(())
            }
            None => {
                self.frames.feed_slice(py, &self.room[..count], commands)?;
                self.arriving = self.frames.take_large(py)?.map(|(head, body)| Arriving { head, body });
                // Commands before an invalid frame are returned first; the next call raises the error.
                if commands.is_empty() { self.frames.check(py) } else { Ok(()) }
            }
        }
    }
}

/// Waits for bytes; returns false when the time is up.
fn wait(socket: BorrowedFd<'_>, deadline: Instant) -> Result<bool, Errno> {
    let left = deadline.saturating_duration_since(Instant::now());
    let left = Timespec::try_from(left).map_err(|_| Errno::INVAL)?;
    Ok(poll(&mut [PollFd::new(&socket, PollFlags::IN)], Some(&left))? > 0)
}

//! Message ids: the offset id assigned by the broker, and the unique id assigned by the producer.
use std::net::IpAddr;
use std::sync::atomic::{AtomicU16, Ordering};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyString;
use wire::ids::{OffsetId, UniqueId};

use crate::errors::id_error;
use crate::host::{HostArgument, host_tuple};

/// Encodes the id of the message at a broker's physical offset.
#[pyfunction]
#[pyo3(signature = (store_host, physical_offset, /))]
pub fn encode_offset_id(store_host: HostArgument, physical_offset: i64) -> String {
    OffsetId { store_host: store_host.0, physical_offset }.encode()
}

/// Returns the broker and the physical offset of an id.
#[pyfunction]
#[pyo3(signature = (text, /))]
pub fn decode_offset_id(py: Python<'_>, text: &str) -> PyResult<((String, i32), i64)> {
    let id = OffsetId::parse(text).map_err(|error| id_error(py, error))?;
    Ok((host_tuple(id.store_host), id.physical_offset))
}

/// Encodes the id that a producer gives a message.
#[pyfunction]
#[pyo3(signature = (ip, pid, class_loader_hash, month_ms, counter, /))]
pub fn encode_unique_id(ip: &str, pid: u16, class_loader_hash: i32, month_ms: i32, counter: u16) -> PyResult<String> {
    let ip: IpAddr = ip.parse().map_err(|_| PyValueError::new_err(format!("{ip:?} is not an IPv4 or IPv6 address")))?;
    Ok(UniqueId { ip, pid, class_loader_hash, month_ms, counter }.encode())
}

/// Returns the parts of a producer's id.
#[pyfunction]
#[pyo3(signature = (text, /))]
pub fn decode_unique_id(py: Python<'_>, text: &str) -> PyResult<(String, u16, i32, i32, u16)> {
    let id = UniqueId::parse(text).map_err(|error| id_error(py, error))?;
    Ok((id.ip.to_string(), id.pid, id.class_loader_hash, id.month_ms, id.counter))
}

/// Ids of one producer, one after the other: their common part is written once.
#[pyclass(frozen, module = "orbitmq._native")]
pub struct UniqueIds {
    prefix: String,
    counter: AtomicU16,
}

#[pymethods]
impl UniqueIds {
    #[new]
    #[pyo3(signature = (prefix, /))]
    fn new(prefix: String) -> UniqueIds {
        UniqueIds { prefix, counter: AtomicU16::new(0) }
    }

    /// Returns the next id; `month_ms` are the milliseconds since the month began.
    #[pyo3(signature = (month_ms, /))]
    fn next<'py>(&self, py: Python<'py>, month_ms: u32) -> Bound<'py, PyString> {
        let mut id = String::with_capacity(self.prefix.len() + 12);
        self.write_next(month_ms, &mut id);
        PyString::new(py, &id)
    }
}

impl UniqueIds {
    /// Appends the next id.
    pub fn write_next(&self, month_ms: u32, out: &mut String) {
        const HEX: &[u8; 16] = b"0123456789ABCDEF";
        let count = self.counter.fetch_add(1, Ordering::Relaxed);
        let number = (u64::from(month_ms) << 16) | u64::from(count);
        out.push_str(&self.prefix);
        out.extend((0..12).rev().map(|digit| char::from(HEX[(number >> (4 * digit)) as usize & 0xF])));
    }
}

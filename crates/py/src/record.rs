//! `Record`: a message as it was stored, a view into the bytes that contain it.
//!
//! Decoding a list creates one small object per message and copies nothing: each keeps the whole `bytes` alive and
//! slices body, topic and properties out of it on access. The numbers are read once.
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};
use wire::ids::OffsetId;
use wire::{Crc, Host};

use crate::bytes_like::BytesLike;
use crate::compression::inflated;
use crate::errors::record_error;
use crate::host::{HostArgument, host_tuple};
use crate::properties::{PropertiesArgument, decode_properties};

/// Message as it is stored in the commit log and in the body of a pull response.
#[pyclass(frozen, module = "orbitmq._native")]
pub struct Record {
    data: Py<PyBytes>,
    whole: Range<usize>,
    body: Range<usize>,
    topic: Range<usize>,
    properties: Range<usize>,
    #[pyo3(get)]
    queue_id: i32,
    #[pyo3(get)]
    flag: i32,
    #[pyo3(get)]
    queue_offset: i64,
    #[pyo3(get)]
    physical_offset: i64,
    #[pyo3(get)]
    sys_flag: i32,
    #[pyo3(get)]
    born_timestamp: i64,
    #[pyo3(get)]
    store_timestamp: i64,
    #[pyo3(get)]
    reconsume_times: i32,
    #[pyo3(get)]
    prepared_transaction_offset: i64,
    born_host: Host,
    store_host: Host,
}

impl Record {
    /// Decodes the record that begins at `at` in `data`; also returns the position of the next one.
    fn decode_at(data: &Bound<'_, PyBytes>, at: usize, crc: Crc) -> PyResult<(Record, usize)> {
        let bytes = data.as_bytes();
        let (record, total_size) =
            wire::Record::decode(&bytes[at..], crc).map_err(|error| record_error(data.py(), error, at))?;
        // Positions are kept instead of references: the object outlives this borrow of the bytes.
        let place = |part: &[u8]| {
            let start = part.as_ptr() as usize - bytes.as_ptr() as usize;
            start..start + part.len()
        };
        let view = Record {
            data: data.clone().unbind(),
            whole: at..at + total_size,
            body: place(record.body),
            topic: place(record.topic.as_bytes()),
            properties: place(record.properties.as_bytes()),
            queue_id: record.queue_id,
            flag: record.flag,
            queue_offset: record.queue_offset,
            physical_offset: record.physical_offset,
            sys_flag: record.sys_flag,
            born_timestamp: record.born_timestamp,
            store_timestamp: record.store_timestamp,
            reconsume_times: record.reconsume_times,
            prepared_transaction_offset: record.prepared_transaction_offset,
            born_host: record.born_host,
            store_host: record.store_host,
        };
        Ok((view, at + total_size))
    }

    fn bytes<'a>(&'a self, py: Python<'a>, place: &Range<usize>) -> &'a [u8] {
        &self.data.as_bytes(py)[place.clone()]
    }

    fn text<'a>(&'a self, py: Python<'a>, place: &Range<usize>) -> &'a str {
        std::str::from_utf8(self.bytes(py, place)).expect("decoding checked that it is UTF-8")
    }

    fn value<'a>(&'a self, py: Python<'a>, name: &str) -> Option<&'a str> {
        wire::properties::get(self.text(py, &self.properties), name)
    }
}

#[pymethods]
impl Record {
    #[getter]
    fn topic<'py>(&self, py: Python<'py>) -> Bound<'py, PyString> {
        PyString::new(py, self.text(py, &self.topic))
    }

    #[getter]
    fn body<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        inflated(py, self.bytes(py, &self.body), self.sys_flag)
    }

    #[getter]
    fn stored_body<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.bytes(py, &self.body))
    }

    #[getter]
    fn properties<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        decode_properties(py, self.text(py, &self.properties))
    }

    #[getter]
    fn properties_text<'py>(&self, py: Python<'py>) -> Bound<'py, PyString> {
        PyString::new(py, self.text(py, &self.properties))
    }

    /// Returns one property, without creating a dict of all of them.
    #[pyo3(signature = (name, /))]
    fn get_property<'py>(&self, py: Python<'py>, name: &str) -> Option<Bound<'py, PyString>> {
        self.value(py, name).map(|value| PyString::new(py, value))
    }

    #[getter]
    fn tags<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyString>> {
        self.get_property(py, wire::properties::TAGS)
    }

    #[getter]
    fn keys<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let keys = self.value(py, wire::properties::KEYS).unwrap_or_default();
        PyTuple::new(py, keys.split(' ').filter(|key| !key.is_empty()).collect::<Vec<_>>())
    }

    #[getter]
    fn born_host(&self) -> (String, i32) {
        host_tuple(self.born_host)
    }

    #[getter]
    fn store_host(&self) -> (String, i32) {
        host_tuple(self.store_host)
    }

    #[getter]
    fn offset_id(&self) -> String {
        OffsetId { store_host: self.store_host, physical_offset: self.physical_offset }.encode()
    }

    #[getter]
    fn encoded<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.bytes(py, &self.whole))
    }

    fn __eq__(&self, py: Python<'_>, other: &Record) -> bool {
        self.bytes(py, &self.whole) == other.bytes(py, &other.whole)
    }

    fn __hash__(&self, py: Python<'_>) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.bytes(py, &self.whole).hash(&mut hasher);
        hasher.finish()
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        format!(
            "Record(topic={:?}, queue_id={}, queue_offset={}, physical_offset={}, {} bytes of body)",
            self.text(py, &self.topic),
            self.queue_id,
            self.queue_offset,
            self.physical_offset,
            self.body.len(),
        )
    }
}

/// Decodes the records in a pull, query or view body: back to back, nothing between them.
#[pyfunction]
#[pyo3(signature = (data, /, *, check_crc = true))]
pub fn decode_records(py: Python<'_>, data: BytesLike, check_crc: bool) -> PyResult<Bound<'_, PyList>> {
    decode_list(data.0.bind(py), if check_crc { Crc::Verify } else { Crc::Trust })
}

/// Decodes the records that follow each other in `data`.
pub fn decode_list<'py>(data: &Bound<'py, PyBytes>, crc: Crc) -> PyResult<Bound<'py, PyList>> {
    let records = PyList::empty(data.py());
    let mut at = 0;
    while at < data.as_bytes().len() {
        let (record, next) = Record::decode_at(data, at, crc)?;
        records.append(record)?;
        at = next;
    }
    Ok(records)
}

/// Encodes one record.
#[pyfunction]
#[pyo3(signature = (
    topic, body, *, queue_id = 0, queue_offset = 0, physical_offset = 0, flag = 0, sys_flag = 0, born_timestamp = 0,
    born_host = None, store_timestamp = 0, store_host = None, reconsume_times = 0, prepared_transaction_offset = 0,
    properties = None,
))]
#[allow(clippy::too_many_arguments)] // the fields of the record, all but two of them with a default
pub fn encode_record<'py>(
    py: Python<'py>,
    topic: &str,
    body: BytesLike,
    queue_id: i32,
    queue_offset: i64,
    physical_offset: i64,
    flag: i32,
    sys_flag: i32,
    born_timestamp: i64,
    born_host: Option<HostArgument>,
    store_timestamp: i64,
    store_host: Option<HostArgument>,
    reconsume_times: i32,
    prepared_transaction_offset: i64,
    properties: Option<PropertiesArgument>,
) -> PyResult<Bound<'py, PyBytes>> {
    let properties = PropertiesArgument::text(properties);
    let record = wire::Record {
        queue_id,
        flag,
        queue_offset,
        physical_offset,
        sys_flag,
        born_timestamp,
        born_host: HostArgument::or_unspecified(born_host),
        store_timestamp,
        store_host: HostArgument::or_unspecified(store_host),
        reconsume_times,
        prepared_transaction_offset,
        body: body.0.as_bytes(py),
        topic,
        properties: &properties,
    };
    record.check().map_err(|error| record_error(py, error, 0))?;
    PyBytes::new_with(py, record.encoded_len(), |room| {
        record.encode_into(room);
        Ok(())
    })
}

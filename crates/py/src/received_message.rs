//! `ReceivedMessage`: a message as a consumer sees it, and the bulk reader of pull bodies.
//!
//! A pull body is read in one call: every record is checked, and records that do not match the subscription are left
//! out (brokers filter by hash codes, so another tag with the same code may be among them). The rest become small
//! objects that share the body's `bytes` and one [`Origin`]. Everything except the few numbers that every consumer
//! needs is sliced out of the bytes on access.
//!
//! Text that is not UTF-8 must not stop a queue for ever, so here, unlike in `Record`, it is shown with replacement
//! characters.
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};
use wire::ids::OffsetId;
use wire::properties::{KEYS, TAGS, UNIQ_KEY};
use wire::record::{physical_offset, store_timestamp, sys_flag};
use wire::{Crc, Host, RecordError};

use crate::bytes_like::BytesLike;
use crate::compression::inflated;
use crate::errors::record_error;
use crate::host::host_tuple;
use crate::properties::decode_properties;

const QUEUE_ID_AT: usize = 12;
const FLAG_AT: usize = 16;
const QUEUE_OFFSET_AT: usize = 20;
const BORN_TIMESTAMP_AT: usize = 40;
const BORN_HOST_AT: usize = 48;
/// Position of RECONSUMETIMES if both hosts are IPv4.
const RECONSUME_TIMES_AT: usize = 72;
const V6_EXTRA: usize = 12;
const RETRY_TOPIC: &str = "RETRY_TOPIC";
const TRANSACTION: &str = "TRAN_MSG";

/// Values common to the messages of one pull.
struct Origin {
    queue: Py<PyAny>,
    /// Subscribed topic; `None` in a retry queue, whose messages contain their original topic.
    topic: Option<Py<PyString>>,
    namespace_prefix: String,
    min_offset: i64,
    max_offset: i64,
}

/// Message as a consumer sees it.
#[pyclass(frozen, module = "orbitmq._native")]
pub struct ReceivedMessage {
    data: Py<PyBytes>,
    origin: Arc<Origin>,
    #[pyo3(get)]
    queue_offset: i64,
    #[pyo3(get)]
    reconsume_times: i32,
    start: u32,
    counts: u32,
    body: u32,
    topic: u32,
    properties: u32,
    end: u32,
}

impl ReceivedMessage {
    /// Creates the message at `start`, from a record that `wire::Record::decode` has found to be whole.
    fn of_record(data: &Bound<'_, PyBytes>, origin: &Arc<Origin>, start: usize, total_size: usize) -> ReceivedMessage {
        let record = &data.as_bytes()[start..start + total_size];
        let flags = sys_flag(record).unwrap_or_default();
        let v6_hosts = [wire::sys_flag::BORN_HOST_V6, wire::sys_flag::STORE_HOST_V6];
        let counts = RECONSUME_TIMES_AT + V6_EXTRA * v6_hosts.iter().filter(|bit| flags & **bit != 0).count();
        let body = counts + 16;
        let topic = body + i32_at(record, counts + 12) as usize + 1;
        let properties = topic + usize::from(record[topic - 1]) + 2;
        let place = |at: usize| (start + at) as u32;
        ReceivedMessage {
            data: data.clone().unbind(),
            origin: origin.clone(),
            queue_offset: i64_at(record, QUEUE_OFFSET_AT),
            reconsume_times: i32_at(record, counts),
            start: place(0),
            counts: place(counts),
            body: place(body),
            topic: place(topic),
            properties: place(properties),
            end: place(total_size),
        }
    }

    fn bytes<'a>(&'a self, py: Python<'a>, place: Range<u32>) -> &'a [u8] {
        &self.data.as_bytes(py)[place.start as usize..place.end as usize]
    }

    fn record<'a>(&'a self, py: Python<'a>) -> &'a [u8] {
        self.bytes(py, self.start..self.end)
    }

    fn body_bytes<'a>(&'a self, py: Python<'a>) -> &'a [u8] {
        self.bytes(py, self.body..self.topic - 1)
    }

    fn stored_topic_text<'a>(&'a self, py: Python<'a>) -> Cow<'a, str> {
        String::from_utf8_lossy(self.bytes(py, self.topic..self.properties - 2))
    }

    fn properties_text<'a>(&'a self, py: Python<'a>) -> Cow<'a, str> {
        String::from_utf8_lossy(self.bytes(py, self.properties..self.end))
    }

    fn sys_flags(&self, py: Python<'_>) -> i32 {
        sys_flag(self.record(py)).unwrap_or_default()
    }

    fn hosts(&self, py: Python<'_>) -> (Host, Host) {
        let (record, flags) = (self.record(py), self.sys_flags(py));
        let born = Host::decode(&record[BORN_HOST_AT..], flags & wire::sys_flag::BORN_HOST_V6 != 0);
        let (born, rest) = born.unwrap_or((Host::UNSPECIFIED, &[]));
        let stored = Host::decode(rest.get(8..).unwrap_or_default(), flags & wire::sys_flag::STORE_HOST_V6 != 0);
        (born, stored.map_or(Host::UNSPECIFIED, |(host, _)| host))
    }

    fn is_wanted(&self, py: Python<'_>, tags: &[String]) -> bool {
        let properties = self.properties_text(py);
        wire::properties::get(&properties, TAGS).is_some_and(|tag| tags.iter().any(|wanted| wanted == tag))
    }
}

#[pymethods]
impl ReceivedMessage {
    #[getter]
    fn topic<'py>(&self, py: Python<'py>) -> Bound<'py, PyString> {
        if let Some(topic) = &self.origin.topic {
            return topic.bind(py).clone();
        }
        let properties = self.properties_text(py);
        let stored = self.stored_topic_text(py);
        let topic = wire::properties::get(&properties, RETRY_TOPIC).unwrap_or(&stored);
        PyString::new(py, topic.strip_prefix(self.origin.namespace_prefix.as_str()).unwrap_or(topic))
    }

    #[getter]
    fn stored_topic<'py>(&self, py: Python<'py>) -> Bound<'py, PyString> {
        PyString::new(py, &self.stored_topic_text(py))
    }

    #[getter]
    fn queue<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        self.origin.queue.bind(py).clone()
    }

    #[getter]
    fn queue_id(&self, py: Python<'_>) -> i32 {
        i32_at(self.record(py), QUEUE_ID_AT)
    }

    #[getter]
    fn min_offset(&self) -> i64 {
        self.origin.min_offset
    }

    #[getter]
    fn max_offset(&self) -> i64 {
        self.origin.max_offset
    }

    #[getter]
    fn physical_offset(&self, py: Python<'_>) -> i64 {
        physical_offset(self.record(py)).unwrap_or_default()
    }

    #[getter]
    fn flag(&self, py: Python<'_>) -> i32 {
        i32_at(self.record(py), FLAG_AT)
    }

    #[getter]
    fn sys_flag(&self, py: Python<'_>) -> i32 {
        self.sys_flags(py)
    }

    #[getter]
    fn born_timestamp(&self, py: Python<'_>) -> i64 {
        i64_at(self.record(py), BORN_TIMESTAMP_AT)
    }

    #[getter]
    fn born_host(&self, py: Python<'_>) -> (String, i32) {
        host_tuple(self.hosts(py).0)
    }

    #[getter]
    fn store_timestamp(&self, py: Python<'_>) -> i64 {
        store_timestamp(self.record(py)).unwrap_or_default()
    }

    #[getter]
    fn store_host(&self, py: Python<'_>) -> (String, i32) {
        host_tuple(self.hosts(py).1)
    }

    #[getter]
    fn prepared_transaction_offset(&self, py: Python<'_>) -> i64 {
        i64_at(self.record(py), (self.counts - self.start) as usize + 4)
    }

    #[getter]
    fn body<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        inflated(py, self.body_bytes(py), self.sys_flags(py))
    }

    #[getter]
    fn stored_body<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.body_bytes(py))
    }

    #[getter]
    fn properties<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        decode_properties(py, &self.properties_text(py))
    }

    /// Returns one property, without creating a dict of all of them.
    #[pyo3(signature = (name, /))]
    fn get_property<'py>(&self, py: Python<'py>, name: &str) -> Option<Bound<'py, PyString>> {
        let properties = self.properties_text(py);
        wire::properties::get(&properties, name).map(|value| PyString::new(py, value))
    }

    #[getter]
    fn tags<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyString>> {
        self.get_property(py, TAGS)
    }

    #[getter]
    fn keys<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let properties = self.properties_text(py);
        let keys = wire::properties::get(&properties, KEYS).unwrap_or_default();
        PyTuple::new(py, keys.split(' ').filter(|key| !key.is_empty()).collect::<Vec<_>>())
    }

    #[getter]
    fn message_id<'py>(&self, py: Python<'py>) -> Bound<'py, PyString> {
        self.get_property(py, UNIQ_KEY).unwrap_or_else(|| PyString::new(py, &self.offset_id(py)))
    }

    #[getter]
    fn offset_id(&self, py: Python<'_>) -> String {
        OffsetId { store_host: self.hosts(py).1, physical_offset: self.physical_offset(py) }.encode()
    }

    #[getter]
    fn transaction_id<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyString>> {
        let properties = self.properties_text(py);
        let [transaction, id] = wire::properties::get_many(&properties, [TRANSACTION, UNIQ_KEY]);
        transaction.filter(|text| text.eq_ignore_ascii_case("true")).and(id).map(|id| PyString::new(py, id))
    }

    #[getter]
    fn stored_size(&self) -> u32 {
        self.end - self.start
    }

    /// Returns the same message with this number of earlier tries.
    #[pyo3(signature = (times, /))]
    fn with_reconsume_times(&self, py: Python<'_>, times: i32) -> ReceivedMessage {
        ReceivedMessage { data: self.data.clone_ref(py), origin: self.origin.clone(), reconsume_times: times, ..*self }
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!(
            "ReceivedMessage(topic={:?}, queue_id={}, queue_offset={}, message_id={:?}, {} bytes of body)",
            self.topic(py).to_str()?,
            self.queue_id(py),
            self.queue_offset,
            self.message_id(py).to_str()?,
            self.body_bytes(py).len(),
        ))
    }
}

/// Returns the messages in the body of a pull response that match a subscription.
#[pyfunction]
#[pyo3(signature = (
    data, queue, /, *, topic = None, namespace = "", tags = None, after = None, min_offset = 0, max_offset = 0,
))]
#[allow(clippy::too_many_arguments)] // two of them are always given, the others by name
pub fn decode_messages<'py>(
    py: Python<'py>,
    data: BytesLike,
    queue: Py<PyAny>,
    topic: Option<Py<PyString>>,
    namespace: &str,
    tags: Option<Vec<String>>,
    after: Option<i64>,
    min_offset: i64,
    max_offset: i64,
) -> PyResult<Bound<'py, PyList>> {
    let data = data.0.into_bound(py);
    let namespace_prefix = if namespace.is_empty() { String::new() } else { format!("{namespace}%") };
    let origin = Arc::new(Origin { queue, topic, namespace_prefix, min_offset, max_offset });
    let mut messages = Vec::new();
    let mut start = 0;
    while start < data.as_bytes().len() {
        let total_size = match wire::Record::decode(&data.as_bytes()[start..], Crc::Verify) {
            Ok((_, total_size)) | Err(RecordError::NotUtf8 { total_size, .. }) => total_size,
            Err(error) => return Err(record_error(py, error, start)),
        };
        let message = ReceivedMessage::of_record(&data, &origin, start, total_size);
        if after.is_none_or(|after| message.queue_offset > after)
            && tags.as_ref().is_none_or(|tags| message.is_wanted(py, tags))
        {
            messages.push(message);
        }
        start += total_size;
    }
    PyList::new(py, messages)
}

fn i32_at(bytes: &[u8], at: usize) -> i32 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| i32::from_be_bytes(*bytes))
}

fn i64_at(bytes: &[u8], at: usize) -> i64 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| i64::from_be_bytes(*bytes))
}

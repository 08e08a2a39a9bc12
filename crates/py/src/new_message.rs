//! `NewMessage`: a message that a broker passes to the store; the store assigns offsets and store time.
//!
//! The broker's last decisions also use this object, so its topic, its queue and its properties can still be changed.
//! The properties stay one string the whole time, as they were received and as they will be stored.
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use store::Message;
use wire::Host;
use wire::batch::{self, BatchMessage};

use crate::bytes_like::BytesLike;
use crate::errors::batch_error;
use crate::host::{HostArgument, host_tuple};
use crate::properties::{PropertiesArgument, decode_properties, not_plain};

/// Message to append.
#[pyclass(module = "orbitmq._native")]
pub struct NewMessage {
    #[pyo3(get, set)]
    pub topic: String,
    #[pyo3(get)]
    pub body: Py<PyBytes>,
    #[pyo3(get, set)]
    pub queue_id: i32,
    #[pyo3(get)]
    pub flag: i32,
    #[pyo3(get, set)]
    pub sys_flag: i32,
    #[pyo3(get)]
    pub born_timestamp: i64,
    pub born_host: Host,
    pub store_host: Host,
    #[pyo3(get)]
    pub reconsume_times: i32,
    #[pyo3(get)]
    pub prepared_transaction_offset: i64,
    #[pyo3(get, name = "properties_text")]
    pub properties: String,
}

impl NewMessage {
    /// Returns the message in the form of the store, borrowing everything.
    pub fn as_message<'a>(&'a self, py: Python<'a>) -> Message<'a> {
        Message {
            topic: &self.topic,
            queue_id: self.queue_id,
            flag: self.flag,
            sys_flag: self.sys_flag,
            born_timestamp: self.born_timestamp,
            born_host: self.born_host,
            store_host: self.store_host,
            reconsume_times: self.reconsume_times,
            prepared_transaction_offset: self.prepared_transaction_offset,
            body: self.body.as_bytes(py),
            properties: &self.properties,
        }
    }
}

#[pymethods]
impl NewMessage {
    #[new]
    #[pyo3(signature = (
        topic, body, *, queue_id = 0, flag = 0, sys_flag = 0, born_timestamp = 0, born_host = None, store_host = None,
        reconsume_times = 0, prepared_transaction_offset = 0, properties = None,
    ))]
    #[allow(clippy::too_many_arguments)] // the fields of the message, all but two of them with a default
    fn new(
        topic: String,
        body: BytesLike,
        queue_id: i32,
        flag: i32,
        sys_flag: i32,
        born_timestamp: i64,
        born_host: Option<HostArgument>,
        store_host: Option<HostArgument>,
        reconsume_times: i32,
        prepared_transaction_offset: i64,
        properties: Option<PropertiesArgument>,
    ) -> NewMessage {
        NewMessage {
            topic,
            body: body.0,
            queue_id,
            flag,
            sys_flag,
            born_timestamp,
            born_host: HostArgument::or_unspecified(born_host),
            store_host: HostArgument::or_unspecified(store_host),
            reconsume_times,
            prepared_transaction_offset,
            properties: PropertiesArgument::text(properties),
        }
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
    fn properties<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        decode_properties(py, &self.properties)
    }

    /// Splits the batch in the body into messages, each with its own properties followed by those of the batch.
    fn split(&self, py: Python<'_>) -> PyResult<Vec<NewMessage>> {
        let data = self.body.as_bytes(py);
        let mut messages = Vec::new();
        let mut rest = data;
        while !rest.is_empty() {
            let at = data.len() - rest.len();
            let (message, after) = BatchMessage::decode(rest).map_err(|error| batch_error(py, error, at))?;
            let properties = batch::stored_properties(message.properties, &self.properties)
                .map_err(|error| batch_error(py, error, at))?;
            messages.push(NewMessage {
                topic: self.topic.clone(),
                body: PyBytes::new(py, message.body).unbind(),
                flag: message.flag,
                properties: properties.into_owned(),
                ..*self
            });
            rest = after;
        }
        Ok(messages)
    }

    /// Returns the value of a property.
    #[pyo3(signature = (name, /))]
    fn get_property(&self, name: &str) -> Option<&str> {
        wire::properties::get(&self.properties, name)
    }

    /// Sets a property, or removes it if the value is `None`. Properties of more than twice the size that a record
    /// holds stay as they are; the store rejects them.
    #[pyo3(signature = (name, value, /))]
    fn set_property(&mut self, name: &str, value: Option<&str>) -> PyResult<()> {
        if !wire::properties::is_name(name) || value.is_some_and(|value| !wire::properties::is_value(value)) {
            return Err(not_plain(name, value.unwrap_or_default()));
        }
        if value.is_some() || wire::properties::get(&self.properties, name).is_some() {
            self.properties = wire::properties::edited(&self.properties, &[(name, value)]);
        }
        Ok(())
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        format!(
            "NewMessage(topic={:?}, queue_id={}, {} bytes of body)",
            self.topic,
            self.queue_id,
            self.body.as_bytes(py).len()
        )
    }
}

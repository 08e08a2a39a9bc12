//! `SendRequest`: the header of a send, read once per send.
//!
//! A send's header is the same in all its versions except for the names: `SEND_MESSAGE` uses full names, the later
//! codes use a letter for each. The rules of reading are those of `HeaderReader`; the header with letters is a strict
//! one. Texts that only some decisions need stay in the request until they are accessed, and the properties go directly
//! into the message.
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};
use wire::{properties, sys_flag};

use crate::command::Command;
use crate::errors::header_fault;
use crate::ext_fields::ExtTexts;
use crate::host::HostArgument;
use crate::new_message::NewMessage;

/// Code of the version with full names.
const SEND_MESSAGE: i32 = 10;
const RETRY_PREFIX: &str = "%RETRY%";

/// Fields, in the order in which they are read.
const NAMES: [(&str, &str); 13] = [
    ("producerGroup", "a"),
    ("topic", "b"),
    ("defaultTopic", "c"),
    ("defaultTopicQueueNums", "d"),
    ("queueId", "e"),
    ("sysFlag", "f"),
    ("bornTimestamp", "g"),
    ("flag", "h"),
    ("properties", "i"),
    ("reconsumeTimes", "j"),
    ("unitMode", "k"),
    ("maxReconsumeTimes", "l"),
    ("batch", "m"),
];
const PRODUCER_GROUP: usize = 0;
const TOPIC: usize = 1;
const DEFAULT_TOPIC: usize = 2;
const DEFAULT_TOPIC_QUEUE_NUMS: usize = 3;
const QUEUE_ID: usize = 4;
const SYS_FLAG: usize = 5;
const BORN_TIMESTAMP: usize = 6;
const FLAG: usize = 7;
const PROPERTIES: usize = 8;
const RECONSUME_TIMES: usize = 9;
const UNIT_MODE: usize = 10;
const MAX_RECONSUME_TIMES: usize = 11;
const BATCH: usize = 12;

/// Content of a producer's send request.
#[pyclass(frozen, module = "orbitmq._native")]
pub struct SendRequest {
    command: Py<Command>,
    #[pyo3(get)]
    topic: Py<PyString>,
    #[pyo3(get)]
    default_topic_queue_nums: i32,
    #[pyo3(get)]
    queue_id: i32,
    #[pyo3(get)]
    sys_flag: i32,
    born_timestamp: i64,
    flag: i32,
    #[pyo3(get)]
    reconsume_times: i32,
    #[pyo3(get)]
    unit_mode: bool,
    #[pyo3(get)]
    max_reconsume_times: Option<i32>,
    #[pyo3(get)]
    is_batch: bool,
    #[pyo3(get)]
    is_plain: bool,
    #[pyo3(get)]
    waits: bool,
}

/// Texts of a header's fields.
struct Fields<'a> {
    texts: [Option<&'a str>; NAMES.len()],
    is_short: bool,
}

impl<'a> Fields<'a> {
    fn of(texts: &'a ExtTexts, is_short: bool) -> Fields<'a> {
        let mut fields = Fields { texts: [None; NAMES.len()], is_short };
        for (name, value) in texts.iter() {
            let slot = match (is_short, name.as_bytes()) {
                (true, [letter]) => Some(usize::from(letter.wrapping_sub(b'a'))).filter(|slot| *slot < NAMES.len()),
                (true, _) => None,
                (false, _) => NAMES.iter().position(|(long, _)| *long == name),
            };
            if let Some(slot) = slot {
                fields.texts[slot] = Some(value);
            }
        }
        fields
    }

    fn text(&self, field: usize) -> &'a str {
        self.texts[field].unwrap_or_default()
    }

    fn boolean(&self, field: usize) -> bool {
        self.text(field).eq_ignore_ascii_case("true")
    }

    fn name(&self, field: usize) -> &'static str {
        if self.is_short { NAMES[field].1 } else { NAMES[field].0 }
    }

    fn required<T: std::str::FromStr>(&self, py: Python<'_>, field: usize) -> PyResult<T> {
        match self.texts[field] {
            Some(text) => text.parse().map_err(|_| self.not_a_number(py, field, text)),
            None => Err(header_fault(py, format!("field {} is missing", self.name(field)))),
        }
    }

    fn optional(&self, py: Python<'_>, field: usize) -> PyResult<Option<i32>> {
        match self.texts[field] {
            Some(text) => match text.parse() {
                Ok(number) => Ok(Some(number)),
                Err(_) if !self.is_short => Ok(None),
                Err(_) => Err(self.not_a_number(py, field, text)),
            },
            None => Ok(None),
        }
    }

    fn not_a_number(&self, py: Python<'_>, field: usize, text: &str) -> PyErr {
        header_fault(py, format!("field {} is not a number: '{text}'", self.name(field)))
    }
}

/// True if the property requests more of the broker than storing the message.
fn asks_for_more(name: &str) -> bool {
    matches!(name, "DELAY" | "TRAN_MSG") || name.starts_with("TIMER_") || name.starts_with("ORBIT_")
}

#[pymethods]
impl SendRequest {
    #[new]
    #[pyo3(signature = (command, /))]
    fn new(py: Python<'_>, command: Py<Command>) -> PyResult<SendRequest> {
        let request = command.get();
        let is_short = request.code() != SEND_MESSAGE;
        let texts = request.texts(py)?;
        let fields = Fields::of(&texts, is_short);
        let topic = fields.text(TOPIC);
        let default_topic_queue_nums = fields.optional(py, DEFAULT_TOPIC_QUEUE_NUMS)?.unwrap_or(0);
        let queue_id = fields.required(py, QUEUE_ID)?;
        let flags: i32 = fields.required(py, SYS_FLAG)?;
        let born_timestamp = fields.required(py, BORN_TIMESTAMP)?;
        let flag = fields.required(py, FLAG)?;
        let reconsume_times = fields.optional(py, RECONSUME_TIMES)?.unwrap_or(0);
        let max_reconsume_times = fields.optional(py, MAX_RECONSUME_TIMES)?;
        let is_batch = fields.boolean(BATCH);
        let mut is_plain = !is_batch && flags & sys_flag::TRANSACTION_MASK == 0 && !topic.starts_with(RETRY_PREFIX);
        let mut waits = true;
        for (name, value) in properties::iter(fields.text(PROPERTIES)) {
            if name == properties::WAIT {
                waits = value.eq_ignore_ascii_case("true");
            } else if asks_for_more(name) {
                is_plain = false;
            }
        }
        let topic = PyString::new(py, topic).unbind();
        let unit_mode = fields.boolean(UNIT_MODE);
        drop(texts);
        Ok(SendRequest {
            command,
            topic,
            default_topic_queue_nums,
            queue_id,
            sys_flag: flags,
            born_timestamp,
            flag,
            reconsume_times,
            unit_mode,
            max_reconsume_times,
            is_batch,
            is_plain,
            waits,
        })
    }

    #[getter]
    fn producer_group(&self, py: Python<'_>) -> PyResult<String> {
        self.text(py, PRODUCER_GROUP)
    }

    #[getter]
    fn default_topic(&self, py: Python<'_>) -> PyResult<String> {
        self.text(py, DEFAULT_TOPIC)
    }

    /// Creates the message for a queue, with the cluster's name among its properties. The `WAIT` property concerns only
    /// producer and broker, so a plain message is stored without it.
    #[pyo3(signature = (queue_id, sys_flag, born_host, store_host, cluster, /))]
    fn message(
        &self,
        py: Python<'_>,
        queue_id: i32,
        sys_flag: i32,
        born_host: HostArgument,
        store_host: HostArgument,
        cluster: &str,
    ) -> PyResult<NewMessage> {
        let command = self.command.get();
        let texts = command.texts(py)?;
        let given = texts.get(self.name(PROPERTIES)).unwrap_or_default();
        let wait = (properties::WAIT, None);
        let edits = [("CLUSTER", Some(cluster)), wait];
        let edits = if self.is_plain { &edits[..] } else { &edits[..1] };
        Ok(NewMessage {
            topic: self.topic.bind(py).to_str()?.to_owned(),
            body: self.body(py),
            queue_id,
            flag: self.flag,
            sys_flag,
            born_timestamp: self.born_timestamp,
            born_host: born_host.0,
            store_host: store_host.0,
            reconsume_times: self.reconsume_times,
            prepared_transaction_offset: 0,
            properties: properties::edited(given, edits),
        })
    }
}

impl SendRequest {
    fn name(&self, field: usize) -> &'static str {
        if self.command.get().code() == SEND_MESSAGE { NAMES[field].0 } else { NAMES[field].1 }
    }

    fn text(&self, py: Python<'_>, field: usize) -> PyResult<String> {
        let texts = self.command.get().texts(py)?;
        Ok(texts.get(self.name(field)).unwrap_or_default().to_owned())
    }

    fn body(&self, py: Python<'_>) -> Py<PyBytes> {
        self.command.get().body_bytes().clone_ref(py)
    }
}

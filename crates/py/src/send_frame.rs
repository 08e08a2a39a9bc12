//! Producer's side of an ordinary send: encodes its request directly from the values, and decodes the needed parts of
//! the response.
//!
//! The general way, with a dict and a `Command` for each, costs as much as the rest of the send.
use std::borrow::Cow;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use wire::frame;
use wire::header::{self, Encoding};

use crate::bytes_like::BytesLike;
use crate::command::{Command, OUR_LANGUAGE, OUR_VERSION};
use crate::errors::{frame_error, header_fault};

const SEND_MESSAGE_V2: i32 = 310;
const LONGEST_HEADER_BUT_FOR_TEXTS: usize = 256;

/// Encodes the frame of a send with a binary header.
#[pyfunction]
#[pyo3(signature = (opaque, group, topic, template_topic, queue_nums, queue_id, born_timestamp, flag, properties, unit_mode, broker_name, body, /))]
#[allow(clippy::too_many_arguments)] // the fields of the request
pub fn encode_send<'py>(
    py: Python<'py>,
    opaque: i32,
    group: &str,
    topic: &str,
    template_topic: &str,
    queue_nums: i32,
    queue_id: i32,
    born_timestamp: i64,
    flag: i32,
    properties: &str,
    unit_mode: bool,
    broker_name: &str,
    body: BytesLike,
) -> PyResult<Bound<'py, PyBytes>> {
    fn number(value: impl ToString) -> Cow<'static, str> {
        Cow::Owned(value.to_string())
    }
    let fields: [(&str, Cow<'_, str>); 13] = [
        ("a", group.into()),
        ("b", topic.into()),
        ("c", template_topic.into()),
        ("d", number(queue_nums)),
        ("e", number(queue_id)),
        ("f", "0".into()),
        ("g", number(born_timestamp)),
        ("h", number(flag)),
        ("i", properties.into()),
        ("j", "0".into()),
        ("k", if unit_mode { "true" } else { "false" }.into()),
        ("m", "false".into()),
        ("n", broker_name.into()),
    ];
    let request = header::Command {
        code: SEND_MESSAGE_V2,
        language: OUR_LANGUAGE,
        version: OUR_VERSION,
        opaque,
        flag: 0,
        remark: None,
        ext_fields: Some(fields.into_iter().map(|(name, value)| (name.into(), value)).collect()),
    };
    let body = body.0.as_bytes(py);
    let texts = group.len() + topic.len() + template_topic.len() + properties.len() + broker_name.len();
    let mut out = Vec::with_capacity(LONGEST_HEADER_BUT_FOR_TEXTS + texts + body.len());
    frame::encode(&request, Encoding::Binary, body, &mut out).map_err(|error| frame_error(py, error, None))?;
    Ok(PyBytes::new(py, &out))
}

/// Content of the response to a send: `(offset id, queue, offset in it, transaction id, region, whether traces are
/// on)`.
type SendAnswer<'a> = (&'a str, Option<i32>, i64, Option<&'a str>, Option<&'a str>, bool);

/// Decodes the response to a send.
#[pyfunction]
#[pyo3(signature = (response, /))]
pub fn decode_send_answer<'py>(py: Python<'py>, response: &Command) -> PyResult<Bound<'py, PyAny>> {
    let texts = response.texts(py)?;
    let text = |name| texts.get(name).filter(|text| !text.is_empty());
    let not_a_number = |name: &str, value: &str| header_fault(py, format!("field {name} is not a number: '{value}'"));
    let queue_id = match text("queueId") {
        Some(value) => Some(value.parse().map_err(|_| not_a_number("queueId", value))?),
        None => None,
    };
    let queue_offset = match text("queueOffset") {
        Some(value) => value.parse().map_err(|_| not_a_number("queueOffset", value))?,
        None => 0,
    };
    let answer: SendAnswer<'_> = (
        text("msgId").unwrap_or(""),
        queue_id,
        queue_offset,
        text("transactionId"),
        text("MSG_REGION"),
        text("TRACE_ON") != Some("false"),
    );
    answer.into_pyobject(py).map(Bound::into_any)
}

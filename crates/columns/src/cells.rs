//! Values of each selected column so far.
//!
//! A field per column is used instead of a list of columns: a row is then written by code without a loop, which is as
//! fast for a few columns as for all.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int32Array, Int64Array, TimestampMicrosecondArray};
use wire::ids::OffsetId;
use wire::properties::{KEYS, TAGS, UNIQ_KEY};
use wire::{Host, Record, properties};

use crate::buffers::{OptionalTexts, TextLists, TextMaps, TextRuns, Texts};
use crate::column::{Column, TIME_ZONE};

/// All columns; those that are not selected are `None`.
#[derive(Debug)]
pub(crate) struct Cells {
    topic: Option<TextRuns>,
    broker_name: Option<TextRuns>,
    queue_id: Option<Vec<i32>>,
    queue_offset: Option<Vec<i64>>,
    msg_id: Option<Texts>,
    offset_msg_id: Option<Texts>,
    tags: Option<OptionalTexts>,
    keys: Option<TextLists>,
    body: Option<Texts>,
    properties: Option<TextMaps>,
    born_timestamp: Option<Vec<i64>>,
    store_timestamp: Option<Vec<i64>>,
    born_host: Option<HostRuns>,
    flag: Option<Vec<i32>>,
    sys_flag: Option<Vec<i32>>,
    reconsume_times: Option<Vec<i32>>,
    physical_offset: Option<Vec<i64>>,
    asks_one_property: bool,
}

/// Content of a row: a record, and the values that the record does not contain.
pub(crate) struct Row<'a> {
    pub record: &'a Record<'a>,
    /// Body as its producer wrote it.
    pub body: &'a [u8],
    pub topic: &'a str,
    pub broker_name: Option<&'a str>,
}

impl Cells {
    pub(crate) fn of(columns: &[Column]) -> Cells {
        fn wished<T>(columns: &[Column], column: Column, none: impl FnOnce() -> T) -> Option<T> {
            columns.contains(&column).then(none)
        }
        Cells {
            topic: wished(columns, Column::Topic, TextRuns::new),
            broker_name: wished(columns, Column::BrokerName, TextRuns::new),
            queue_id: wished(columns, Column::QueueId, Vec::new),
            queue_offset: wished(columns, Column::QueueOffset, Vec::new),
            msg_id: wished(columns, Column::MsgId, Texts::new),
            offset_msg_id: wished(columns, Column::OffsetMsgId, Texts::new),
            tags: wished(columns, Column::Tags, OptionalTexts::new),
            keys: wished(columns, Column::Keys, TextLists::new),
            body: wished(columns, Column::Body, Texts::new),
            properties: wished(columns, Column::Properties, TextMaps::new),
            born_timestamp: wished(columns, Column::BornTimestamp, Vec::new),
            store_timestamp: wished(columns, Column::StoreTimestamp, Vec::new),
            born_host: wished(columns, Column::BornHost, HostRuns::new),
            flag: wished(columns, Column::Flag, Vec::new),
            sys_flag: wished(columns, Column::SysFlag, Vec::new),
            reconsume_times: wished(columns, Column::ReconsumeTimes, Vec::new),
            physical_offset: wished(columns, Column::PhysicalOffset, Vec::new),
            asks_one_property: columns.iter().any(|column| column.is_one_property()),
        }
    }

    /// True if the body column is selected.
    pub(crate) fn asks_body(&self) -> bool {
        self.body.is_some()
    }

    /// Adds a row; returns the number of its bytes that vary from row to row.
    #[inline]
    pub(crate) fn push(&mut self, row: &Row<'_>) -> usize {
        let record = row.record;
        let mut bytes = 0;
        // Properties are walked once, for their own column and for the columns made of one of them.
        let mut noted = Noted::default();
        if let Some(values) = &mut self.properties {
            values.push(record.properties, |name, value| noted.note(name, value));
            bytes += record.properties.len();
        } else if self.asks_one_property {
            properties::iter(record.properties).for_each(|(name, value)| noted.note(name, value));
        }
        if let Some(values) = &mut self.topic {
            values.push(Some(row.topic));
        }
        if let Some(values) = &mut self.broker_name {
            values.push(row.broker_name);
        }
        put(&mut self.queue_id, record.queue_id);
        put(&mut self.queue_offset, record.queue_offset);
        if let Some(values) = &mut self.msg_id {
            match noted.unique {
                Some(unique) => {
                    values.push(unique.as_bytes());
                    bytes += unique.len();
                }
                None => push_offset_id(values, record),
            }
        }
        if let Some(values) = &mut self.offset_msg_id {
            push_offset_id(values, record);
        }
        if let Some(values) = &mut self.tags {
            values.push(noted.tags);
            bytes += noted.tags.map_or(0, str::len);
        }
        if let Some(values) = &mut self.keys {
            let keys = noted.keys.unwrap_or_default();
            values.push(keys.split(' ').filter(|key| !key.is_empty()));
            bytes += keys.len();
        }
        if let Some(values) = &mut self.body {
            values.push(row.body);
            bytes += row.body.len();
        }
        put(&mut self.born_timestamp, micros(record.born_timestamp));
        put(&mut self.store_timestamp, micros(record.store_timestamp));
        if let Some(values) = &mut self.born_host {
            values.push(&record.born_host);
        }
        put(&mut self.flag, record.flag);
        put(&mut self.sys_flag, record.sys_flag);
        put(&mut self.reconsume_times, record.reconsume_times);
        put(&mut self.physical_offset, record.physical_offset);
        bytes
    }

    /// Returns a selected column and starts it again empty.
    pub(crate) fn finish(&mut self, column: Column) -> ArrayRef {
        let array = match column {
            Column::Topic => self.topic.as_mut().map(TextRuns::finish),
            Column::BrokerName => self.broker_name.as_mut().map(TextRuns::finish),
            Column::QueueId => self.queue_id.as_mut().map(ints),
            Column::QueueOffset => self.queue_offset.as_mut().map(longs),
            Column::MsgId => self.msg_id.as_mut().map(texts),
            Column::OffsetMsgId => self.offset_msg_id.as_mut().map(texts),
            Column::Tags => self.tags.as_mut().map(OptionalTexts::finish),
            Column::Keys => self.keys.as_mut().map(TextLists::finish),
            Column::Body => self.body.as_mut().map(Texts::finish_binary),
            Column::Properties => self.properties.as_mut().map(TextMaps::finish),
            Column::BornTimestamp => self.born_timestamp.as_mut().map(times),
            Column::StoreTimestamp => self.store_timestamp.as_mut().map(times),
            Column::BornHost => self.born_host.as_mut().map(|hosts| hosts.texts.finish()),
            Column::Flag => self.flag.as_mut().map(ints),
            Column::SysFlag => self.sys_flag.as_mut().map(ints),
            Column::ReconsumeTimes => self.reconsume_times.as_mut().map(ints),
            Column::PhysicalOffset => self.physical_offset.as_mut().map(longs),
        };
        array.unwrap_or_else(|| unreachable!("{column:?} was not wished for"))
    }
}

/// Hosts as texts. Messages of one sender usually follow each other.
#[derive(Debug)]
struct HostRuns {
    last: Option<Host>,
    texts: TextRuns,
}

impl HostRuns {
    fn new() -> HostRuns {
        HostRuns { last: None, texts: TextRuns::new() }
    }

    #[inline]
    fn push(&mut self, host: &Host) {
        if self.last.as_ref() == Some(host) {
            self.texts.push_again();
        } else {
            self.last = Some(*host);
            self.texts.push(Some(&host.to_string()));
        }
    }
}

/// Properties that have a column of their own.
#[derive(Default)]
struct Noted<'a> {
    unique: Option<&'a str>,
    tags: Option<&'a str>,
    keys: Option<&'a str>,
}

impl<'a> Noted<'a> {
    #[inline]
    fn note(&mut self, name: &str, value: &'a str) {
        match name {
            UNIQ_KEY => self.unique = Some(value),
            TAGS => self.tags = Some(value),
            KEYS => self.keys = Some(value),
            _ => {}
        }
    }
}

/// Adds a number to its column, if that is selected.
#[inline]
fn put<T>(values: &mut Option<Vec<T>>, value: T) {
    if let Some(values) = values {
        values.push(value);
    }
}

#[inline]
fn push_offset_id(values: &mut Texts, record: &Record<'_>) {
    let id = OffsetId { store_host: record.store_host, physical_offset: record.physical_offset };
    id.encode_to(&mut values.bytes);
    values.end();
}

/// Converts to microseconds; a time outside their range (of a broken clock) becomes the nearest one in range.
#[inline]
fn micros(millis: i64) -> i64 {
    millis.saturating_mul(1000)
}

fn texts(values: &mut Texts) -> ArrayRef {
    Arc::new(values.finish_text(None))
}

fn ints(values: &mut Vec<i32>) -> ArrayRef {
    Arc::new(Int32Array::from(take(values)))
}

fn longs(values: &mut Vec<i64>) -> ArrayRef {
    Arc::new(Int64Array::from(take(values)))
}

fn times(values: &mut Vec<i64>) -> ArrayRef {
    Arc::new(TimestampMicrosecondArray::from(take(values)).with_timezone(TIME_ZONE))
}

/// Returns the values and reserves the same capacity for the next batch.
fn take<T>(values: &mut Vec<T>) -> Vec<T> {
    let room = Vec::with_capacity(values.len());
    std::mem::replace(values, room)
}

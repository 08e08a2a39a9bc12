//! The builder: a record in, one value to the end of each wished column.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int32Array, Int64Array, RecordBatch, RecordBatchOptions, TimestampMicrosecondArray};
use arrow_schema::SchemaRef;
use wire::compression::{Codec, DEFAULT_LIMIT};
use wire::ids::OffsetId;
use wire::properties::{KEYS, TAGS, UNIQ_KEY};
use wire::{Host, Record, properties};

use crate::buffers::{OptionalTexts, TextLists, TextMaps, Texts};
use crate::column::{Column, TIME_ZONE, schema};
use crate::damages::Damages;
use crate::error::ColumnsError;

/// How large a batch may become. A single record is taken whatever its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Rows at most.
    pub max_rows: usize,
    /// Bytes of its columns at most, about.
    pub max_bytes: usize,
}

impl Bounds {
    /// Offsets into a column have 31 bits; with a record more than this they still have room.
    pub const MOST_BYTES: usize = 1 << 30;
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds { max_rows: 16_384, max_bytes: 32 << 20 }
    }
}

/// The values of one column so far.
#[derive(Debug)]
enum Values {
    Texts(Texts),
    OptionalTexts(OptionalTexts),
    Bytes(Texts),
    Lists(TextLists),
    Maps(TextMaps),
    Ints(Vec<i32>),
    Longs(Vec<i64>),
    Times(Vec<i64>),
}

/// Builds record batches, one after the other.
#[derive(Debug)]
pub struct RecordColumns {
    schema: SchemaRef,
    columns: Vec<(Column, Values)>,
    broker_name: Option<String>,
    topic: Option<String>,
    /// What stands in for bodies that cannot be read, when they may.
    damages: Option<Damages>,
    records: u64,
    /// The last sender and its text: messages of one sender follow each other.
    born_host: (Host, String),
    properties_at: Option<usize>,
    asks_properties: bool,
    asks_body: bool,
    bounds: Bounds,
    rows: usize,
    bytes: usize,
}

impl RecordColumns {
    /// A builder of these columns, in their order. `broker_name` is what no record says; without it that column is null.
    pub fn new(columns: &[Column], broker_name: Option<&str>, bounds: Bounds) -> RecordColumns {
        let values = |column: &Column| match column {
            Column::Topic | Column::MsgId | Column::OffsetMsgId | Column::BornHost => Values::Texts(Texts::new()),
            Column::Tags | Column::BrokerName => Values::OptionalTexts(OptionalTexts::new()),
            Column::Body => Values::Bytes(Texts::new()),
            Column::Keys => Values::Lists(TextLists::new()),
            Column::Properties => Values::Maps(TextMaps::new()),
            Column::QueueId | Column::Flag | Column::SysFlag | Column::ReconsumeTimes => Values::Ints(Vec::new()),
            Column::QueueOffset | Column::PhysicalOffset => Values::Longs(Vec::new()),
            Column::BornTimestamp | Column::StoreTimestamp => Values::Times(Vec::new()),
        };
        RecordColumns {
            schema: schema(columns),
            columns: columns.iter().map(|column| (*column, values(column))).collect(),
            broker_name: broker_name.map(str::to_owned),
            topic: None,
            damages: None,
            records: 0,
            born_host: (Host::UNSPECIFIED, Host::UNSPECIFIED.to_string()),
            properties_at: columns.iter().position(|column| *column == Column::Properties),
            asks_properties: columns.iter().any(|column| column.is_one_property()),
            asks_body: columns.contains(&Column::Body),
            bounds: Bounds { max_bytes: bounds.max_bytes.min(Bounds::MOST_BYTES), ..bounds },
            rows: 0,
            bytes: 0,
        }
    }

    /// The schema of its batches.
    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// Whose broker the records to come are from.
    pub fn set_broker_name(&mut self, broker_name: Option<&str>) {
        if self.broker_name.as_deref() != broker_name {
            self.broker_name = broker_name.map(str::to_owned);
        }
    }

    /// What the topic of the records to come is called where they are read; without it, as it is stored.
    pub fn set_topic(&mut self, topic: Option<&str>) {
        if self.topic.as_deref() != topic {
            self.topic = topic.map(str::to_owned);
        }
    }

    /// From here on a body that does not decompress, or whose checksum is wrong, stays as it is stored, and is noted.
    pub fn keep_damaged(&mut self) {
        self.damages.get_or_insert_default();
    }

    /// What was noted since the last call.
    pub fn take_damages(&mut self) -> Damages {
        self.damages.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Notes what is wrong with a record, if that is no reason to stop.
    pub(crate) fn forgive(&mut self, error: ColumnsError) -> Result<(), ColumnsError> {
        self.damages.as_mut().map(|damages| damages.note(&error)).ok_or(error)
    }

    /// Records looked at since the beginning, wanted or not.
    pub fn records(&self) -> u64 {
        self.records
    }

    pub(crate) fn count_record(&mut self) {
        self.records += 1;
    }

    /// Rows since the last batch.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes they take, about.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether the batch has reached one of its bounds.
    pub fn is_full(&self) -> bool {
        self.rows >= self.bounds.max_rows || self.bytes >= self.bounds.max_bytes
    }

    /// Adds a record. One whose body does not decompress is an error and adds nothing, unless it may stay as it is.
    pub fn push(&mut self, record: &Record<'_>) -> Result<(), ColumnsError> {
        // The one part that can fail comes first, so that columns stay equally long.
        let outcome = if self.asks_body { inflate(record) } else { Ok(None) };
        let inflated = match outcome {
            Ok(inflated) => inflated,
            Err(error) => {
                self.forgive(error)?;
                None
            }
        };
        let body = inflated.as_deref().unwrap_or(record.body);
        // Properties are walked once, for their own column and for those made of one of them.
        let mut noted = Noted::default();
        match self.properties_at.map(|at| &mut self.columns[at].1) {
            Some(Values::Maps(values)) => values.push(record.properties, |name, value| noted.note(name, value)),
            _ if self.asks_properties => {
                properties::iter(record.properties).for_each(|(name, value)| noted.note(name, value));
            }
            _ => {}
        }
        let mut bytes = 0;
        for (column, values) in &mut self.columns {
            match (&column, values) {
                (Column::Body, Values::Bytes(values)) => {
                    values.push(body);
                    bytes += body.len();
                }
                (Column::Topic, Values::Texts(values)) => {
                    values.push(self.topic.as_deref().unwrap_or(record.topic).as_bytes());
                }
                (Column::BrokerName, Values::OptionalTexts(values)) => values.push(self.broker_name.as_deref()),
                (Column::MsgId, Values::Texts(values)) => match noted.unique {
                    Some(unique) => values.push(unique.as_bytes()),
                    None => push_offset_id(values, record),
                },
                (Column::OffsetMsgId, Values::Texts(values)) => push_offset_id(values, record),
                (Column::BornHost, Values::Texts(values)) => {
                    if self.born_host.0 != record.born_host {
                        self.born_host = (record.born_host, record.born_host.to_string());
                    }
                    values.push(self.born_host.1.as_bytes());
                }
                (Column::Tags, Values::OptionalTexts(values)) => values.push(noted.tags),
                (Column::Keys, Values::Lists(values)) => {
                    let keys = noted.keys.unwrap_or_default();
                    values.push(keys.split(' ').filter(|key| !key.is_empty()));
                    bytes += keys.len();
                }
                (Column::Properties, Values::Maps(_)) => bytes += record.properties.len(),
                (Column::QueueId, Values::Ints(values)) => values.push(record.queue_id),
                (Column::Flag, Values::Ints(values)) => values.push(record.flag),
                (Column::SysFlag, Values::Ints(values)) => values.push(record.sys_flag),
                (Column::ReconsumeTimes, Values::Ints(values)) => values.push(record.reconsume_times),
                (Column::QueueOffset, Values::Longs(values)) => values.push(record.queue_offset),
                (Column::PhysicalOffset, Values::Longs(values)) => values.push(record.physical_offset),
                (Column::BornTimestamp, Values::Times(values)) => values.push(micros(record.born_timestamp)),
                (Column::StoreTimestamp, Values::Times(values)) => values.push(micros(record.store_timestamp)),
                (column, values) => unreachable!("{column:?} does not hold {values:?}"),
            }
        }
        self.rows += 1;
        self.bytes += bytes + ROW_BYTES;
        Ok(())
    }

    /// The batch of the rows so far; the next one begins empty.
    pub fn finish(&mut self) -> RecordBatch {
        let arrays: Vec<ArrayRef> = self.columns.iter_mut().map(|(_, values)| values.finish()).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        (self.rows, self.bytes) = (0, 0);
        RecordBatch::try_new_with_options(self.schema.clone(), arrays, &options)
            .expect("each column has its type and a value per row")
    }
}

/// The properties that have a column of their own.
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

impl Values {
    fn finish(&mut self) -> ArrayRef {
        match self {
            Values::Texts(values) => Arc::new(values.finish_text(None)),
            Values::OptionalTexts(values) => values.finish(),
            Values::Bytes(values) => values.finish_binary(),
            Values::Lists(values) => values.finish(),
            Values::Maps(values) => values.finish(),
            Values::Ints(values) => Arc::new(Int32Array::from(take(values))),
            Values::Longs(values) => Arc::new(Int64Array::from(take(values))),
            Values::Times(values) => Arc::new(TimestampMicrosecondArray::from(take(values)).with_timezone(TIME_ZONE)),
        }
    }
}

/// What a row takes beside its body, keys and properties, about: numbers, ids, names.
const ROW_BYTES: usize = 192;

fn take<T>(values: &mut Vec<T>) -> Vec<T> {
    let room = Vec::with_capacity(values.len());
    std::mem::replace(values, room)
}

#[inline]
fn push_offset_id(values: &mut Texts, record: &Record<'_>) {
    let id = OffsetId { store_host: record.store_host, physical_offset: record.physical_offset };
    id.encode_to(&mut values.bytes);
    values.end();
}

/// A time that microseconds cannot hold (a broken clock's) becomes the nearest they can.
#[inline]
fn micros(millis: i64) -> i64 {
    millis.saturating_mul(1000)
}

/// The body as its producer wrote it, when it was compressed.
fn inflate(record: &Record<'_>) -> Result<Option<Vec<u8>>, ColumnsError> {
    let outcome = match Codec::of(record.sys_flag) {
        Ok(None) => return Ok(None),
        Ok(Some(codec)) => codec.decompress(record.body, DEFAULT_LIMIT),
        Err(cause) => Err(cause),
    };
    outcome.map(Some).map_err(|cause| ColumnsError::Body {
        topic: record.topic.to_owned(),
        queue_id: record.queue_id,
        queue_offset: record.queue_offset,
        physical_offset: record.physical_offset,
        cause,
    })
}

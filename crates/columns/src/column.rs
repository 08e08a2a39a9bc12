//! The available columns, and their Arrow types.
//!
//! Every field is nullable, as in a schema that a Spark user writes down. So that schema can select columns without
//! being rejected for its nullability. Times are microseconds, UTC; text and bytes have 32-bit offsets.

use std::str::FromStr;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};

/// Column of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names are those of the record's parts
pub enum Column {
    Topic,
    BrokerName,
    QueueId,
    QueueOffset,
    /// The producer's id, or the broker's if the message has none.
    MsgId,
    OffsetMsgId,
    Tags,
    Keys,
    Body,
    Properties,
    BornTimestamp,
    StoreTimestamp,
    BornHost,
    Flag,
    SysFlag,
    ReconsumeTimes,
    PhysicalOffset,
}

impl Column {
    /// All columns, in their order.
    pub const ALL: [Column; 17] = [
        Column::Topic,
        Column::BrokerName,
        Column::QueueId,
        Column::QueueOffset,
        Column::MsgId,
        Column::OffsetMsgId,
        Column::Tags,
        Column::Keys,
        Column::Body,
        Column::Properties,
        Column::BornTimestamp,
        Column::StoreTimestamp,
        Column::BornHost,
        Column::Flag,
        Column::SysFlag,
        Column::ReconsumeTimes,
        Column::PhysicalOffset,
    ];

    /// Returns the name of the column.
    pub const fn name(self) -> &'static str {
        match self {
            Column::Topic => "topic",
            Column::BrokerName => "brokerName",
            Column::QueueId => "queueId",
            Column::QueueOffset => "queueOffset",
            Column::MsgId => "msgId",
            Column::OffsetMsgId => "offsetMsgId",
            Column::Tags => "tags",
            Column::Keys => "keys",
            Column::Body => "body",
            Column::Properties => "properties",
            Column::BornTimestamp => "bornTimestamp",
            Column::StoreTimestamp => "storeTimestamp",
            Column::BornHost => "bornHost",
            Column::Flag => "flag",
            Column::SysFlag => "sysFlag",
            Column::ReconsumeTimes => "reconsumeTimes",
            Column::PhysicalOffset => "physicalOffset",
        }
    }

    /// Returns the Arrow type of the column.
    pub fn data_type(self) -> DataType {
        match self {
            Column::Topic
            | Column::BrokerName
            | Column::MsgId
            | Column::OffsetMsgId
            | Column::Tags
            | Column::BornHost => DataType::Utf8,
            Column::Body => DataType::Binary,
            Column::Keys => DataType::List(key_field()),
            Column::Properties => DataType::Map(entries_field(), false),
            Column::BornTimestamp | Column::StoreTimestamp => {
                DataType::Timestamp(TimeUnit::Microsecond, Some(TIME_ZONE.into()))
            }
            Column::QueueOffset | Column::PhysicalOffset => DataType::Int64,
            Column::QueueId | Column::Flag | Column::SysFlag | Column::ReconsumeTimes => DataType::Int32,
        }
    }

    /// True if the column is made of one of the properties.
    pub(crate) const fn is_one_property(self) -> bool {
        matches!(self, Column::MsgId | Column::Tags | Column::Keys)
    }
}

impl FromStr for Column {
    type Err = String;

    fn from_str(name: &str) -> Result<Column, String> {
        Column::ALL.into_iter().find(|column| column.name() == name).ok_or_else(|| {
            let all: Vec<_> = Column::ALL.iter().map(|column| column.name()).collect();
            format!("there is no column {name:?}; there are {}", all.join(", "))
        })
    }
}

pub(crate) const TIME_ZONE: &str = "UTC";

/// Returns the field of an element of `keys`.
pub(crate) fn key_field() -> Arc<Field> {
    Arc::new(Field::new("element", DataType::Utf8, true))
}

/// Returns the fields of a name and its value in `properties`.
pub(crate) fn property_fields() -> Fields {
    Fields::from(vec![Field::new("key", DataType::Utf8, false), Field::new("value", DataType::Utf8, true)])
}

pub(crate) fn entries_field() -> Arc<Field> {
    Arc::new(Field::new("entries", DataType::Struct(property_fields()), false))
}

/// Returns the Arrow schema of the columns.
pub fn schema(columns: &[Column]) -> SchemaRef {
    let fields: Vec<_> = columns.iter().map(|column| Field::new(column.name(), column.data_type(), true)).collect();
    Arc::new(Schema::new(fields))
}

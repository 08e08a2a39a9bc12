//! Columns of rows to send, each of the one type that packing supports.
//!
//! ```text
//! body binary    topic, tags, shardingKey, brokerName string    keys list<string>    properties map<string, string>
//! queueId, delayLevel int32    deliverAt int64 (epoch milliseconds)
//! ```
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{Array, BinaryArray, Int32Array, Int64Array, ListArray, MapArray, RecordBatch, StringArray};

use super::send::PackError;

/// Views of a batch's columns; columns missing in the batch are `None`.
#[allow(missing_docs)] // named like the columns
pub struct Rows<'a> {
    pub len: usize,
    pub body: &'a BinaryArray,
    pub topic: Option<&'a StringArray>,
    pub tags: Option<&'a StringArray>,
    pub keys: Option<&'a ListArray>,
    pub properties: Option<&'a MapArray>,
    pub delay_level: Option<&'a Int32Array>,
    pub deliver_at_ms: Option<&'a Int64Array>,
    pub sharding_key: Option<&'a StringArray>,
    pub queue_id: Option<&'a Int32Array>,
    pub broker_name: Option<&'a StringArray>,
}

impl<'a> Rows<'a> {
    /// Finds the columns of a batch; other columns are ignored.
    pub fn of(batch: &'a RecordBatch) -> Result<Rows<'a>, PackError> {
        let keys = column(batch, "keys", "list<string>", |array| {
            array.as_list_opt::<i32>().filter(|list| list.values().as_string_opt::<i32>().is_some())
        })?;
        let properties = column(batch, "properties", "map<string, string>", |array| {
            array.as_map_opt().filter(|map| {
                map.keys().as_string_opt::<i32>().is_some() && map.values().as_string_opt::<i32>().is_some()
            })
        })?;
        Ok(Rows {
            len: batch.num_rows(),
            body: column(batch, "body", "binary", |array| array.as_binary_opt())?.ok_or(PackError::NoBodyColumn)?,
            topic: text(batch, "topic")?,
            tags: text(batch, "tags")?,
            keys,
            properties,
            delay_level: column(batch, "delayLevel", "int32", |array| array.as_primitive_opt::<Int32Type>())?,
            deliver_at_ms: column(batch, "deliverAt", "int64", |array| array.as_primitive_opt::<Int64Type>())?,
            sharding_key: text(batch, "shardingKey")?,
            queue_id: column(batch, "queueId", "int32", |array| array.as_primitive_opt::<Int32Type>())?,
            broker_name: text(batch, "brokerName")?,
        })
    }
}

fn text<'a>(batch: &'a RecordBatch, name: &'static str) -> Result<Option<&'a StringArray>, PackError> {
    column(batch, name, "string", |array| array.as_string_opt())
}

fn column<'a, T>(
    batch: &'a RecordBatch,
    name: &'static str,
    wanted: &'static str,
    view: impl FnOnce(&'a dyn Array) -> Option<T>,
) -> Result<Option<T>, PackError> {
    let Some(array) = batch.column_by_name(name) else { return Ok(None) };
    match view(array.as_ref()) {
        Some(view) => Ok(Some(view)),
        None => Err(PackError::WrongType { name, found: array.data_type().to_string(), wanted }),
    }
}

/// Returns the text of a row, or `None` if the column is missing, or the text is null or empty.
pub(super) fn text_at(column: Option<&StringArray>, row: usize) -> Option<&str> {
    column.filter(|column| column.is_valid(row)).map(|column| column.value(row)).filter(|text| !text.is_empty())
}

/// Returns the number of a row, or `None` if the column is missing or the number is null.
pub(super) fn int_at(column: Option<&Int32Array>, row: usize) -> Option<i32> {
    column.filter(|column| column.is_valid(row)).map(|column| column.value(row))
}

/// Like [`int_at`], for times.
pub(super) fn long_at(column: Option<&Int64Array>, row: usize) -> Option<i64> {
    column.filter(|column| column.is_valid(row)).map(|column| column.value(row))
}

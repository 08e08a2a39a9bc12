//! Builder of columns: for each record one value is added to the end of each selected column.

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::SchemaRef;
use wire::Record;
use wire::compression::{Codec, DEFAULT_LIMIT};

use crate::cells::{Cells, Row};
use crate::column::{Column, schema};
use crate::damages::Damages;
use crate::error::ColumnsError;

/// Maximum size of a batch. A single record is accepted whatever its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Maximum number of rows.
    pub max_rows: usize,
    /// Approximate maximum of the bytes of its columns.
    pub max_bytes: usize,
}

impl Bounds {
    /// Largest useful `max_bytes`: offsets into a column have 31 bits, and with one record beyond this bound they are
    /// still large enough.
    pub const MOST_BYTES: usize = 1 << 30;
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds { max_rows: 16_384, max_bytes: 32 << 20 }
    }
}

/// Builds record batches, one after the other.
#[derive(Debug)]
pub struct RecordColumns {
    schema: SchemaRef,
    columns: Vec<Column>,
    cells: Cells,
    broker_name: Option<String>,
    topic: Option<String>,
    /// Report about unreadable bodies, if they may be kept.
    damages: Option<Damages>,
    records: u64,
    bounds: Bounds,
    rows: usize,
    bytes: usize,
}

impl RecordColumns {
    /// Creates a builder of these columns, in their order. Records do not contain `broker_name`; without it that column
    /// is null.
    pub fn new(columns: &[Column], broker_name: Option<&str>, bounds: Bounds) -> RecordColumns {
        RecordColumns {
            schema: schema(columns),
            columns: columns.to_vec(),
            cells: Cells::of(columns),
            broker_name: broker_name.map(str::to_owned),
            topic: None,
            damages: None,
            records: 0,
            bounds: Bounds { max_bytes: bounds.max_bytes.min(Bounds::MOST_BYTES), ..bounds },
            rows: 0,
            bytes: 0,
        }
    }

    /// Returns the schema of its batches.
    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// Sets the broker name of later records.
    pub fn set_broker_name(&mut self, broker_name: Option<&str>) {
        if self.broker_name.as_deref() != broker_name {
            self.broker_name = broker_name.map(str::to_owned);
        }
    }

    /// Sets the topic shown for later records; without it their stored topic is shown.
    pub fn set_topic(&mut self, topic: Option<&str>) {
        if self.topic.as_deref() != topic {
            self.topic = topic.map(str::to_owned);
        }
    }

    /// From now on, a body that does not decompress, or whose checksum is wrong, stays as it is stored, and is
    /// reported.
    pub fn keep_damaged(&mut self) {
        self.damages.get_or_insert_default();
    }

    /// Returns the damages since the last call.
    pub fn take_damages(&mut self) -> Damages {
        self.damages.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Records the error of a record if damaged bodies are kept; otherwise returns it.
    pub(crate) fn forgive(&mut self, error: ColumnsError) -> Result<(), ColumnsError> {
        self.damages.as_mut().map(|damages| damages.note(&error)).ok_or(error)
    }

    /// Returns the number of records read since the beginning, selected or not.
    pub fn records(&self) -> u64 {
        self.records
    }

    pub(crate) fn count_record(&mut self) {
        self.records += 1;
    }

    /// Returns the number of rows since the last batch.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the approximate number of bytes of these rows.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// True if the batch has reached one of its bounds.
    pub fn is_full(&self) -> bool {
        self.rows >= self.bounds.max_rows || self.bytes >= self.bounds.max_bytes
    }

    /// Adds a record. A body that does not decompress is an error, and nothing is added, unless damaged bodies are
    /// kept.
    pub fn push(&mut self, record: &Record<'_>) -> Result<(), ColumnsError> {
        // The only step that can fail comes first, so that columns stay equally long.
        let outcome = if self.cells.asks_body() { inflate(record) } else { Ok(None) };
        let inflated = match outcome {
            Ok(inflated) => inflated,
            Err(error) => {
                self.forgive(error)?;
                None
            }
        };
        let body = inflated.as_deref().unwrap_or(record.body);
        let row = Row {
            record,
            body,
            topic: self.topic.as_deref().unwrap_or(record.topic),
            broker_name: self.broker_name.as_deref(),
        };
        let bytes = self.cells.push(&row);
        self.rows += 1;
        self.bytes += bytes + ROW_BYTES;
        Ok(())
    }

    /// Returns the batch of the rows so far; the next one begins empty.
    pub fn finish(&mut self) -> RecordBatch {
        let arrays: Vec<ArrayRef> = self.columns.iter().map(|&column| self.cells.finish(column)).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        (self.rows, self.bytes) = (0, 0);
        RecordBatch::try_new_with_options(self.schema.clone(), arrays, &options)
            .expect("each column has its type and a value per row")
    }
}

/// Approximate size of a row without the parts that its producer chose: numbers, the offset id, names.
const ROW_BYTES: usize = 160;

/// Returns the body as its producer wrote it, if it was compressed.
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

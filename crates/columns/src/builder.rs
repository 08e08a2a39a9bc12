//! The builder: a record in, one value to the end of each wished column.

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::SchemaRef;
use wire::Record;
use wire::compression::{Codec, DEFAULT_LIMIT};

use crate::cells::{Cells, Row};
use crate::column::{Column, schema};
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

/// Builds record batches, one after the other.
#[derive(Debug)]
pub struct RecordColumns {
    schema: SchemaRef,
    columns: Vec<Column>,
    cells: Cells,
    broker_name: Option<String>,
    topic: Option<String>,
    /// What stands in for bodies that cannot be read, when they may.
    damages: Option<Damages>,
    records: u64,
    bounds: Bounds,
    rows: usize,
    bytes: usize,
}

impl RecordColumns {
    /// A builder of these columns, in their order. `broker_name` is what no record says; without it that column is null.
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

    /// The batch of the rows so far; the next one begins empty.
    pub fn finish(&mut self) -> RecordBatch {
        let arrays: Vec<ArrayRef> = self.columns.iter().map(|&column| self.cells.finish(column)).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        (self.rows, self.bytes) = (0, 0);
        RecordBatch::try_new_with_options(self.schema.clone(), arrays, &options)
            .expect("each column has its type and a value per row")
    }
}

/// What a row takes beside what its producer chose, about: numbers, the id of its place, names.
const ROW_BYTES: usize = 160;

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

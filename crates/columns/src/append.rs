//! Records back to back: the body of a pull or a bulk read.

use std::borrow::Cow;
use std::ops::Range;

use wire::properties::TAGS;
use wire::record::Texts;
use wire::{Crc, Record, RecordError, properties};

use crate::builder::RecordColumns;
use crate::error::ColumnsError;

/// Selection of records.
#[derive(Clone, Debug)]
pub struct Selection<'a> {
    /// Only messages with these queue offsets. A response may reach past the requested range.
    pub queue_offsets: Range<i64>,
    /// If given, only messages with one of these tags. Brokers compare hash codes, so another tag with the same code
    /// may be in the response.
    pub tags: Option<&'a [String]>,
}

impl Selection<'_> {
    /// Selects all records.
    pub const ALL: Selection<'static> = Selection { queue_offsets: i64::MIN..i64::MAX, tags: None };

    fn wants(&self, record: &Record<'_>) -> bool {
        self.queue_offsets.contains(&record.queue_offset)
            && self.tags.is_none_or(|tags| {
                properties::get(record.properties, TAGS).is_some_and(|tag| tags.iter().any(|wanted| wanted == tag))
            })
    }
}

impl RecordColumns {
    /// Adds the selected records of `bytes` from `at` on. Returns the position where it stopped: the end, or, once the
    /// batch is full, the record to continue with after [`RecordColumns::finish`].
    ///
    /// Text that is not UTF-8 must not stop a queue for ever, so it is shown with replacement characters.
    pub fn append(
        &mut self,
        bytes: &[u8],
        mut at: usize,
        crc: Crc,
        selection: &Selection<'_>,
    ) -> Result<usize, ColumnsError> {
        while at < bytes.len() && !self.is_full() {
            let (record, texts, total_size) = self.decode(&bytes[at..], at, crc)?;
            self.count_record();
            let (topic, properties) = (lossy(texts.topic), lossy(texts.properties));
            let record = Record { topic: &topic, properties: &properties, ..record };
            if selection.wants(&record) {
                self.push(&record)?;
            }
            at += total_size;
        }
        Ok(at)
    }

    fn decode<'a>(
        &mut self,
        bytes: &'a [u8],
        at: usize,
        crc: Crc,
    ) -> Result<(Record<'a>, Texts<'a>, usize), ColumnsError> {
        match Record::decode_but_texts(bytes, crc) {
            Err(cause @ RecordError::WrongCrc { .. }) => {
                // Everything but the body is valid, so the error can name the message of the body.
                let decoded = Record::decode_but_texts(bytes, Crc::Trust);
                let decoded = decoded.map_err(|cause| ColumnsError::Record { at, cause })?;
                let (Record { queue_id, queue_offset, physical_offset, .. }, texts, _) = decoded;
                let topic = lossy(texts.topic).into_owned();
                self.forgive(ColumnsError::Damaged { topic, queue_id, queue_offset, physical_offset, cause })?;
                Ok(decoded)
            }
            decoded => decoded.map_err(|cause| ColumnsError::Record { at, cause }),
        }
    }
}

/// Returns the text, with replacement characters if necessary. Valid text is checked first: Rust searches for bytes to
/// replace one by one, but checks the validity of a text in large steps.
#[inline]
fn lossy(bytes: &[u8]) -> Cow<'_, str> {
    std::str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed)
}

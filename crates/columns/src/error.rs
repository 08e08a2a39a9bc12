//! Errors of the conversion of records into columns.

use thiserror::Error;
use wire::RecordError;
use wire::compression::CompressionError;

/// Reason why records cannot become columns.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ColumnsError {
    /// The bytes are not records.
    #[error("record at byte {at}: {cause}")]
    Record {
        /// Position of the record in the given bytes.
        at: usize,
        /// Reason.
        cause: RecordError,
    },
    /// A body differs from the one that was stored.
    #[error("message {queue_offset} of queue {queue_id} of topic {topic} (at {physical_offset} in the log): {cause}")]
    Damaged {
        /// Topic of the message.
        topic: String,
        /// Queue of the message.
        queue_id: i32,
        /// Queue offset of the message.
        queue_offset: i64,
        /// Physical offset of the message.
        physical_offset: i64,
        /// Reason.
        cause: RecordError,
    },
    /// A body does not decompress.
    #[error("message {queue_offset} of queue {queue_id} of topic {topic} (at {physical_offset} in the log): {cause}")]
    Body {
        /// Topic of the message.
        topic: String,
        /// Queue of the message.
        queue_id: i32,
        /// Queue offset of the message.
        queue_offset: i64,
        /// Physical offset of the message.
        physical_offset: i64,
        /// Reason.
        cause: CompressionError,
    },
}

//! Why records cannot become columns.

use thiserror::Error;
use wire::RecordError;
use wire::compression::CompressionError;

/// Why records cannot become columns.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ColumnsError {
    /// The bytes are not records.
    #[error("record at byte {at}: {cause}")]
    Record {
        /// Where it begins in the bytes given.
        at: usize,
        /// What is wrong with it.
        cause: RecordError,
    },
    /// A body is not the one that was stored.
    #[error("message {queue_offset} of queue {queue_id} of topic {topic} (at {physical_offset} in the log): {cause}")]
    Damaged {
        /// Whose body it is.
        topic: String,
        /// Its queue.
        queue_id: i32,
        /// Its place in the queue.
        queue_offset: i64,
        /// Its place in the log.
        physical_offset: i64,
        /// What is wrong with it.
        cause: RecordError,
    },
    /// A body does not decompress.
    #[error("message {queue_offset} of queue {queue_id} of topic {topic} (at {physical_offset} in the log): {cause}")]
    Body {
        /// Whose body it is.
        topic: String,
        /// Its queue.
        queue_id: i32,
        /// Its place in the queue.
        queue_offset: i64,
        /// Its place in the log.
        physical_offset: i64,
        /// What is wrong with it.
        cause: CompressionError,
    },
}

//! RocketMQ's store files: commit log, consume queues, index, checkpoint; written, read, recovered and cleaned.
//!
//! ```text
//! store                       the facade: one directory, one lock
//! ├ append ─ preallocate      gives offsets, writes log, queue and index in one go
//! ├ read, lookup              by queue offset; by time, key, physical offset
//! │ └ extension               units of a Java broker without tags codes
//! ├ flush ─ watermark         the two threads that bring pages to disk
//! ├ recovery ─ log_peek       after a clean exit and after a crash
//! │ └ rebuild                 queues and index from the messages in the log
//! ├ clean                     expiry
//! ├ scan                      the same files read without owning them
//! └ commit_log, queue_table ─ consume_queue, index ─ index_file, checkpoint, presence
//!   └ file_sequence ─ mapped_file ─ new_file, page_guard, locks
//! ```
//! Every file is byte for byte as Apache RocketMQ 4.9 writes it, so either broker can open the other's directory. A
//! store dropped without `close` is left as after a crash: nothing is lost, the next opening recovers it.

mod append;
mod checkpoint;
mod clean;
mod commit_log;
mod consume_queue;
mod error;
mod extension;
mod file_sequence;
mod flush;
mod index;
mod index_file;
mod local_time;
mod locks;
mod log_peek;
mod log_walk;
mod lookup;
mod mapped_file;
mod message;
mod new_file;
mod options;
mod page_guard;
mod preallocate;
mod presence;
mod queue_table;
mod read;
mod rebuild;
mod recovery;
pub mod scan;
mod store;
pub mod stored_ids;
mod watermark;

pub use clean::{CleanRules, Cleaned, disk_used_ratio};
pub use consume_queue::Unit;
pub use error::{Result, StoreError};
pub use index::MAX_QUERY_RESULTS;
pub use locks::panic_text;
pub use message::{Appended, Message, SCHEDULE_TOPIC};
pub use options::{Flush, Options};
pub use read::{Limits, ReadRequest, ReadResult, ReadStatus};
pub use recovery::Recovery;
pub use store::Store;
pub use wire::Host;

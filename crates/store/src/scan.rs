//! Reads of a store directory without owning it: no lock is taken, no byte is written, no file is mapped.
//!
//! The directory may be OrbitMQ's or a Java broker's, at rest, in use by a running broker, or a copy that was made
//! while one ran.
//!
//! ```text
//! snapshot ─ queue_files      content of the directory: log files, queues, end of the log at this moment
//! selection ┬ time_lookup     byte ranges of the log that can hold the wanted messages
//!           ├ queue_lookup
//!           ├ key_lookup
//!           └ log_ranges
//! range_scan ┬ window         records of these ranges
//!            └ damage         unreadable parts, counted and named
//! audit ┬ audit_queue         comparison of queues and index with the log
//!       └ audit_index
//! └ log_files                 files of a directory by the offset in their names
//! ```
//! Files are read, not mapped: a mapped file that is cut short ends the process that reads it. Besides, bytes that a
//! broker writes at the same time do not meet the guarantees of a Rust slice.

mod audit;
mod audit_index;
mod audit_queue;
mod damage;
mod index_view;
mod key_lookup;
pub(crate) mod log_files;
mod log_ranges;
mod queue_files;
mod queue_lookup;
mod range_scan;
mod selection;
mod snapshot;
mod time_lookup;
pub(crate) mod window;

pub use audit::{Audit, Finding, Findings, Kind, LogAudit, TopicSize};
pub use damage::{Damage, DamageKind, ScanReport};
pub use log_files::LogFile;
pub use log_ranges::{Gap, LogRange};
pub use queue_files::QueueFiles;
pub use range_scan::{RangeScan, Seen, Visit};
pub use selection::{OTHER_QUEUES, QueueWish, Selection};
pub use snapshot::{Snapshot, Tail};

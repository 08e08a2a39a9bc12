//! Our bytes against Java's.
//!
//! `compat/golden/bytes` holds what the classes of Apache RocketMQ 4.9.7 made of fixed values, and what they read back from it.
//! Here every entry is read by us and must give the same values, and the values are written by us and must give the same bytes.
//! The exception is compressed bytes: two compressors need not agree on those, only on what they inflate to.

#[path = "golden/batches.rs"]
mod batches;
#[path = "golden/bodies.rs"]
mod bodies;
#[path = "golden/commands.rs"]
mod commands;
#[path = "golden/files.rs"]
mod files;
#[path = "golden/names.rs"]
mod names;
#[path = "golden/records.rs"]
mod records;

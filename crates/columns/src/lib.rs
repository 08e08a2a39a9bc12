//! Message records as Arrow columns.
//!
//! ```text
//! bytes of records ──► wire::Record ──► RecordColumns::push ──► buffers per column ──► finish ──► RecordBatch
//! ```
//!
//! Readers that take messages by the million (Spark, Polars, DuckDB) need columns, not objects. A record is decoded in
//! place and each selected part is copied once, to the end of its column; a column that is not selected costs nothing.
//! The types are exactly those that Spark compares with its own schema: see [`schema`].
//!
//! No batch is too large for its reader: [`RecordColumns::append`] stops behind the record that reaches a bound, and
//! returns that position, however small the compressed bodies of a hostile peer are.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod append;
mod buffers;
mod builder;
mod cells;
mod column;
mod damages;
mod error;
pub mod packing;
mod recycling;
#[cfg(test)]
mod tests;

pub use append::Selection;
pub use arrow_array::RecordBatch;
pub use builder::{Bounds, RecordColumns};
pub use column::{Column, schema};
pub use damages::Damages;
pub use error::ColumnsError;

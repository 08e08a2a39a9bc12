//! Message records as Arrow columns.
//!
//! ```text
//! bytes of records ──► wire::Record ──► RecordColumns::push ──► buffers per column ──► finish ──► RecordBatch
//! ```
//!
//! Readers that take messages by the million (Spark, Polars, DuckDB) want columns, not objects. A record is decoded where it lies and
//! each wished part is copied once, to the end of its column; a column nobody wished for costs nothing. The types are those Spark
//! compares with its own schema, exactly: see [`schema`].
//!
//! No batch outgrows its reader: [`RecordColumns::append`] stops behind the record that reaches a bound, and says where, however small
//! the compressed bodies of a hostile peer are.
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

//! RocketMQ's bytes as values.
//!
//! This crate contains the byte formats of Apache RocketMQ 4.9 and nothing else: no sockets, no files, no clock, no
//! Python. Each module converts one kind of bytes into values and back, and its header draws the layout.
//!
//! ```text
//! frame ── header ┬ header::json ── json     a command on a connection
//!                 └ header::binary
//! record ─┬ host                             a message, stored and pulled
//! batch ──┼ properties                       several messages in one send
//! ids     ├ crc · hash · sys_flag
//!         ├ compression                      codecs of compressed bodies
//!         └ filter                           SQL92 selectors over properties
//! ```
//!
//! Three rules hold everywhere:
//!
//! * "Not complete yet" is a value ([`frame::Cut::NeedMore`]); invalid bytes are an error value; nothing panics on
//!   input.
//! * A length in the bytes is compared with the number of bytes received before memory is reserved for it.
//! * All integers are big-endian; text is UTF-8; text that is not UTF-8 is an error, not a question mark.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod batch;
pub mod compression;
pub mod crc;
pub mod filter;
pub mod frame;
pub mod hash;
pub mod header;
pub mod host;
pub mod ids;
pub mod json;
pub mod limits;
pub mod properties;
pub mod record;
pub mod sys_flag;

pub use header::{Command, Encoding, Language};
pub use host::Host;
pub use record::{Crc, Record, RecordError};

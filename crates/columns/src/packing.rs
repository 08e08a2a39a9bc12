//! Rows as sends: the conversion from Arrow columns to RocketMQ's bytes.
//!
//! ```text
//! columns of rows ──► Rows ──► Packer::push ──┬─► group (topic, place): a batch body that grows ──► full ──► Send
//!                                             └─► a row that has to go alone: delayed, larger than a batch, or a retry ──► Send
//! ```
//!
//! A *batch* is one request whose messages go to one queue (see [`wire::batch`]), so rows are grouped by topic and
//! place. A place is as exact as the row: any queue, any queue of a broker, one queue, or the slot of its sharding key
//! among the topic's queues. Groups are kept between calls, so that small Arrow batches still make large sends; when
//! all groups together hold too many bytes they are all sent, which bounds the memory however many topics and queues
//! there are. A group of one row is sent as a plain message. Every broker accepts that up to its limit for bodies,
//! while a batch's limit includes its frame.
//!
//! Every message gets an id ([`ids`]) as its `UNIQ_KEY`: a new one, or with a *scope* one that is the same whenever the
//! same row is packed again.
mod ids;
mod packer;
mod rows;
mod send;

pub use ids::{Ids, NewIds, ScopedIds};
pub use packer::{Limits, Packer};
pub use rows::Rows;
pub use send::{PackError, Place, Send};

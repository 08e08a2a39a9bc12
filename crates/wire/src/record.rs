//! Message record, as in the commit log and in the body of a pull response.
//!
//! ```text
//! at   field                         at (both hosts IPv4; +12 after each IPv6 host)
//!  0   i32 TOTALSIZE                 56  i64 STORETIMESTAMP
//!  4   i32 MAGICCODE                 64  STOREHOST (8 | 20)
//!  8   i32 BODYCRC                   72  i32 RECONSUMETIMES
//! 12   i32 QUEUEID                   76  i64 PREPAREDTRANSACTIONOFFSET
//! 16   i32 FLAG                      84  i32 BODYLENGTH, BODY
//! 20   i64 QUEUEOFFSET               88+ i8  TOPICLENGTH, TOPIC
//! 28   i64 PHYSICALOFFSET             …  i16 PROPERTIESLENGTH, PROPERTIES
//! 36   i32 SYSFLAG
//! 40   i64 BORNTIMESTAMP
//! 48   BORNHOST (8 | 20)
//! ```
//!
//! TOTALSIZE counts itself and must equal the sum of the parts; a record with another sum is corrupt. A commit-log file
//! without room for the next record ends with a BLANK: `i32 bytes left, i32 BLANK_MAGIC`, the rest is arbitrary. Two
//! checks are stricter than Java's. A negative BODYLENGTH or PROPERTIESLENGTH is an error (Java counts it as 0). A
//! topic or properties string that is not UTF-8 is an error, too ([`RecordError::NotUtf8`], which has the length of the
//! otherwise whole record).
//!
//! Encoding writes directly into the caller's memory (a mapped file), front to back, without allocating.

mod list;
mod peek;
#[cfg(test)]
mod tests;

use thiserror::Error;

pub use list::{decode_list, decode_list_with};
pub use peek::{
    HEAD_LEN, Lead, check_size, lead, physical_offset, queue_offset, store_timestamp, sys_flag, total_size,
};

use crate::crc::body_crc;
use crate::host::{Host, V4_LEN, V6_LEN};
use crate::{properties, sys_flag as flags};

/// Second word of a message record.
pub const MESSAGE_MAGIC: u32 = 0xDAA3_20A7;
/// Second word of the record that ends a commit-log file.
pub const BLANK_MAGIC: u32 = 0xCBD4_3194;
/// Length of a record with two IPv4 hosts and empty body, topic and properties.
pub const FIXED_LEN: usize = 91;
/// Minimum length of a record.
pub const MIN_LEN: usize = FIXED_LEN;
/// Maximum length of a topic in a record, in bytes.
pub const MAX_TOPIC_LEN: usize = i8::MAX as usize;

const BORN_HOST_AT: usize = 48;
const SYS_FLAG_AT: usize = 36;
/// Number of bytes by which an IPv6 host is longer than an IPv4 one.
const V6_EXTRA: usize = V6_LEN - V4_LEN;

/// Message that borrows its variable parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the layout above describes the fields
pub struct Record<'a> {
    pub queue_id: i32,
    pub flag: i32,
    pub queue_offset: i64,
    pub physical_offset: i64,
    /// The two host bits are ignored when encoding: the hosts themselves decide.
    pub sys_flag: i32,
    pub born_timestamp: i64,
    pub born_host: Host,
    pub store_timestamp: i64,
    pub store_host: Host,
    pub reconsume_times: i32,
    pub prepared_transaction_offset: i64,
    pub body: &'a [u8],
    pub topic: &'a str,
    pub properties: &'a str,
}

/// Texts of a record as they were stored, which need not be UTF-8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the layout above describes the fields
pub struct Texts<'a> {
    pub topic: &'a [u8],
    pub properties: &'a [u8],
}

/// Choice of whether decoding compares the body with its checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crc {
    /// Compute and compare. As in Java, the checksum of an empty body is ignored.
    Verify,
    /// The bytes are known to be good.
    Trust,
}

/// Reason why bytes are not a record, or values cannot become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[allow(missing_docs)] // the error texts describe the fields
pub enum RecordError {
    #[error("record cut short: {needed} bytes needed, {have} there")]
    Short { needed: usize, have: usize },
    #[error("not a message: magic {magic:#010x}")]
    NotAMessage { magic: u32 },
    #[error("record says it has {total_size} bytes, its parts have {computed}")]
    SizeMismatch { total_size: i64, computed: usize },
    #[error("negative {field} length {length}")]
    NegativeLength { field: &'static str, length: i32 },
    #[error("body checksum {stored:#010x} stored, {computed:#010x} computed")]
    WrongCrc { stored: u32, computed: u32 },
    #[error("{field} of a record of {total_size} bytes is not UTF-8")]
    NotUtf8 { field: &'static str, total_size: usize },
    #[error("topic of {len} bytes, at most 127 fit")]
    TopicTooLong { len: usize },
    #[error("properties of {len} bytes, at most 32767 fit")]
    PropertiesTooLong { len: usize },
    #[error("record of {len} bytes, at most 2147483647 fit")]
    RecordTooLong { len: usize },
}

impl<'a> Record<'a> {
    /// Returns the length of the record's encoding.
    #[inline]
    pub fn encoded_len(&self) -> usize {
        let hosts = self.born_host.encoded_len() + self.store_host.encoded_len() - 2 * V4_LEN;
        FIXED_LEN + hosts + self.body.len() + self.topic.len() + self.properties.len()
    }

    /// Checks that every part fits its length field. Call it before [`Record::encode_into`].
    #[inline]
    pub fn check(&self) -> Result<(), RecordError> {
        if self.topic.len() > MAX_TOPIC_LEN {
            return Err(RecordError::TopicTooLong { len: self.topic.len() });
        }
        if self.properties.len() > properties::MAX_LEN {
            return Err(RecordError::PropertiesTooLong { len: self.properties.len() });
        }
        match i32::try_from(self.encoded_len()) {
            Ok(_) => Ok(()),
            Err(_) => Err(RecordError::RecordTooLong { len: self.encoded_len() }),
        }
    }

    /// Writes the record, checksum included, into `out`, which is exactly [`Record::encoded_len`] long.
    ///
    /// # Panics
    /// If `out` has another length or [`Record::check`] would fail: a record with a wrong length must never reach the
    /// log.
    #[inline]
    pub fn encode_into(&self, out: &mut [u8]) {
        assert_eq!(out.len(), self.encoded_len(), "room for exactly one record");
        assert!(self.check().is_ok(), "parts fit their length fields");
        let total_size = out.len() as i32;

        let (head, rest) = out.split_first_chunk_mut::<BORN_HOST_AT>().expect("encoded_len covers the head");
        head[0..4].copy_from_slice(&total_size.to_be_bytes());
        head[4..8].copy_from_slice(&MESSAGE_MAGIC.to_be_bytes());
        head[8..12].copy_from_slice(&body_crc(self.body).to_be_bytes());
        head[12..16].copy_from_slice(&self.queue_id.to_be_bytes());
        head[16..20].copy_from_slice(&self.flag.to_be_bytes());
        head[20..28].copy_from_slice(&self.queue_offset.to_be_bytes());
        head[28..36].copy_from_slice(&self.physical_offset.to_be_bytes());
        head[36..40].copy_from_slice(&self.stored_sys_flag().to_be_bytes());
        head[40..48].copy_from_slice(&self.born_timestamp.to_be_bytes());

        let rest = self.born_host.encode_into(rest);
        let (bytes, rest) = rest.split_first_chunk_mut::<8>().expect("encoded_len covers the timestamp");
        *bytes = self.store_timestamp.to_be_bytes();
        let rest = self.store_host.encode_into(rest);

        let (counts, rest) = rest.split_first_chunk_mut::<16>().expect("encoded_len covers the counts");
        counts[0..4].copy_from_slice(&self.reconsume_times.to_be_bytes());
        counts[4..12].copy_from_slice(&self.prepared_transaction_offset.to_be_bytes());
        counts[12..16].copy_from_slice(&(self.body.len() as i32).to_be_bytes());
        let (body, rest) = rest.split_at_mut(self.body.len());
        body.copy_from_slice(self.body);

        let (length, rest) = rest.split_first_chunk_mut::<1>().expect("encoded_len covers the topic length");
        *length = [self.topic.len() as u8];
        let (topic, rest) = rest.split_at_mut(self.topic.len());
        topic.copy_from_slice(self.topic.as_bytes());

        let (length, rest) = rest.split_first_chunk_mut::<2>().expect("encoded_len covers the properties length");
        *length = (self.properties.len() as i16).to_be_bytes();
        rest.copy_from_slice(self.properties.as_bytes());
    }

    /// Returns `sys_flag` with the host bits set according to the hosts.
    #[inline]
    fn stored_sys_flag(&self) -> i32 {
        let mut flag = self.sys_flag & !(flags::BORN_HOST_V6 | flags::STORE_HOST_V6);
        if self.born_host.is_v6() {
            flag |= flags::BORN_HOST_V6;
        }
        if self.store_host.is_v6() {
            flag |= flags::STORE_HOST_V6;
        }
        flag
    }

    /// Reads the record at the front of `bytes`; also returns its TOTALSIZE, after which the next one begins.
    #[inline]
    pub fn decode(bytes: &'a [u8], crc: Crc) -> Result<(Record<'a>, usize), RecordError> {
        let (record, texts, total_size) = Record::decode_but_texts(bytes, crc)?;
        let utf8 = |field, bytes| std::str::from_utf8(bytes).map_err(|_| RecordError::NotUtf8 { field, total_size });
        let (topic, properties) = (utf8("topic", texts.topic)?, utf8("properties", texts.properties)?);
        Ok((Record { topic, properties, ..record }, total_size))
    }

    /// Like [`Record::decode`], but topic and properties are left empty and returned as bytes, for readers that prefer
    /// wrong text to none.
    #[inline]
    pub fn decode_but_texts(bytes: &'a [u8], crc: Crc) -> Result<(Record<'a>, Texts<'a>, usize), RecordError> {
        let short = |needed: usize| RecordError::Short { needed, have: bytes.len() };
        let Some((head, _)) = bytes.split_first_chunk::<BORN_HOST_AT>() else {
            return Err(short(MIN_LEN));
        };
        let magic = i32_at(head, 4) as u32;
        if magic != MESSAGE_MAGIC {
            return Err(RecordError::NotAMessage { magic });
        }
        let total_size = match usize::try_from(i32_at(head, 0)) {
            Ok(size) if size >= MIN_LEN => size,
            _ => {
                return Err(RecordError::SizeMismatch { total_size: i32_at(head, 0).into(), computed: MIN_LEN });
            }
        };
        // From here on no part may reach past the record's own end.
        let record = bytes.get(..total_size).ok_or_else(|| short(total_size))?;
        let mismatch = |computed: usize| RecordError::SizeMismatch { total_size: total_size as i64, computed };

        let sys_flag = i32_at(head, SYS_FLAG_AT);
        let (born_v6, store_v6) = (sys_flag & flags::BORN_HOST_V6 != 0, sys_flag & flags::STORE_HOST_V6 != 0);
        let mut computed = FIXED_LEN + V6_EXTRA * (usize::from(born_v6) + usize::from(store_v6));
        if total_size < computed {
            return Err(mismatch(computed));
        }
        let too_small = || mismatch(computed);
        let (born_host, rest) = Host::decode(&record[BORN_HOST_AT..], born_v6).ok_or_else(too_small)?;
        let (store_timestamp, rest) = rest.split_first_chunk::<8>().ok_or_else(too_small)?;
        let (store_host, rest) = Host::decode(rest, store_v6).ok_or_else(too_small)?;
        let (counts, rest) = rest.split_first_chunk::<16>().ok_or_else(too_small)?;

        let body_len = length("body", i32_at(counts, 12))?;
        computed += body_len;
        let (body, rest) = rest.split_at_checked(body_len).ok_or_else(|| mismatch(computed))?;
        let (&[topic_len], rest) = rest.split_first_chunk::<1>().ok_or_else(|| mismatch(computed))?;
        let topic_len = length("topic", i32::from(topic_len as i8))?;
        computed += topic_len;
        let (topic, rest) = rest.split_at_checked(topic_len).ok_or_else(|| mismatch(computed))?;
        let (&properties_len, rest) = rest.split_first_chunk::<2>().ok_or_else(|| mismatch(computed))?;
        let properties_len = length("properties", i32::from(i16::from_be_bytes(properties_len)))?;
        computed += properties_len;
        if rest.len() != properties_len {
            return Err(mismatch(computed));
        }

        if crc == Crc::Verify && !body.is_empty() {
            let (stored, computed) = (i32_at(head, 8) as u32, body_crc(body));
            if stored != computed {
                return Err(RecordError::WrongCrc { stored, computed });
            }
        }
        let record = Record {
            queue_id: i32_at(head, 12),
            flag: i32_at(head, 16),
            queue_offset: i64_at(head, 20),
            physical_offset: i64_at(head, 28),
            sys_flag,
            born_timestamp: i64_at(head, 40),
            born_host,
            store_timestamp: i64::from_be_bytes(*store_timestamp),
            store_host,
            reconsume_times: i32_at(counts, 0),
            prepared_transaction_offset: i64_at(counts, 4),
            body,
            topic: "",
            properties: "",
        };
        Ok((record, Texts { topic, properties: rest }, total_size))
    }
}

#[inline]
fn length(field: &'static str, length: i32) -> Result<usize, RecordError> {
    usize::try_from(length).map_err(|_| RecordError::NegativeLength { field, length })
}

// With a constant position in a fixed array these compile to one load.
#[inline(always)]
fn i32_at<const N: usize>(bytes: &[u8; N], at: usize) -> i32 {
    i32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[inline(always)]
fn i64_at<const N: usize>(bytes: &[u8; N], at: usize) -> i64 {
    (i64::from(i32_at(bytes, at)) << 32) | i64::from(i32_at(bytes, at + 4) as u32)
}

//! Single fields of a record, read at their positions without decoding the rest.
//!
//! For code that reads one number of every message: dispatch, time lookup, cleaning. The caller knows that a whole
//! record starts here; a slice too short for the field gives `None`.

use super::{
    BLANK_MAGIC, BORN_HOST_AT, FIXED_LEN, MAX_TOPIC_LEN, MESSAGE_MAGIC, RecordError, SYS_FLAG_AT, V6_EXTRA, flags,
    length,
};
use crate::host::{V4_LEN, V6_LEN};
use crate::properties;

const BODY_LENGTH_AT: usize = 84;
/// Number of bytes that contain every field up to and including BODYLENGTH.
pub const HEAD_LEN: usize = BODY_LENGTH_AT + 4 + 2 * V6_EXTRA;

/// Kind of data at a position of the commit log, judged by its first 8 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lead {
    /// A message with this length field. [`super::Record::decode`] checks whether the record is whole.
    Message {
        /// TOTALSIZE, positive.
        total_size: usize,
    },
    /// End of this file.
    Blank {
        /// Number of bytes left in the file, these included.
        total_size: usize,
    },
    /// Nothing valid: fewer than 8 bytes, another magic, or a size that is not positive.
    Nothing,
}

/// Determines the kind of data at the front of `bytes`.
#[inline]
pub fn lead(bytes: &[u8]) -> Lead {
    let (Some(size), Some(magic)) = (i32_at(bytes, 0), i32_at(bytes, 4)) else {
        return Lead::Nothing;
    };
    if size <= 0 {
        return Lead::Nothing;
    }
    let total_size = size as usize;
    match magic as u32 {
        MESSAGE_MAGIC => Lead::Message { total_size },
        BLANK_MAGIC => Lead::Blank { total_size },
        _ => Lead::Nothing,
    }
}

/// Returns TOTALSIZE of the record at the front of `bytes`.
#[inline]
pub fn total_size(bytes: &[u8]) -> Option<u32> {
    i32_at(bytes, 0).map(|size| size as u32)
}

/// Returns QUEUEOFFSET of the record at the front of `bytes`.
#[inline]
pub fn queue_offset(bytes: &[u8]) -> Option<i64> {
    i64_at(bytes, 20)
}

/// Returns PHYSICALOFFSET of the record at the front of `bytes`.
#[inline]
pub fn physical_offset(bytes: &[u8]) -> Option<i64> {
    i64_at(bytes, 28)
}

/// Returns SYSFLAG of the record at the front of `bytes`.
#[inline]
pub fn sys_flag(bytes: &[u8]) -> Option<i32> {
    i32_at(bytes, SYS_FLAG_AT)
}

/// Returns STORETIMESTAMP of the record at the front of `bytes`, for either family of its born host.
#[inline]
pub fn store_timestamp(bytes: &[u8]) -> Option<i64> {
    let host_len = if sys_flag(bytes)? & flags::BORN_HOST_V6 == 0 { V4_LEN } else { V6_LEN };
    i64_at(bytes, BORN_HOST_AT + host_len)
}

/// Checks that TOTALSIZE is possible for a record with this BODYLENGTH, for readers that would otherwise fetch as many
/// bytes as a damaged TOTALSIZE says. `bytes` has [`HEAD_LEN`] bytes, or all of the record.
#[inline]
pub fn check_size(bytes: &[u8]) -> Result<(), RecordError> {
    let short = RecordError::Short { needed: HEAD_LEN, have: bytes.len() };
    let (Some(total_size), Some(flag)) = (i32_at(bytes, 0), sys_flag(bytes)) else { return Err(short) };
    let is_v6 = |bit| usize::from(flag & bit != 0);
    let more = V6_EXTRA * (is_v6(flags::BORN_HOST_V6) + is_v6(flags::STORE_HOST_V6));
    let Some(body_len) = i32_at(bytes, BODY_LENGTH_AT + more) else { return Err(short) };
    let least = FIXED_LEN + more + length("body", body_len)?;
    match usize::try_from(total_size) {
        Ok(size) if (least..=least + MAX_TOPIC_LEN + properties::MAX_LEN).contains(&size) => Ok(()),
        _ => Err(RecordError::SizeMismatch { total_size: total_size.into(), computed: least }),
    }
}

#[inline(always)]
fn i32_at(bytes: &[u8], at: usize) -> Option<i32> {
    bytes.get(at..)?.first_chunk::<4>().map(|bytes| i32::from_be_bytes(*bytes))
}

#[inline(always)]
fn i64_at(bytes: &[u8], at: usize) -> Option<i64> {
    bytes.get(at..)?.first_chunk::<8>().map(|bytes| i64::from_be_bytes(*bytes))
}

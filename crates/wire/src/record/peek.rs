//! Single fields of a record, read at their places without decoding the rest.
//!
//! For paths that touch every message but need one number of it: dispatch, time lookup, cleaning. The caller knows that a
//! whole record starts here; a slice too short to hold the field gives `None`.

use super::{BLANK_MAGIC, BORN_HOST_AT, MESSAGE_MAGIC, SYS_FLAG_AT, flags};
use crate::host::{V4_LEN, V6_LEN};

/// What stands at a position of the commit log, judged by its first 8 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lead {
    /// A message that claims this many bytes. Whether it keeps that promise is for [`super::Record::decode`] to say.
    Message {
        /// TOTALSIZE, positive.
        total_size: usize,
    },
    /// The end of this file.
    Blank {
        /// Bytes left in the file, these included.
        total_size: usize,
    },
    /// Nothing valid: fewer than 8 bytes, another magic, or a size that is not positive.
    Nothing,
}

/// Decides what stands at the front of `bytes`.
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

/// TOTALSIZE of the record at the front of `bytes`.
#[inline]
pub fn total_size(bytes: &[u8]) -> Option<u32> {
    i32_at(bytes, 0).map(|size| size as u32)
}

/// QUEUEOFFSET of the record at the front of `bytes`.
#[inline]
pub fn queue_offset(bytes: &[u8]) -> Option<i64> {
    i64_at(bytes, 20)
}

/// PHYSICALOFFSET of the record at the front of `bytes`.
#[inline]
pub fn physical_offset(bytes: &[u8]) -> Option<i64> {
    i64_at(bytes, 28)
}

/// SYSFLAG of the record at the front of `bytes`.
#[inline]
pub fn sys_flag(bytes: &[u8]) -> Option<i32> {
    i32_at(bytes, SYS_FLAG_AT)
}

/// STORETIMESTAMP of the record at the front of `bytes`, whichever family its born host is of.
#[inline]
pub fn store_timestamp(bytes: &[u8]) -> Option<i64> {
    let host_len = if sys_flag(bytes)? & flags::BORN_HOST_V6 == 0 { V4_LEN } else { V6_LEN };
    i64_at(bytes, BORN_HOST_AT + host_len)
}

#[inline(always)]
fn i32_at(bytes: &[u8], at: usize) -> Option<i32> {
    bytes.get(at..)?.first_chunk::<4>().map(|bytes| i32::from_be_bytes(*bytes))
}

#[inline(always)]
fn i64_at(bytes: &[u8], at: usize) -> Option<i64> {
    bytes.get(at..)?.first_chunk::<8>().map(|bytes| i64::from_be_bytes(*bytes))
}

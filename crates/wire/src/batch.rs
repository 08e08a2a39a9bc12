//! Several messages in one send: the body of a request with `batch=true`.
//!
//! ```text
//! repeated:  i32 TOTALSIZE (with itself)   i32 MAGIC 0   i32 BODYCRC 0   i32 FLAG
//!            i32 BODYLENGTH, BODY          i16 PROPERTIESLENGTH, PROPERTIES
//! ```
//!
//! Topic, queue, timestamps and sysFlag are in the request's header and apply to all messages; magic and checksum are
//! ignored. The header also contains properties of the whole batch: the broker stores each message with its own
//! properties followed by those ([`stored_properties`]). If the two together are too long for their length field,
//! Java's broker writes an unreadable record; here this is an error.

use std::borrow::Cow;

use thiserror::Error;

use crate::properties::{self, ENTRY_SEPARATOR};

/// Length of a message with empty body and properties.
pub const FIXED_LEN: usize = 22;

/// Message of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct BatchMessage<'a> {
    pub flag: i32,
    pub body: &'a [u8],
    pub properties: &'a str,
}

/// Reason why bytes are not a batch, or messages cannot become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[allow(missing_docs)] // the error texts describe the fields
pub enum BatchError {
    #[error("batch cut short: {needed} bytes needed, {have} left")]
    Short { needed: usize, have: usize },
    #[error("batched message says it has {total_size} bytes, its parts do not add up to that")]
    SizeMismatch { total_size: i32 },
    #[error("properties of a batched message are not UTF-8")]
    NotUtf8,
    #[error("properties of {len} bytes, at most 32767 fit")]
    PropertiesTooLong { len: usize },
    #[error("batched message of {len} bytes, at most 2147483647 fit")]
    TooLong { len: usize },
}

impl<'a> BatchMessage<'a> {
    /// Returns the length of the message's encoding.
    #[inline]
    pub fn encoded_len(&self) -> usize {
        FIXED_LEN + self.body.len() + self.properties.len()
    }

    /// Appends the message to a batch body.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), BatchError> {
        let len = self.encoded_len();
        let properties_len = i16::try_from(self.properties.len())
            .map_err(|_| BatchError::PropertiesTooLong { len: self.properties.len() })?;
        let total_size = i32::try_from(len).map_err(|_| BatchError::TooLong { len })?;
        out.reserve(len);
        out.extend_from_slice(&total_size.to_be_bytes());
        out.extend_from_slice(&[0; 8]);
        out.extend_from_slice(&self.flag.to_be_bytes());
        out.extend_from_slice(&(self.body.len() as i32).to_be_bytes());
        out.extend_from_slice(self.body);
        out.extend_from_slice(&properties_len.to_be_bytes());
        out.extend_from_slice(self.properties.as_bytes());
        Ok(())
    }

    /// Reads the message at the front of `bytes`; also returns the bytes after it.
    #[inline]
    pub fn decode(bytes: &'a [u8]) -> Result<(BatchMessage<'a>, &'a [u8]), BatchError> {
        let short = |needed: usize| BatchError::Short { needed, have: bytes.len() };
        let (head, _) = bytes.split_first_chunk::<20>().ok_or_else(|| short(FIXED_LEN))?;
        let word = |at: usize| i32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let mismatch = || BatchError::SizeMismatch { total_size: word(0) };
        let total_size = usize::try_from(word(0)).map_err(|_| mismatch())?;
        if total_size < FIXED_LEN {
            return Err(mismatch());
        }
        let (message, rest) = bytes.split_at_checked(total_size).ok_or_else(|| short(total_size))?;
        let body_len = usize::try_from(word(16)).map_err(|_| mismatch())?;
        let (body, after) = message[20..].split_at_checked(body_len).ok_or_else(mismatch)?;
        let (&properties_len, properties) = after.split_first_chunk::<2>().ok_or_else(mismatch)?;
        if usize::try_from(i16::from_be_bytes(properties_len)) != Ok(properties.len()) {
            return Err(mismatch());
        }
        let properties = std::str::from_utf8(properties).map_err(|_| BatchError::NotUtf8)?;
        Ok((BatchMessage { flag: word(12), body, properties }, rest))
    }
}

/// Encodes the body of a batch of `messages`.
pub fn encode<'a>(messages: impl IntoIterator<Item = BatchMessage<'a>>) -> Result<Vec<u8>, BatchError> {
    let mut out = Vec::new();
    for message in messages {
        message.encode(&mut out)?;
    }
    Ok(out)
}

/// Decodes the messages of a batch body. The first error ends the iteration.
pub fn decode(body: &[u8]) -> impl Iterator<Item = Result<BatchMessage<'_>, BatchError>> {
    let mut rest = body;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        match BatchMessage::decode(rest) {
            Ok((message, after)) => {
                rest = after;
                Some(Ok(message))
            }
            Err(error) => {
                rest = &[];
                Some(Err(error))
            }
        }
    })
}

/// Returns the properties with which a batched message is stored: its own, a separator if one is missing, then the
/// batch's. When they are read, a name of the batch therefore overrides the message's own.
pub fn stored_properties<'a>(own: &'a str, of_batch: &'a str) -> Result<Cow<'a, str>, BatchError> {
    let joined = match (own, of_batch) {
        (own, "") => Cow::Borrowed(own),
        ("", of_batch) => Cow::Borrowed(of_batch),
        (own, of_batch) => {
            let separator = if own.as_bytes().last() == Some(&ENTRY_SEPARATOR) { "" } else { "\u{2}" };
            Cow::Owned([own, separator, of_batch].concat())
        }
    };
    match joined.len() {
        len if len > properties::MAX_LEN => Err(BatchError::PropertiesTooLong { len }),
        _ => Ok(joined),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VECTOR: &[u8] = b"\0\0\0\x2f\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01x\0\x18KEYS\x01k1\x02WAIT\x01true\x02TAGS\x01A\
        \0\0\0\x21\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x02yz\0\x09WAIT\x01true";

    fn messages() -> [BatchMessage<'static>; 2] {
        [
            BatchMessage { flag: 0, body: b"x", properties: "KEYS\u{1}k1\u{2}WAIT\u{1}true\u{2}TAGS\u{1}A" },
            BatchMessage { flag: 0, body: b"yz", properties: "WAIT\u{1}true" },
        ]
    }

    #[test]
    fn vector_both_ways() {
        assert_eq!(encode(messages()), Ok(VECTOR.to_vec()));
        assert_eq!(decode(VECTOR).collect::<Result<Vec<_>, _>>(), Ok(messages().to_vec()));
        assert_eq!(decode(b"").count(), 0);
    }

    #[test]
    fn any_shortening_is_an_error() {
        for end in (1..VECTOR.len()).filter(|&end| end != 0x2f) {
            let all: Vec<_> = decode(&VECTOR[..end]).collect();
            assert!(matches!(all.last(), Some(Err(BatchError::Short { .. }))), "{end} bytes");
        }
    }

    #[test]
    fn lengths_must_add_up() {
        for (at, value) in [(0, 0x80), (3, 21), (3, 0x2E), (16, 0x80), (19, 2), (19, 0xFF), (21, 0x80), (22, 0x17)] {
            let mut bytes = VECTOR.to_vec();
            bytes[at] = value;
            let first = decode(&bytes).next();
            assert!(matches!(first, Some(Err(BatchError::SizeMismatch { .. }))), "{value:#x} at {at}: {first:?}");
        }
    }

    #[test]
    fn text_must_be_utf8() {
        let mut bytes = VECTOR.to_vec();
        bytes[23] = 0xFF;
        assert_eq!(decode(&bytes).collect::<Vec<_>>(), [Err(BatchError::NotUtf8)]);
    }

    #[test]
    fn stored_properties_are_joined_with_one_separator() {
        let joined = |own, of_batch| stored_properties(own, of_batch).unwrap();
        assert_eq!(joined("a\u{1}b", "c\u{1}d"), "a\u{1}b\u{2}c\u{1}d");
        assert_eq!(joined("a\u{1}b\u{2}", "c\u{1}d"), "a\u{1}b\u{2}c\u{1}d", "there was one already");
        assert_eq!(joined("", "c\u{1}d"), "c\u{1}d");
        assert_eq!(joined("a\u{1}b\u{2}", ""), "a\u{1}b\u{2}");
        let long = "x".repeat(32766);
        assert_eq!(stored_properties(&long, "y"), Err(BatchError::PropertiesTooLong { len: 32768 }));
        let refused = BatchMessage { properties: &"x".repeat(32768), ..messages()[0] };
        assert_eq!(encode([refused]), Err(BatchError::PropertiesTooLong { len: 32768 }));
    }
}

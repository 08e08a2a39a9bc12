//! Records back to back: the body of a pull, query or view response. No count, no separators: read until the bytes end.

use super::{Crc, Record, RecordError};

/// Returns the records of a response body, each compared with its checksum. The first error ends the list.
pub fn decode_list(bytes: &[u8]) -> impl Iterator<Item = Result<Record<'_>, RecordError>> {
    decode_list_with(bytes, Crc::Verify)
}

/// Like [`decode_list`], with the checksums verified or trusted.
pub fn decode_list_with(bytes: &[u8], crc: Crc) -> impl Iterator<Item = Result<Record<'_>, RecordError>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let result = Record::decode(rest, crc);
        rest = match &result {
            Ok((_, total_size)) => &rest[*total_size..],
            Err(_) => &[],
        };
        Some(result.map(|(record, _)| record))
    })
}

//! Reads LZ4 frames.
//!
//! ```text
//! u32 magic   u8 flags   u8 block size   [u64 content size]   [u32 dictionary]   u8 header checksum
//! repeated:   u32 block length (top bit: stored), block, [u32 checksum]
//! u32 0       [u32 content checksum]                                                 little-endian
//! ```
//!
//! The library decompresses the blocks; the frame around them is read here, for two reasons. The library's frame reader
//! treats a frame that is truncated between two blocks as complete. It also allocates whole blocks in advance, which
//! for Java's frames (4 MiB blocks, whatever the body's size) is megabytes for every message. Here a block gets the
//! capacity that its compressed bytes can fill: LZ4 makes at most 255 bytes of one.

use lz4_flex::block::{DecompressError, decompress_into_with_dict};
use twox_hash::XxHash32;

use super::{Codec, CompressionError};

const MAGIC: u32 = 0x184D_2204;
const VERSION_MASK: u8 = 0xC0;
const VERSION: u8 = 0x40;
const INDEPENDENT_BLOCKS: u8 = 0x20;
const BLOCK_CHECKSUMS: u8 = 0x10;
const CONTENT_SIZE: u8 = 0x08;
const CONTENT_CHECKSUM: u8 = 0x04;
const DICTIONARY: u8 = 0x01;
/// Maximum distance of a reference in a block.
const WINDOW: usize = 64 * 1024;
/// Maximum number of output bytes per byte of a block.
const MAX_RATIO: usize = 255;

/// Decompresses one or more frames to at most `limit` bytes.
pub(super) fn decompress(body: &[u8], limit: usize) -> Result<Vec<u8>, CompressionError> {
    let mut out = Vec::new();
    let mut rest = body;
    while !rest.is_empty() {
        rest = frame(rest, limit, &mut out)?;
    }
    Ok(out)
}

/// Reads the frame at the front of `bytes`; returns the bytes after it.
fn frame<'a>(bytes: &'a [u8], limit: usize, out: &mut Vec<u8>) -> Result<&'a [u8], CompressionError> {
    let (magic, rest) = word(bytes)?;
    let (&[flags, sizes], _) = rest.split_first_chunk::<2>().ok_or_else(cut_short)?;
    if magic != MAGIC || flags & VERSION_MASK != VERSION {
        return Err(malformed("not an LZ4 frame"));
    }
    if flags & DICTIONARY != 0 {
        return Err(malformed("needs a dictionary"));
    }
    let max_block_len = match sizes >> 4 & 7 {
        size @ 4..=7 => 1usize << (8 + 2 * size),
        _ => return Err(malformed("unknown block size")),
    };
    let descriptor_len = if flags & CONTENT_SIZE == 0 { 2 } else { 10 };
    let (descriptor, rest) = rest.split_at_checked(descriptor_len).ok_or_else(cut_short)?;
    let (&checksum, mut rest) = rest.split_first().ok_or_else(cut_short)?;
    if checksum != (XxHash32::oneshot(0, descriptor) >> 8) as u8 {
        return Err(malformed("wrong header checksum"));
    }

    let start = out.len();
    loop {
        let (length, after) = word(rest)?;
        if length == 0 {
            rest = after;
            break;
        }
        let (block, after) = after.split_at_checked((length & 0x7FFF_FFFF) as usize).ok_or_else(cut_short)?;
        rest = verified(block, flags & BLOCK_CHECKSUMS != 0, after)?;
        if length >> 31 == 1 {
            if block.len() > limit - out.len() {
                return Err(CompressionError::TooLong { limit });
            }
            out.extend_from_slice(block);
        } else {
            let window =
                if flags & INDEPENDENT_BLOCKS != 0 { out.len() } else { start.max(out.len().saturating_sub(WINDOW)) };
            inflate(block, max_block_len, window, limit, out)?;
        }
    }
    verified(&out[start..], flags & CONTENT_CHECKSUM != 0, rest)
}

/// Appends the decompressed `block`. The block may refer to the output from `window` on.
fn inflate(
    block: &[u8],
    max_block_len: usize,
    window: usize,
    limit: usize,
    out: &mut Vec<u8>,
) -> Result<(), CompressionError> {
    let len = out.len();
    let most = max_block_len.min(block.len().saturating_mul(MAX_RATIO));
    let room = most.min(limit - len);
    out.reserve_exact(room);
    out.resize(len + room, 0);
    let (before, target) = out.split_at_mut(len);
    let result = decompress_into_with_dict(block, target, &before[window..]);
    match result {
        Ok(wrote) => {
            out.truncate(len + wrote);
            Ok(())
        }
        Err(DecompressError::OutputTooSmall { .. }) if room < most => Err(CompressionError::TooLong { limit }),
        Err(error) => Err(CompressionError::Malformed { codec: Codec::Lz4, why: error.to_string() }),
    }
}

/// Compares `bytes` with the checksum at the front of `rest`, if there is one; returns the bytes after it.
fn verified<'a>(bytes: &[u8], has_checksum: bool, rest: &'a [u8]) -> Result<&'a [u8], CompressionError> {
    if !has_checksum {
        return Ok(rest);
    }
    let (checksum, rest) = word(rest)?;
    if checksum == XxHash32::oneshot(0, bytes) { Ok(rest) } else { Err(malformed("wrong checksum")) }
}

fn word(bytes: &[u8]) -> Result<(u32, &[u8]), CompressionError> {
    let (&word, rest) = bytes.split_first_chunk::<4>().ok_or_else(cut_short)?;
    Ok((u32::from_le_bytes(word), rest))
}

fn cut_short() -> CompressionError {
    malformed("cut short")
}

fn malformed(why: &str) -> CompressionError {
    CompressionError::Malformed { codec: Codec::Lz4, why: why.to_owned() }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use lz4_flex::frame::{BlockMode, BlockSize, FrameEncoder, FrameInfo};

    use super::*;

    fn sample() -> Vec<u8> {
        // Repeats at a distance, so that linked blocks do refer to each other; some of the data does not compress.
        let noise = |n: usize| (n.wrapping_mul(2_654_435_761) >> 7) as u8;
        (0..300_000).map(|n| if n % 90_000 < 30_000 { noise(n % 30_000) } else { (n / 100) as u8 }).collect()
    }

    fn encoded(info: FrameInfo, body: &[u8]) -> Vec<u8> {
        let mut encoder = FrameEncoder::with_frame_info(info, Vec::new());
        encoder.write_all(body).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn every_kind_of_frame() {
        let body = sample();
        for mode in [BlockMode::Independent, BlockMode::Linked] {
            for size in [BlockSize::Max64KB, BlockSize::Max256KB, BlockSize::Max4MB] {
                for checksums in [false, true] {
                    let info = FrameInfo::new()
                        .block_mode(mode)
                        .block_size(size)
                        .block_checksums(checksums)
                        .content_checksum(checksums)
                        .content_size(checksums.then_some(body.len() as u64));
                    let compressed = encoded(info, &body);
                    assert_eq!(decompress(&compressed, body.len()), Ok(body.clone()));
                    let limit = body.len() - 1;
                    assert_eq!(decompress(&compressed, limit), Err(CompressionError::TooLong { limit }));
                    assert!(decompress(&compressed[..compressed.len() - 1], body.len()).is_err());
                    if checksums {
                        let mut wrong = compressed.clone();
                        *wrong.last_mut().unwrap() ^= 1;
                        assert_eq!(decompress(&wrong, body.len()), Err(malformed("wrong checksum")));
                    }
                }
            }
        }
    }

    #[test]
    fn frames_one_after_the_other() {
        let mut compressed = encoded(FrameInfo::new(), b"one");
        compressed.extend(encoded(FrameInfo::new(), b"two"));
        assert_eq!(decompress(&compressed, 6), Ok(b"onetwo".to_vec()));
        compressed.push(0);
        assert_eq!(decompress(&compressed, 6), Err(malformed("cut short")));
    }

    #[test]
    fn a_header_that_lies() {
        let compressed = encoded(FrameInfo::new(), b"body");
        for (at, byte, why) in [
            (0, 5, "not an LZ4 frame"),
            (4, 0x80, "not an LZ4 frame"),
            (4, 0x41, "needs a dictionary"),
            (5, 0x30, "unknown block size"),
            (6, !compressed[6], "wrong header checksum"),
        ] {
            let mut wrong = compressed.clone();
            wrong[at] = byte;
            assert_eq!(decompress(&wrong, 100), Err(malformed(why)));
        }
    }
}

//! Compressed message bodies.
//!
//! A producer compresses a body of 4 KiB or more and marks it in the message's sysFlag: bit 0, and three bits for the
//! format (old clients send 0, which means zlib). The broker stores the bytes unchanged; only consumers decompress.
//!
//! | codec bits | format |
//! | --- | --- |
//! | 0, 3 | zlib stream (RFC 1950) |
//! | 1 | LZ4 frame, as lz4-java writes it |
//! | 2 | Zstandard frame |
//!
//! A few hundred bytes can inflate to gigabytes, so every call takes the maximum length of the result
//! ([`DEFAULT_LIMIT`] is the frame limit: a body came in a frame) and stops with [`CompressionError::TooLong`] when
//! there is more. The output grows as it is produced; sizes declared in the compressed bytes are not trusted, so that a
//! small body with a false size costs little memory.

mod lz4_frame;

use std::io::{self, Read, Write};

use thiserror::Error;

use crate::frame::MAX_FRAME_LEN;
use crate::sys_flag;

/// Limit to use when there is no better one.
pub const DEFAULT_LIMIT: usize = MAX_FRAME_LEN;

/// Formats in which a body can be compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Codec {
    Lz4,
    Zstd,
    Zlib,
}

/// Reason why a body cannot be decompressed or compressed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CompressionError {
    /// The codec bits match no format.
    #[error("unknown compression type {0}")]
    UnknownCodec(i32),
    /// The bytes do not have the format, or end too early.
    #[error("malformed {codec:?} body: {why}")]
    Malformed {
        /// Expected format.
        codec: Codec,
        /// Error of the decoder.
        why: String,
    },
    /// The output is longer than allowed.
    #[error("body inflates to more than {limit} bytes")]
    TooLong {
        /// Maximum length.
        limit: usize,
    },
}

impl Codec {
    /// Returns the codec of a message: `None` if its body is not compressed.
    pub fn of(sys_flag: i32) -> Result<Option<Codec>, CompressionError> {
        if sys_flag & sys_flag::COMPRESSED == 0 {
            return Ok(None);
        }
        match sys_flag & sys_flag::COMPRESSION_MASK {
            0 | sys_flag::COMPRESSION_ZLIB => Ok(Some(Codec::Zlib)),
            sys_flag::COMPRESSION_LZ4 => Ok(Some(Codec::Lz4)),
            sys_flag::COMPRESSION_ZSTD => Ok(Some(Codec::Zstd)),
            other => Err(CompressionError::UnknownCodec(other >> 8)),
        }
    }

    /// Returns the sysFlag bits of a body compressed with this codec.
    pub const fn flags(self) -> i32 {
        sys_flag::COMPRESSED
            | match self {
                Codec::Lz4 => sys_flag::COMPRESSION_LZ4,
                Codec::Zstd => sys_flag::COMPRESSION_ZSTD,
                Codec::Zlib => sys_flag::COMPRESSION_ZLIB,
            }
    }

    /// Decompresses `body` to at most `limit` bytes.
    pub fn decompress(self, body: &[u8], limit: usize) -> Result<Vec<u8>, CompressionError> {
        let malformed = |error: io::Error| CompressionError::Malformed { codec: self, why: error.to_string() };
        match self {
            _ if body.is_empty() => Err(malformed(io::ErrorKind::UnexpectedEof.into())),
            Codec::Zlib => inflate(body, limit).map_err(malformed),
            Codec::Lz4 => return lz4_frame::decompress(body, limit),
            Codec::Zstd => {
                let mut decoder = zstd::Decoder::with_buffer(body).map_err(malformed)?;
                // A frame may require a window of gigabytes. 8 MiB covers levels up to 19; Java's default is 5.
                decoder.window_log_max(23).map_err(malformed)?;
                read_to(decoder, limit).map_err(malformed)
            }
        }?
        .ok_or(CompressionError::TooLong { limit })
    }

    /// Compresses `body`. `level` goes from 0 to 9 as in Java and has no meaning for LZ4.
    pub fn compress(self, body: &[u8], level: u32) -> Result<Vec<u8>, CompressionError> {
        let failed = |why: String| CompressionError::Malformed { codec: self, why };
        match self {
            Codec::Zlib => {
                let level = flate2::Compression::new(level.min(9));
                let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), level);
                encoder.write_all(body).and_then(|()| encoder.finish()).map_err(|error| failed(error.to_string()))
            }
            Codec::Lz4 => {
                let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
                encoder.write_all(body).map_err(|error| failed(error.to_string()))?;
                encoder.finish().map_err(|error| failed(error.to_string()))
            }
            Codec::Zstd => zstd::encode_all(body, level.min(9) as i32).map_err(|error| failed(error.to_string())),
        }
    }
}

/// Reads all of `source`; returns `None` if there are more than `limit` bytes.
fn read_to(mut source: impl Read, limit: usize) -> io::Result<Option<Vec<u8>>> {
    let mut out = Vec::new();
    loop {
        let len = out.len();
        if len == limit {
            // A body that ends here is valid; one that continues is too long.
            return Ok((source.read(&mut [0])? == 0).then_some(out));
        }
        grow(&mut out, limit);
        let read = source.read(&mut out[len..])?;
        out.truncate(len + read);
        if read == 0 {
            return Ok(Some(out));
        }
    }
}

/// Adds capacity for more output: doubles it, but never beyond `limit`.
fn grow(out: &mut Vec<u8>, limit: usize) {
    const STEP: usize = 16 * 1024;
    let room = (limit - out.len()).min(out.len().max(STEP));
    out.reserve_exact(room);
    out.resize(out.len() + room, 0);
}

/// Inflates a zlib stream. Implemented here because the reader of the library treats a truncated stream as complete.
fn inflate(body: &[u8], limit: usize) -> io::Result<Option<Vec<u8>>> {
    let mut decoder = flate2::Decompress::new(true);
    let mut out = Vec::new();
    let mut probe = [0];
    loop {
        let len = out.len();
        let full = len == limit;
        if !full {
            grow(&mut out, limit);
        }
        let rest = &body[decoder.total_in() as usize..];
        let (read, wrote) = (decoder.total_in(), decoder.total_out());
        let room: &mut [u8] = if full { &mut probe } else { &mut out[len..] };
        let status = decoder.decompress(rest, room, flate2::FlushDecompress::None).map_err(io::Error::from)?;
        let wrote = (decoder.total_out() - wrote) as usize;
        if full && wrote > 0 {
            return Ok(None);
        }
        out.truncate(len + wrote);
        if status == flate2::Status::StreamEnd {
            return Ok(Some(out));
        }
        if wrote == 0 && decoder.total_in() == read {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODECS: [Codec; 3] = [Codec::Lz4, Codec::Zstd, Codec::Zlib];

    fn sample(len: usize) -> Vec<u8> {
        (0..len).map(|n| (n * n / 7) as u8).collect()
    }

    #[test]
    fn round_trips_of_every_size() {
        for codec in CODECS {
            for len in [0, 1, 100, 16 * 1024, 16 * 1024 + 1, 100_000] {
                let body = sample(len);
                let compressed = codec.compress(&body, 5).unwrap();
                assert_eq!(codec.decompress(&compressed, len), Ok(body), "{codec:?} {len}: the limit is inclusive");
                if len > 0 {
                    let refused = Err(CompressionError::TooLong { limit: len - 1 });
                    assert_eq!(codec.decompress(&compressed, len - 1), refused, "{codec:?} {len}");
                }
            }
        }
    }

    #[test]
    fn bombs_stop_at_the_limit() {
        let zeros = vec![0; DEFAULT_LIMIT + 1];
        for codec in CODECS {
            let compressed = codec.compress(&zeros, 9).unwrap();
            assert!(compressed.len() < 1 << 18, "{codec:?}: {}", compressed.len());
            let refused = Err(CompressionError::TooLong { limit: DEFAULT_LIMIT });
            assert_eq!(codec.decompress(&compressed, DEFAULT_LIMIT), refused);
        }
    }

    #[test]
    fn broken_bodies_are_errors() {
        for codec in CODECS {
            let compressed = codec.compress(&sample(5000), 5).unwrap();
            for end in 0..compressed.len() {
                let result = codec.decompress(&compressed[..end], 5000);
                assert!(
                    matches!(result, Err(CompressionError::Malformed { .. })),
                    "{codec:?} cut at {end}: {result:?}"
                );
            }
            assert!(codec.decompress(b"this is not compressed at all", 5000).is_err(), "{codec:?}");
        }
    }

    #[test]
    fn sys_flag_names_the_codec() {
        assert_eq!(Codec::of(sys_flag::COMPRESSION_LZ4), Ok(None), "the compressed bit decides");
        assert_eq!(Codec::of(0x1), Ok(Some(Codec::Zlib)), "old clients");
        for codec in CODECS {
            assert_eq!(Codec::of(codec.flags() | 0x30), Ok(Some(codec)));
        }
        assert_eq!(Codec::of(0x501), Err(CompressionError::UnknownCodec(5)));
    }
}

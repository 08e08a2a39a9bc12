//! Frames: the encoding of the sequence of commands on a connection.
//!
//! ```text
//! at  0   i32   length      bytes that follow this word = 4 + header + body
//!     4   u8    encoding    0 JSON, 1 binary ("ROCKETMQ")
//!     5   u24   header length
//!     8   …     header      crate::header
//!     …   …     body        the rest; may be empty
//! ```
//!
//! A reader keeps one growing buffer per connection and calls [`cut`] until it returns [`Cut::NeedMore`]. The length
//! word is checked as soon as it has arrived: a frame of more than 16 MiB (length word included) is rejected before its
//! bytes are awaited, and so is one whose header length exceeds the frame. After an error the start of the next frame
//! is unknown, and the connection must be closed.
//!
//! The encoding is a property of each frame: the same connection may carry both encodings.

use thiserror::Error;

use crate::header::{Command, Encoding, HeaderError};

/// Largest frame, its length word included: 16 MiB.
pub const MAX_FRAME_LEN: usize = 16 * 1024 * 1024;
/// Largest header: its length has 24 bits.
pub const MAX_HEADER_LEN: usize = 0xFF_FFFF;
/// Length, encoding and header length.
const LEAD_LEN: usize = 8;

/// Frame that borrows from the buffer it was cut from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Encoding of the header.
    pub encoding: Encoding,
    /// Bytes of the header.
    pub header: &'a [u8],
    /// Bytes of the body; empty for a command without body.
    pub body: &'a [u8],
}

/// Result of [`cut`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut<'a> {
    /// The buffer does not hold a whole frame yet.
    NeedMore {
        /// Minimum length to which the buffer must grow. Never more than the limit.
        len: usize,
    },
    /// A whole frame.
    Frame {
        /// The frame.
        frame: Frame<'a>,
        /// Number of bytes of the buffer that the frame takes; the next frame begins after them.
        len: usize,
    },
}

/// Reason why bytes are not a frame, or a command cannot become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FrameError {
    /// The frame is larger than the limit.
    #[error("frame of {len} bytes, at most {limit} are allowed")]
    TooLong {
        /// Length of the frame, length word included.
        len: u64,
        /// The limit.
        limit: usize,
    },
    /// The length word is negative or too small for a frame.
    #[error("frame length {length} is not possible")]
    BadLength {
        /// The length word.
        length: i32,
    },
    /// The header would reach past the end of the frame.
    #[error("header of {header_len} bytes in a frame with room for {room}")]
    HeaderTooLong {
        /// Header length in the frame.
        header_len: usize,
        /// Number of bytes available for it.
        room: usize,
    },
    /// The encoding byte is neither 0 nor 1.
    #[error("unknown header encoding {0}")]
    UnknownEncoding(u8),
    /// The header cannot be decoded or encoded.
    #[error(transparent)]
    Header(#[from] HeaderError),
}

/// Cuts the first frame from `buffer`, with the limit of [`MAX_FRAME_LEN`].
#[inline]
pub fn cut(buffer: &[u8]) -> Result<Cut<'_>, FrameError> {
    cut_with(buffer, MAX_FRAME_LEN)
}

/// Like [`cut`], with a limit (at least 8) on the whole frame.
#[inline]
pub fn cut_with(buffer: &[u8], limit: usize) -> Result<Cut<'_>, FrameError> {
    let lead = match Lead::read(buffer, limit)? {
        Ok(lead) => lead,
        Err(len) => return Ok(Cut::NeedMore { len }),
    };
    match buffer.get(LEAD_LEN..lead.len) {
        Some(bytes) => Ok(Cut::Frame { frame: lead.frame(bytes), len: lead.len }),
        None => Ok(Cut::NeedMore { len: lead.len }),
    }
}

/// Returns the first frame of `buffer` with the received part of its body, and the full length of that body; `None` as
/// long as the header is incomplete. For readers that receive the rest of a large body directly into its final memory.
#[inline]
pub fn cut_head(buffer: &[u8], limit: usize) -> Result<Option<(Frame<'_>, usize)>, FrameError> {
    let Ok(lead) = Lead::read(buffer, limit)? else { return Ok(None) };
    let bytes = &buffer[LEAD_LEN..buffer.len().min(lead.len)];
    let is_whole = bytes.len() >= lead.header_len;
    Ok(is_whole.then(|| (lead.frame(bytes), lead.len - LEAD_LEN - lead.header_len)))
}

/// Fields of a frame before its header.
struct Lead {
    encoding: Encoding,
    header_len: usize,
    /// Length of the whole frame.
    len: usize,
}

impl Lead {
    /// Reads the lead, or returns the number of bytes needed to continue.
    #[inline]
    fn read(buffer: &[u8], limit: usize) -> Result<Result<Lead, usize>, FrameError> {
        let Some((&length, rest)) = buffer.split_first_chunk::<4>() else {
            return Ok(Err(LEAD_LEN));
        };
        let length = i32::from_be_bytes(length);
        let payload_len = match usize::try_from(length) {
            Ok(len) if len >= 4 => len,
            _ => return Err(FrameError::BadLength { length }),
        };
        let len = 4 + payload_len;
        if len > limit {
            return Err(FrameError::TooLong { len: len as u64, limit });
        }
        let Some((&[encoding, h2, h1, h0], _)) = rest.split_first_chunk::<4>() else {
            return Ok(Err(len));
        };
        let encoding = Encoding::from_byte(encoding).ok_or(FrameError::UnknownEncoding(encoding))?;
        let header_len = u32::from_be_bytes([0, h2, h1, h0]) as usize;
        let room = payload_len - 4;
        if header_len > room {
            return Err(FrameError::HeaderTooLong { header_len, room });
        }
        Ok(Ok(Lead { encoding, header_len, len }))
    }

    #[inline]
    fn frame<'a>(&self, bytes: &'a [u8]) -> Frame<'a> {
        let (header, body) = bytes.split_at(self.header_len);
        Frame { encoding: self.encoding, header, body }
    }
}

impl<'a> Frame<'a> {
    /// Decodes the header.
    #[inline]
    pub fn command(&self) -> Result<Command<'a>, FrameError> {
        Ok(Command::decode(self.header, self.encoding)?)
    }
}

/// Appends the frame of `command` with `body` to `out`. On error `out` is unchanged.
pub fn encode(command: &Command<'_>, encoding: Encoding, body: &[u8], out: &mut Vec<u8>) -> Result<(), FrameError> {
    encode_head(command, encoding, body.len(), out)?;
    out.extend_from_slice(body);
    Ok(())
}

/// Appends a frame without its body, whose `body_len` bytes the caller sends right after: so a pull response's body
/// need not be copied into a frame. On error `out` is unchanged.
pub fn encode_head(
    command: &Command<'_>,
    encoding: Encoding,
    body_len: usize,
    out: &mut Vec<u8>,
) -> Result<(), FrameError> {
    let start = out.len();
    out.extend_from_slice(&[0; LEAD_LEN]);
    let result = command.encode(encoding, out).map_err(FrameError::from).and_then(|()| {
        let header_len = out.len() - start - LEAD_LEN;
        let len = LEAD_LEN as u64 + header_len as u64 + body_len as u64;
        if len > MAX_FRAME_LEN as u64 {
            return Err(FrameError::TooLong { len, limit: MAX_FRAME_LEN });
        }
        // The frame limit keeps the header length within its 24 bits.
        let lead = &mut out[start..start + LEAD_LEN];
        lead[..4].copy_from_slice(&(len as u32 - 4).to_be_bytes());
        lead[4..].copy_from_slice(&(header_len as u32).to_be_bytes());
        lead[4] = encoding.byte();
        Ok(())
    });
    if result.is_err() {
        out.truncate(start);
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framed(header: &[u8], encoding: u8, body: &[u8]) -> Vec<u8> {
        let mut out = ((4 + header.len() + body.len()) as u32).to_be_bytes().to_vec();
        out.extend((header.len() as u32).to_be_bytes());
        out[4] = encoding;
        out.extend(header);
        out.extend(body);
        out
    }

    #[test]
    fn every_prefix_needs_more_and_says_how_much() {
        let bytes = framed(b"head", 1, b"body!");
        for end in 0..bytes.len() {
            let expected = if end < 4 { LEAD_LEN } else { bytes.len() };
            assert_eq!(cut(&bytes[..end]), Ok(Cut::NeedMore { len: expected }), "{end} bytes");
        }
        let frame = Frame { encoding: Encoding::Binary, header: b"head", body: b"body!" };
        assert_eq!(cut(&bytes), Ok(Cut::Frame { frame, len: bytes.len() }));
    }

    #[test]
    fn a_head_is_there_before_its_body() {
        let bytes = framed(b"head", 1, b"body!");
        for end in 0..=bytes.len() {
            let head = cut_head(&bytes[..end], MAX_FRAME_LEN).unwrap();
            let expected =
                Frame { encoding: Encoding::Binary, header: b"head", body: bytes.get(12..end).unwrap_or_default() };
            assert_eq!(head, (end >= 12).then_some((expected, 5)), "{end} bytes");
        }
        let two = [&bytes[..], &bytes[..]].concat();
        assert_eq!(cut_head(&two, MAX_FRAME_LEN).unwrap().unwrap().0.body, b"body!");
        assert_eq!(cut_head(&bytes, 16), Err(FrameError::TooLong { len: 17, limit: 16 }));
    }

    #[test]
    fn frames_follow_each_other() {
        let mut bytes = framed(b"{}", 0, b"");
        let first_len = bytes.len();
        bytes.extend(framed(b"x", 1, b"y"));
        let Ok(Cut::Frame { frame, len }) = cut(&bytes) else { panic!("a frame") };
        assert_eq!((frame.encoding, frame.header, frame.body, len), (Encoding::Json, &b"{}"[..], &b""[..], first_len));
        let Ok(Cut::Frame { frame, .. }) = cut(&bytes[len..]) else { panic!("a frame") };
        assert_eq!(frame.body, b"y");
    }

    #[test]
    fn the_limit_counts_the_length_word() {
        let length = |length: i32| cut(&length.to_be_bytes()).map(|_| ());
        assert_eq!(length(16_777_212), Ok(()));
        assert_eq!(length(16_777_213), Err(FrameError::TooLong { len: 16_777_217, limit: MAX_FRAME_LEN }));
        assert_eq!(length(i32::MAX), Err(FrameError::TooLong { len: 1 << 31 | 3, limit: MAX_FRAME_LEN }));
        for bad in [3, 0, -1, i32::MIN] {
            assert_eq!(length(bad), Err(FrameError::BadLength { length: bad }));
        }
    }

    #[test]
    fn a_header_longer_than_its_frame_is_refused_at_once() {
        let bytes = [0, 0, 0, 10, 0, 0, 0, 7];
        assert_eq!(cut(&bytes), Err(FrameError::HeaderTooLong { header_len: 7, room: 6 }));
        assert_eq!(cut(&[0, 0, 0, 4, 2, 0, 0, 0]), Err(FrameError::UnknownEncoding(2)));
    }

    #[test]
    fn a_failed_encode_leaves_nothing_behind() {
        let command = Command { code: 40_000, ..Command::default() };
        let mut out = b"before".to_vec();
        assert!(encode(&command, Encoding::Binary, b"", &mut out).is_err(), "the code has 16 bits in binary");
        assert_eq!(out, b"before");
        let command = Command::default();
        assert!(matches!(
            encode_head(&command, Encoding::Binary, MAX_FRAME_LEN - 28, &mut out),
            Err(FrameError::TooLong { len: 16_777_217, .. })
        ));
        assert_eq!(out, b"before");
        assert_eq!(encode_head(&command, Encoding::Binary, MAX_FRAME_LEN - 29, &mut out), Ok(()));
    }
}

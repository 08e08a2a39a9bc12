//! Bytes of a connection: they are cut into frames up to their end or an error, every header is decoded, every command
//! encoded again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::frame::{self, Cut, MAX_FRAME_LEN};

limit::limit_allocations!();

fuzz_target!(|bytes: &[u8]| {
    let mut rest = bytes;
    loop {
        let head = frame::cut_head(rest, MAX_FRAME_LEN);
        match frame::cut(rest) {
            Ok(Cut::NeedMore { len }) => {
                assert!(len > rest.len() && len <= MAX_FRAME_LEN, "{len} for {}", rest.len());
                if let Some((frame, body_len)) = head.expect("no worse than the frame") {
                    assert_eq!(8 + frame.header.len() + body_len, len);
                    assert_eq!(8 + frame.header.len() + frame.body.len(), rest.len(), "what is there of the body");
                }
                return;
            }
            Err(error) => {
                assert_eq!(head, Err(error));
                return;
            }
            Ok(Cut::Frame { frame, len }) => {
                assert!(len <= rest.len() && 8 + frame.header.len() + frame.body.len() == len);
                assert_eq!(head, Ok(Some((frame, frame.body.len()))));
                // A truncated frame needs more bytes, and returns how many.
                assert_eq!(frame::cut(&rest[..len - 1]), Ok(Cut::NeedMore { len }), "all but one byte");
                if let Ok(command) = frame.command() {
                    let mut out = Vec::new();
                    // JSON may hold a code that binary cannot; a decoded command can be encoded in its own encoding.
                    frame::encode(&command, frame.encoding, frame.body, &mut out).expect("decoded, so it fits");
                    let Ok(Cut::Frame { frame: again, len }) = frame::cut(&out) else { panic!("our own frame") };
                    assert_eq!((again.body, len), (frame.body, out.len()));
                    assert_eq!(again.command().as_ref(), Ok(&command));
                }
                rest = &rest[len..];
            }
        }
    }
});

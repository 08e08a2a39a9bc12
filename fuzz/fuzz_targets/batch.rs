//! Batch bodies: a decoded body is encoded as the same bytes again, except for the two words that decoding ignores.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::batch::{self, BatchMessage};
use wire::properties;

limit::limit_allocations!();

fuzz_target!(|bytes: &[u8]| {
    let mut rest = bytes;
    while let Ok((message, after)) = BatchMessage::decode(rest) {
        let len = rest.len() - after.len();
        let mut again = Vec::new();
        message.encode(&mut again).expect("decoded, so it fits");
        assert_eq!((again.len(), message.encoded_len()), (len, len));
        assert_eq!(again[..4], rest[..4]);
        assert_eq!(again[12..], rest[12..len]);

        let stored = batch::stored_properties(message.properties, "CLUSTER\u{1}c");
        if let Ok(stored) = stored {
            assert_eq!(properties::get(&stored, "CLUSTER"), Some("c"), "the batch's properties win");
        }
        rest = after;
    }
    let all: Result<Vec<_>, _> = batch::decode(bytes).collect();
    assert_eq!(all.is_ok(), rest.is_empty());
});

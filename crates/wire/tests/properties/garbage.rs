//! Bytes nobody made on purpose.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use wire::compression::Codec;
use wire::frame::{self, Cut, MAX_FRAME_LEN};
use wire::ids::{OffsetId, UniqueId};
use wire::{Command, Crc, Encoding, Record, batch, json, properties, record};

use super::values;

/// A few changes to valid bytes: replaced, removed or doubled.
fn changes() -> impl Strategy<Value = Vec<(Index, u8, u8)>> {
    vec(any::<(Index, u8, u8)>(), 1..4)
}

fn change(mut bytes: Vec<u8>, changes: Vec<(Index, u8, u8)>) -> Vec<u8> {
    for (at, kind, byte) in changes {
        if bytes.is_empty() {
            break;
        }
        let at = at.index(bytes.len());
        match kind % 4 {
            0 => bytes[at] = byte,
            1 => bytes[at] ^= 1 << (byte % 8),
            2 => drop(bytes.remove(at)),
            _ => bytes.insert(at, byte),
        }
    }
    bytes
}

/// Everything that reads bytes, on the same bytes.
fn read_all(bytes: &[u8]) {
    for crc in [Crc::Verify, Crc::Trust] {
        if let Ok((record, len)) = Record::decode(bytes, crc) {
            assert!(len <= bytes.len());
            assert_eq!(record.encoded_len(), len);
            let mut again = vec![0; len];
            record.encode_into(&mut again);
            let same = |range: std::ops::Range<usize>| assert_eq!(again[range.clone()], bytes[range]);
            same(0..8); // the checksum between is recomputed
            same(12..len);
        }
    }
    assert!(record::decode_list(bytes).take_while(Result::is_ok).count() <= bytes.len() / record::MIN_LEN);
    let _ = (record::lead(bytes), record::store_timestamp(bytes), record::sys_flag(bytes));
    assert!(batch::decode(bytes).take_while(Result::is_ok).count() <= bytes.len() / batch::FIXED_LEN);
    match frame::cut(bytes) {
        Ok(Cut::Frame { frame, len }) => {
            assert!(len <= bytes.len());
            let _ = frame.command();
        }
        Ok(Cut::NeedMore { len }) => assert!(len > bytes.len() && len <= MAX_FRAME_LEN),
        Err(_) => {}
    }
    for encoding in [Encoding::Json, Encoding::Binary] {
        let _ = Command::decode(bytes, encoding);
    }
    let _ = json::parse(bytes);
    for codec in [Codec::Lz4, Codec::Zstd, Codec::Zlib] {
        if let Ok(body) = codec.decompress(bytes, 10_000) {
            assert!(body.len() <= 10_000);
        }
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        assert!(properties::iter(text).all(|(name, value)| !name.is_empty() && !value.is_empty()));
        let _ = (OffsetId::parse(text), UniqueId::parse(text));
    }
}

proptest! {
    #[test]
    fn noise(bytes in vec(any::<u8>(), 0..400)) {
        read_all(&bytes);
    }

    #[test]
    fn text_noise(text in "[\\{\\}\\[\\],:\"'\\\\a-e0-9u\u{1}\u{2} .+-]{0,80}") {
        read_all(text.as_bytes());
    }

    #[test]
    fn changed_records(owned in values::record(), changes in changes()) {
        read_all(&change(owned.encode(), changes));
    }

    #[test]
    fn changed_frames(command in values::command(), binary in any::<bool>(), changes in changes()) {
        let encoding = if binary { Encoding::Binary } else { Encoding::Json };
        let mut bytes = Vec::new();
        frame::encode(&command, encoding, b"body", &mut bytes).unwrap();
        read_all(&change(bytes.clone(), changes.clone()));
        read_all(&change(bytes.split_off(8), changes));
    }

    #[test]
    fn changed_batches(bodies in vec(vec(any::<u8>(), 0..40), 1..4), changes in changes()) {
        let messages = bodies.iter().map(|body| batch::BatchMessage { flag: 1, body, properties: "a\u{1}b" });
        read_all(&change(batch::encode(messages).unwrap(), changes));
    }

    #[test]
    fn changed_json(value in values::json(), changes in changes()) {
        let mut bytes = Vec::new();
        json::write(&value, json::Keys::Bare, &mut bytes);
        read_all(&change(bytes, changes));
    }

    #[test]
    fn changed_compressed_bodies(body in vec(0..9u8, 0..2000), changes in changes()) {
        for codec in [Codec::Lz4, Codec::Zstd, Codec::Zlib] {
            read_all(&change(codec.compress(&body, 5).unwrap(), changes.clone()));
        }
    }
}

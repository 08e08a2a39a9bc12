//! Written, then read again: the same.

use proptest::collection::vec;
use proptest::prelude::*;
use wire::batch::{self, BatchMessage};
use wire::compression::{Codec, CompressionError};
use wire::frame::{self, Cut};
use wire::ids::{OffsetId, UniqueId};
use wire::json::{self, Keys};
use wire::record::{self, Lead};
use wire::{Command, Crc, Encoding, Record, crc, hash, properties};

use super::values;

fn encodings() -> impl Strategy<Value = Encoding> {
    prop_oneof![Just(Encoding::Json), Just(Encoding::Binary)]
}

proptest! {
    #[test]
    fn records(owned in values::record(), after in vec(any::<u8>(), 0..50)) {
        let mut bytes = owned.encode();
        let len = bytes.len();
        bytes.extend(after);
        prop_assert_eq!(Record::decode(&bytes, Crc::Verify), Ok((owned.record(), len)));
        prop_assert_eq!(record::lead(&bytes), Lead::Message { total_size: len });
        prop_assert_eq!(record::store_timestamp(&bytes), Some(owned.numbers.store_timestamp));
        prop_assert_eq!(record::queue_offset(&bytes), Some(owned.numbers.queue_offset));
    }

    #[test]
    fn record_lists(list in vec(values::record(), 0..8)) {
        let bytes: Vec<u8> = list.iter().flat_map(|owned| owned.encode()).collect();
        let read: Result<Vec<_>, _> = record::decode_list(&bytes).collect();
        prop_assert_eq!(read, Ok(list.iter().map(|owned| owned.record()).collect()));
    }

    #[test]
    fn batches(messages in vec((any::<i32>(), vec(any::<u8>(), 0..100), values::text(50)), 0..8)) {
        let messages: Vec<_> =
            messages.iter().map(|(flag, body, properties)| BatchMessage { flag: *flag, body, properties }).collect();
        let bytes = batch::encode(messages.iter().copied()).unwrap();
        prop_assert_eq!(batch::decode(&bytes).collect::<Result<Vec<_>, _>>(), Ok(messages));
    }

    #[test]
    fn stored_properties_hold_both(
        own in vec(("[a-z]{1,5}", "[ -~]{1,9}"), 0..6),
        of_batch in vec(("[A-Z]{1,5}", "[ -~]{1,9}"), 0..6),
        closed in any::<bool>(),
    ) {
        let pairs = |list: &[(String, String)]| properties::encode(list.iter().map(|(n, v)| (n.as_str(), v.as_str())));
        let mut first = pairs(&own);
        if closed && !first.is_empty() {
            first.push('\u{2}');
        }
        let second = pairs(&of_batch);
        let stored = batch::stored_properties(&first, &second).unwrap();
        let expected: Vec<_> = own.iter().chain(&of_batch).map(|(n, v)| (n.as_str(), v.as_str())).collect();
        prop_assert_eq!(properties::iter(&stored).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn property_strings(pairs in vec((values::text(10), values::text(10)), 0..10)) {
        let plain = |(name, value): &&(String, String)| properties::is_name(name) && properties::is_value(value);
        let pairs: Vec<_> = pairs.iter().filter(plain).map(|(n, v)| (n.as_str(), v.as_str())).collect();
        let text = properties::encode(pairs.iter().copied());
        prop_assert_eq!(properties::iter(&text).collect::<Vec<_>>(), pairs.clone());
        for (name, _) in &pairs {
            let last = pairs.iter().rev().find(|(found, _)| found == name).map(|(_, value)| *value);
            prop_assert_eq!(properties::get(&text, name), last);
            prop_assert_eq!(properties::get_many(&text, [name]), [last]);
        }
    }

    #[test]
    fn frames_and_headers(
        command in values::command(), encoding in encodings(), body in vec(any::<u8>(), 0..100), after in vec(any::<u8>(), 0..9),
    ) {
        let mut bytes = Vec::new();
        frame::encode(&command, encoding, &body, &mut bytes).unwrap();
        let whole = bytes.len();
        for end in [0, 4, 8, whole - 1] {
            let more = matches!(frame::cut(&bytes[..end]), Ok(Cut::NeedMore { len }) if len > end && len <= whole);
            prop_assert!(more, "{} of {} bytes", end, whole);
        }
        bytes.extend(after);
        let Ok(Cut::Frame { frame, len }) = frame::cut(&bytes) else { panic!("not a frame") };
        prop_assert_eq!((frame.encoding, frame.body, len), (encoding, &body[..], whole));
        prop_assert_eq!(frame.command(), Ok(command));
    }

    #[test]
    fn both_encodings_mean_the_same(command in values::command()) {
        let read = |encoding| {
            let mut bytes = Vec::new();
            command.encode(encoding, &mut bytes).unwrap();
            Command::decode(&bytes, encoding).map(Command::into_owned)
        };
        prop_assert_eq!(read(Encoding::Json), read(Encoding::Binary));
    }

    #[test]
    fn json_texts(value in values::json()) {
        let mut bare = Vec::new();
        json::write(&value, Keys::Bare, &mut bare);
        prop_assert_eq!(json::parse(&bare), Ok(value.clone()));
        // Whatever the keys were, quoted text is read too, and writing that again changes nothing.
        let mut quoted = Vec::new();
        json::write(&value, Keys::Quoted, &mut quoted);
        let again = json::parse(&quoted).unwrap();
        let mut twice = Vec::new();
        json::write(&again, Keys::Quoted, &mut twice);
        prop_assert_eq!(String::from_utf8(twice), String::from_utf8(quoted));
    }

    #[test]
    fn offset_ids(store_host in values::host(), physical_offset in any::<i64>()) {
        let id = OffsetId { store_host, physical_offset };
        prop_assert_eq!(OffsetId::parse(&id.encode()), Ok(id));
    }

    #[test]
    fn unique_ids(ip in any::<std::net::IpAddr>(), pid in any::<u16>(), hash in any::<i32>(), month_ms in any::<i32>(), counter in any::<u16>()) {
        let id = UniqueId { ip, pid, class_loader_hash: hash, month_ms, counter };
        prop_assert_eq!(UniqueId::parse(&id.encode()), Ok(id));
    }

    #[test]
    fn hashes_follow_the_definition(topic in values::text(40), key in values::text(40)) {
        let units: Vec<u16> = format!("{topic}#{key}").encode_utf16().collect();
        let hash = units.iter().fold(0i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(i32::from(*unit)));
        prop_assert_eq!(hash::java_hash(&format!("{topic}#{key}")), hash);
        prop_assert_eq!(hash::index_hash(&topic, &key), hash.checked_abs().unwrap_or(0));
        prop_assert!(crc::body_crc(key.as_bytes()) <= i32::MAX as u32);
    }
}

// Compressors without optimisation are slow.
proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn compressed_bodies(body in prop_oneof![vec(any::<u8>(), 0..5000), vec(0..4u8, 0..50_000)], level in 0..10u32) {
        for codec in [Codec::Lz4, Codec::Zstd, Codec::Zlib] {
            let compressed = codec.compress(&body, level).unwrap();
            prop_assert_eq!(codec.decompress(&compressed, body.len()), Ok(body.clone()));
            if let Some(limit) = body.len().checked_sub(1) {
                prop_assert_eq!(codec.decompress(&compressed, limit), Err(CompressionError::TooLong { limit }));
            }
        }
    }
}

//! Record that a 4.9.7 broker stored, every kind of damage to it, and the peeks.

use super::*;
use crate::sys_flag as flags;

const VECTOR: &str = "00000083 daa320a7 3610a686 00000000 00000009 0000000000000000 0000000000000000 00000000
    0000018bcfe56800 7f000001000015b3 000001a1e08a24af 0a01020300002a9f 00000000 0000000000000000
    00000005 68656c6c6f  02 5431
    0021 54414753 01 54616741 02 4b455953 01 6b31206b32 02 554e49515f4b4559 01 554b31";

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(16)).collect();
    digits.chunks(2).map(|pair| (pair[0] * 16 + pair[1]) as u8).collect()
}

fn host(ip: &str, port: i32) -> Host {
    Host::new(ip.parse().unwrap(), port)
}

fn vector() -> Record<'static> {
    Record {
        queue_id: 0,
        flag: 9,
        queue_offset: 0,
        physical_offset: 0,
        sys_flag: 0,
        born_timestamp: 1_700_000_000_000,
        born_host: host("127.0.0.1", 5555),
        store_timestamp: 1_794_768_512_175,
        store_host: host("10.1.2.3", 10911),
        reconsume_times: 0,
        prepared_transaction_offset: 0,
        body: b"hello",
        topic: "T1",
        properties: "TAGS\u{1}TagA\u{2}KEYS\u{1}k1 k2\u{2}UNIQ_KEY\u{1}UK1",
    }
}

fn encode(record: &Record<'_>) -> Vec<u8> {
    let mut out = vec![0xEE; record.encoded_len()];
    record.encode_into(&mut out);
    out
}

#[test]
fn vector_both_ways() {
    let bytes = hex(VECTOR);
    assert_eq!(bytes.len(), 131);
    assert_eq!(encode(&vector()), bytes);
    assert_eq!(Record::decode(&bytes, Crc::Verify), Ok((vector(), 131)));
}

#[test]
fn every_combination_of_hosts() {
    let (v4, v6) = (host("10.1.2.3", 1), host("fe80::1:2", -1));
    for (born_host, store_host, bits) in [
        (v4, v4, 0),
        (v6, v4, flags::BORN_HOST_V6),
        (v4, v6, flags::STORE_HOST_V6),
        (v6, v6, flags::BORN_HOST_V6 | flags::STORE_HOST_V6),
    ] {
        // Wrong host bits in the given flag must not reach the bytes.
        let given = Record { born_host, store_host, sys_flag: 0x8 | (0x30 & !bits), queue_offset: -2, ..vector() };
        let bytes = encode(&given);
        let expected = Record { sys_flag: 0x8 | bits, ..given };
        assert_eq!(Record::decode(&bytes, Crc::Verify), Ok((expected, bytes.len())));
        assert_eq!(store_timestamp(&bytes), Some(given.store_timestamp));
        assert_eq!(sys_flag(&bytes), Some(expected.sys_flag));
    }
}

#[test]
fn peeks_read_their_fields() {
    let record = Record { queue_offset: 0x0102_0304_0506_0708, physical_offset: i64::MIN + 1, ..vector() };
    let bytes = encode(&record);
    assert_eq!(total_size(&bytes), Some(131));
    assert_eq!(queue_offset(&bytes), Some(record.queue_offset));
    assert_eq!(physical_offset(&bytes), Some(record.physical_offset));
    assert_eq!(store_timestamp(&bytes), Some(record.store_timestamp));
    assert_eq!(store_timestamp(&bytes[..63]), None);
    assert_eq!(queue_offset(&bytes[..27]), None);
    assert_eq!(total_size(&[]), None);
}

#[test]
fn lead_tells_message_blank_and_nothing() {
    assert_eq!(lead(&hex(VECTOR)), Lead::Message { total_size: 131 });
    assert_eq!(lead(&hex("000000aa cbd43194")), Lead::Blank { total_size: 170 });
    for nothing in
        ["", "000000aacbd431", "0000000000000000", "00000083 daa320ab", "00000000 daa320a7", "80000000 cbd43194"]
    {
        assert_eq!(lead(&hex(nothing)), Lead::Nothing, "{nothing}");
    }
}

#[test]
fn a_size_is_compared_with_the_body_before_it_is_believed() {
    for (born, store) in [("1.2.3.4", "1.2.3.4"), ("::1", "1.2.3.4"), ("1.2.3.4", "::1"), ("::1", "::1")] {
        let (topic, properties) = ("t".repeat(MAX_TOPIC_LEN), "p".repeat(crate::properties::MAX_LEN));
        let hosts = Record { born_host: host(born, 1), store_host: host(store, 2), ..vector() };
        let longest = Record { topic: &topic, properties: &properties, ..hosts };
        let shortest = Record { topic: "", properties: "", body: b"", ..hosts };
        for record in [hosts, longest, shortest] {
            let bytes = encode(&record);
            let head = &bytes[..bytes.len().min(HEAD_LEN)];
            assert_eq!(check_size(head), Ok(()), "{born} {store}");
            for wrong in [0, -1, i32::MAX, bytes.len() as i32 + 40_000, record.body.len() as i32 + 90] {
                let mut head = head.to_vec();
                head[..4].copy_from_slice(&wrong.to_be_bytes());
                assert!(matches!(check_size(&head), Err(RecordError::SizeMismatch { .. })), "{wrong}");
            }
        }
        let mut bytes = encode(&longest);
        let last = bytes.len() as i32;
        bytes[..4].copy_from_slice(&(last + 1).to_be_bytes());
        assert!(check_size(&bytes).is_err(), "no longer record can be");
    }
    assert!(matches!(check_size(&hex(VECTOR)[..80]), Err(RecordError::Short { .. })));
}

#[test]
fn any_shortening_is_an_error() {
    let bytes = hex(VECTOR);
    for end in 0..bytes.len() {
        assert!(matches!(Record::decode(&bytes[..end], Crc::Trust), Err(RecordError::Short { .. })), "{end} bytes");
    }
}

#[test]
fn sizes_that_do_not_add_up() {
    for (at, field) in [(3, "TOTALSIZE"), (87, "BODYLENGTH"), (93, "TOPICLENGTH"), (97, "PROPERTIESLENGTH")] {
        for change in [-1i8, 1] {
            let mut bytes = hex(VECTOR);
            bytes[at] = bytes[at].wrapping_add_signed(change);
            bytes.push(0); // so that a larger TOTALSIZE is not merely short
            let result = Record::decode(&bytes, Crc::Trust);
            let refused = matches!(result, Err(RecordError::SizeMismatch { .. } | RecordError::NegativeLength { .. }));
            assert!(refused, "{field} {change:+}: {result:?}");
        }
    }
    let mut bytes = hex(VECTOR);
    bytes[84] = 0x80;
    assert!(matches!(Record::decode(&bytes, Crc::Trust), Err(RecordError::NegativeLength { field: "body", .. })));
    let mut bytes = hex(VECTOR);
    bytes[0] = 0x80;
    assert!(matches!(Record::decode(&bytes, Crc::Trust), Err(RecordError::SizeMismatch { .. })));
}

#[test]
fn a_flipped_body_bit_shows_only_when_verified() {
    let mut bytes = hex(VECTOR);
    bytes[88] ^= 1;
    assert!(matches!(Record::decode(&bytes, Crc::Verify), Err(RecordError::WrongCrc { stored: 0x3610_a686, .. })));
    assert!(Record::decode(&bytes, Crc::Trust).is_ok());
}

#[test]
fn text_that_is_not_utf8_is_named() {
    let mut bytes = hex(VECTOR);
    bytes[94] = 0xFF;
    assert_eq!(Record::decode(&bytes, Crc::Verify), Err(RecordError::NotUtf8 { field: "topic", total_size: 131 }));
}

#[test]
fn parts_that_do_not_fit_are_refused() {
    let topic = "t".repeat(128);
    assert_eq!(Record { topic: &topic, ..vector() }.check(), Err(RecordError::TopicTooLong { len: 128 }));
    assert_eq!(Record { topic: &topic[1..], ..vector() }.check(), Ok(()));
    let properties = "p".repeat(32768);
    let long = Record { properties: &properties, ..vector() };
    assert_eq!(long.check(), Err(RecordError::PropertiesTooLong { len: 32768 }));
    let fits = Record { properties: &properties[1..], topic: &topic[1..], ..vector() };
    let bytes = encode(&fits);
    assert_eq!(Record::decode(&bytes, Crc::Verify), Ok((fits, bytes.len())));
}

#[test]
#[should_panic(expected = "room for exactly one record")]
fn encoding_into_the_wrong_room_is_a_bug() {
    vector().encode_into(&mut [0; 132]);
}

#[test]
fn a_list_ends_with_its_first_error() {
    let mut bytes = hex(VECTOR);
    bytes.extend(hex(VECTOR));
    assert_eq!(decode_list(&bytes).collect::<Vec<_>>(), [Ok(vector()), Ok(vector())]);
    bytes.extend([0; 100]);
    let all: Vec<_> = decode_list(&bytes).collect();
    assert_eq!(all[..2], [Ok(vector()), Ok(vector())]);
    assert_eq!(all[2..], [Err(RecordError::NotAMessage { magic: 0 })]);
    assert_eq!(decode_list(&[]).count(), 0);
}

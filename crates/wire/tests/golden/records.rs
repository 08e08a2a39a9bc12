//! Records and lists of them.

use wire::compression::{Codec, DEFAULT_LIMIT};
use wire::ids::OffsetId;
use wire::record::{self, Lead};
use wire::{Crc, Record};

use super::files::{Entry, entries};

fn shapes() -> Vec<Entry> {
    let mut shapes = entries("records.json");
    shapes.retain(|entry| entry.text("name") != "list");
    assert!(shapes.len() >= 12);
    shapes
}

fn record<'a>(entry: &'a Entry, body: &'a [u8]) -> Record<'a> {
    Record {
        queue_id: entry.int("queue_id"),
        flag: entry.int("flag"),
        queue_offset: entry.long("queue_offset"),
        physical_offset: entry.long("physical_offset"),
        sys_flag: entry.int("sys_flag"),
        born_timestamp: entry.long("born_timestamp"),
        born_host: entry.host("born_ip", "born_port"),
        store_timestamp: entry.long("store_timestamp"),
        store_host: entry.host("store_ip", "store_port"),
        reconsume_times: entry.int("reconsume_times"),
        prepared_transaction_offset: entry.long("prepared_transaction_offset"),
        body,
        topic: entry.text("topic"),
        properties: entry.text("properties"),
    }
}

#[test]
fn our_records_are_javas() {
    for entry in shapes() {
        let body = entry.bytes("body");
        let record = record(&entry, &body);
        let mut out = vec![0; record.encoded_len()];
        record.encode_into(&mut out);
        assert_eq!(out, entry.bytes("record"), "{}", entry.text("name"));
    }
}

#[test]
fn we_read_what_java_wrote() {
    for entry in shapes() {
        let (bytes, body) = (entry.bytes("record"), entry.bytes("body"));
        let expected = record(&entry, &body);
        assert_eq!(Record::decode(&bytes, Crc::Verify), Ok((expected, bytes.len())), "{}", entry.text("name"));
        assert_eq!(record::lead(&bytes), Lead::Message { total_size: bytes.len() });
        assert_eq!(record::store_timestamp(&bytes), Some(expected.store_timestamp));
        assert_eq!(record::queue_offset(&bytes), Some(expected.queue_offset));
        assert_eq!(record::physical_offset(&bytes), Some(expected.physical_offset));
        assert_eq!(record::sys_flag(&bytes), Some(expected.sys_flag));
    }
}

#[test]
fn bodies_inflate_as_in_java() {
    let mut inflated = 0;
    for entry in shapes() {
        if let Some(codec) = Codec::of(entry.int("sys_flag")).unwrap() {
            let body = codec.decompress(&entry.bytes("body"), DEFAULT_LIMIT).unwrap();
            assert_eq!(body, entry.bytes("inflated"), "{}", entry.text("name"));
            assert!(!entry.is_deterministic());
            inflated += 1;
        }
    }
    assert_eq!(inflated, 4);
}

#[test]
fn a_list_is_records_back_to_back() {
    let all = entries("records.json");
    let list = all.iter().find(|entry| entry.text("name") == "list").unwrap();
    let bytes = list.bytes("list");
    let records: Vec<_> = record::decode_list(&bytes).map(|record| record.unwrap()).collect();
    let topics: Vec<_> = list.list("topics").iter().map(|topic| topic.as_str().unwrap()).collect();
    assert_eq!(records.iter().map(|record| record.topic).collect::<Vec<_>>(), topics);
    let id = |record: &Record<'_>| {
        OffsetId { store_host: record.store_host, physical_offset: record.physical_offset }.encode()
    };
    let ids: Vec<_> = list.list("offset_ids").iter().map(|id| id.as_str().unwrap().to_owned()).collect();
    assert_eq!(records.iter().map(id).collect::<Vec<_>>(), ids);
    assert_eq!(records.len(), shapes().len());
}

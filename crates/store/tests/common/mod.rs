//! A store in a temporary directory, with files so small that a few messages cross their ends.
#![allow(dead_code)] // each suite uses its part

pub mod scanning;

use std::path::{Path, PathBuf};

use store::{Appended, Flush, Host, Limits, Message, Options, ReadRequest, ReadResult, Store};
use tempfile::TempDir;
use wire::{Crc, Record};

pub const HOST: Host = Host { ip: std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), port: 10911 };
pub const T0: i64 = 1_700_000_000_000;

pub fn small() -> Options {
    Options {
        commit_log_file_size: 4096,
        consume_queue_file_size: 20 * 8,
        index_slots: 7,
        index_entries: 20,
        flush: Flush::Sync,
        queue_flush_interval_ms: 10_000,
        ..Options::default()
    }
}

pub fn message<'a>(topic: &'a str, queue_id: i32, body: &'a [u8], properties: &'a str) -> Message<'a> {
    Message {
        topic,
        queue_id,
        flag: 0,
        sys_flag: 0,
        born_timestamp: T0,
        born_host: HOST,
        store_host: HOST,
        reconsume_times: 0,
        prepared_transaction_offset: 0,
        body,
        properties,
    }
}

pub fn append(store: &Store, message: Message<'_>, now_ms: i64) -> Appended {
    let mut results = Vec::new();
    store.append_many(&[message], now_ms, &mut results).expect("append");
    results[0]
}

/// Message number `i`: a body to recognise it by, tags, a unique key, and a user key shared by every tenth.
pub fn body_of(i: usize) -> Vec<u8> {
    format!("message {i} {}", "x".repeat(i * 37 % 300)).into_bytes()
}

pub fn properties_of(i: usize) -> String {
    format!("TAGS\u{1}Tag{}\u{2}UNIQ_KEY\u{1}U{i}\u{2}KEYS\u{1}ten{} k{i}", i % 3, i % 10)
}

pub fn append_numbered(store: &Store, numbers: std::ops::Range<usize>, queues: i32) -> Vec<Appended> {
    numbers
        .map(|i| {
            let (body, properties) = (body_of(i), properties_of(i));
            append(store, message("T", i as i32 % queues, &body, &properties), T0 + i as i64 * 10)
        })
        .collect()
}

pub fn read(store: &Store, topic: &str, queue_id: i32, offset: i64, max_messages: usize) -> ReadResult {
    let limits = Limits { max_messages, max_bytes: 1 << 20 };
    store
        .read(&ReadRequest {
            topic,
            queue_id,
            offset,
            max_messages,
            in_memory: limits,
            on_disk: limits,
            memory_bytes: i64::MAX,
            tags_codes: None,
            filter: None,
            resident_beyond: None,
        })
        .expect("read")
}

/// Bodies of a whole queue; fails on holes, repeats and bad checksums.
pub fn bodies(store: &Store, topic: &str, queue_id: i32) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    let mut offset = store.min_offset(topic, queue_id).expect("min");
    let max = store.max_offset(topic, queue_id).expect("max");
    while offset < max {
        let result = read(store, topic, queue_id, offset, 32);
        for bytes in result.records().map(|record| record.expect("whole")) {
            let (record, size) = Record::decode(bytes, Crc::Verify).expect("whole record");
            assert_eq!(size, bytes.len());
            assert_eq!((record.topic, record.queue_id), (topic, queue_id));
            assert_eq!(record.queue_offset, offset + found_since(&result, bytes));
            found.push(record.body.to_vec());
        }
        assert!(result.next_offset > offset, "{:?}", result.status);
        offset = result.next_offset;
    }
    found
}

fn found_since(result: &ReadResult, bytes: &[u8]) -> i64 {
    result.records().position(|record| record.is_ok_and(|record| std::ptr::eq(record, bytes))).expect("one of them")
        as i64
}

/// Checks that exactly the messages `0..count` are there: in their queues, by key, by physical offset.
pub fn assert_holds(store: &Store, count: usize, queues: i32) {
    for queue_id in 0..queues {
        let expected: Vec<_> = (0..count).filter(|i| *i as i32 % queues == queue_id).map(body_of).collect();
        assert_eq!(bodies(store, "T", queue_id), expected, "queue {queue_id}");
    }
    for i in 0..count {
        let hits = store.query("T", &format!("U{i}"), 64, 0, i64::MAX).expect("query");
        let found = hits.iter().filter(|&&offset| {
            let bytes = store.record_at(offset).expect("record").expect("there");
            Record::decode(&bytes, Crc::Verify).expect("record").0.body == body_of(i)
        });
        assert_eq!(found.count(), 1, "key U{i} among {hits:?}");
    }
}

pub struct Place {
    pub dir: TempDir,
}

impl Place {
    pub fn new() -> Place {
        Place { dir: TempDir::new().expect("temporary directory") }
    }

    /// In a directory that is surely on a disk, which the usual place for temporary files may not be.
    pub fn on_disk() -> Place {
        Place { dir: TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("temporary directory") }
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    pub fn open(&self) -> Store {
        Store::open(self.path(), small()).expect("open")
    }

    pub fn files(&self, below: &str) -> Vec<PathBuf> {
        let mut paths: Vec<_> = std::fs::read_dir(self.path().join(below))
            .map(|entries| entries.map(|entry| entry.expect("entry").path()).collect())
            .unwrap_or_default();
        paths.sort();
        paths
    }
}

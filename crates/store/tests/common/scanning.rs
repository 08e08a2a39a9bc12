//! Scans of a store's directory for the tests: cut anywhere, each piece read by itself.

use std::collections::HashMap;
use std::os::unix::fs::FileExt;
use std::path::Path;

use store::scan::{LogRange, QueueWish, RangeScan, ScanReport, Seen, Selection, Snapshot};
use store::{Options, Store, StoreError};
use wire::Crc;

use super::{Place, T0, append, message, properties_of, small};

pub fn snapshot(place: &Place) -> Snapshot {
    Snapshot::take(place.path(), &[]).expect("snapshot")
}

/// The ranges cut into pieces of `len` bytes, wherever that falls.
pub fn cut(ranges: Vec<LogRange>, len: u64) -> Vec<LogRange> {
    let mut pieces = Vec::new();
    for range in ranges {
        let mut start = range.start;
        while start < range.end {
            let end = (start + len).min(range.end);
            pieces.push(LogRange { start, end, aligned: range.aligned && start == range.start });
            start = end;
        }
    }
    pieces
}

/// Reads each piece by itself, as tasks on different machines would.
pub fn read(snapshot: &Snapshot, pieces: Vec<LogRange>, selection: &Selection) -> (Vec<Vec<u8>>, ScanReport) {
    let (mut bodies, mut total) = (Vec::new(), ScanReport::default());
    for piece in pieces {
        let mut scan = RangeScan::new(snapshot.log_files.clone(), snapshot.log_end, vec![piece], Crc::Verify);
        scan.run::<StoreError>(|visit| {
            if selection.wants(visit.record) {
                bodies.push(visit.record.body.to_vec());
            }
            Ok(Seen::Next)
        })
        .expect("scan");
        total.records += scan.report().records;
        total.bytes += scan.report().bytes;
        total.damaged += scan.report().damaged;
        total.absent += scan.report().absent;
        total.damaged_bytes += scan.report().damaged_bytes;
        total.damages.extend(scan.report().damages.clone());
    }
    (bodies, total)
}

pub fn overwrite(place: &Place, physical_offset: u64, bytes: &[u8]) {
    let path = place.files("commitlog").into_iter().rfind(|path| start_of(path) <= physical_offset).expect("a file");
    let file = std::fs::OpenOptions::new().write(true).open(&path).expect("open");
    file.write_all_at(bytes, physical_offset - start_of(&path)).expect("write");
}

pub fn start_of(path: &Path) -> u64 {
    path.file_name().expect("name").to_str().expect("text").parse().expect("digits")
}

pub const CUTS: [u64; 6] = [1, 97, 256, 1000, 4096, u64::MAX / 2];

pub fn large_options() -> Options {
    Options { commit_log_file_size: 4 << 20, index_slots: 100, index_entries: 2000, ..small() }
}

/// Two topics one after the other, then mixed; ten seconds and 10 KB a message, so that granules and clock margins show.
pub fn large(place: &Place) -> Vec<(&'static str, i64)> {
    let store = Store::open(place.path(), large_options()).expect("open");
    let mut stored = Vec::new();
    for i in 0..1000usize {
        let topic = if i < 400 || i % 2 == 0 { "first" } else { "second" };
        let (body, properties) = ([format!("{i} ").into_bytes(), vec![b'x'; 10_000]].concat(), properties_of(i));
        let stored_ms = T0 + i as i64 * 10_000;
        append(&store, message(topic, (i % 4) as i32, &body, &properties), stored_ms);
        stored.push((topic, stored_ms));
    }
    store.close().expect("close");
    stored
}

pub fn numbers(bodies: &[Vec<u8>]) -> Vec<usize> {
    let number = |body: &Vec<u8>| std::str::from_utf8(body).expect("text").split(' ').next().expect("number").parse();
    bodies.iter().map(|body| number(body).expect("a number")).collect()
}

/// What is wanted of one topic.
pub fn of_topic(topic: &str, queues: Option<HashMap<i32, QueueWish>>) -> Selection {
    Selection { topics: Some(HashMap::from([(topic.to_string(), queues)])), ..Selection::default() }
}

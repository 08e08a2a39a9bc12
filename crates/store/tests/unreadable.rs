//! Pages that cannot be read. A file that is cut while it is mapped answers reads as a bad sector does: with SIGBUS.

mod common;

use std::fs::OpenOptions;
use std::path::Path;
use std::time::Duration;

use common::*;
use store::{Appended, Options, ReadStatus, Store, StoreError};

const PAGE: i64 = 4096;

fn open(place: &Place) -> Store {
    Store::open(place.path(), Options { commit_log_file_size: 1 << 20, consume_queue_file_size: 20 * 1000, ..small() })
        .expect("open")
}

fn filled(place: &Place, count: usize) -> (Store, Vec<Appended>) {
    let store = open(place);
    let stored = append_numbered(&store, 0..count, 1);
    assert!(store.wait_flushed(stored[count - 1].end(), Duration::from_secs(10)).expect("flush"));
    (store, stored)
}

fn cut(path: &Path, len: i64) {
    OpenOptions::new().write(true).open(path).expect("open").set_len(len as u64).expect("cut");
}

fn log_file(place: &Place) -> std::path::PathBuf {
    place.path().join("commitlog/00000000000000000000")
}

#[test]
fn a_message_on_a_page_that_cannot_be_read_is_an_error_and_the_others_are_read() {
    let place = Place::new();
    let (store, stored) = filled(&place, 200);
    cut(&log_file(&place), 3 * PAGE);
    let (mut whole, mut lost) = (0, 0);
    for (i, one) in stored.iter().enumerate() {
        let result = read(&store, "T", 0, i as i64, 1);
        let record = result.records().next().expect("a message");
        if one.end() <= 3 * PAGE {
            assert_eq!(record.expect("whole").len(), one.size as usize);
            whole += 1;
        } else {
            let error = record.expect_err("no bytes");
            let StoreError::Corrupt { path, offset, .. } = &error else { panic!("{error}") };
            assert_eq!((path, *offset), (&log_file(&place), one.physical_offset.max(3 * PAGE) as u64));
            assert!(store.record_at(one.physical_offset).is_err());
            lost += 1;
        }
    }
    assert!(whole > 10 && lost > 10, "{whole} {lost}");
}

#[test]
fn a_queue_that_cannot_be_read_is_an_error_too() {
    let place = Place::new();
    let (store, _) = filled(&place, 400);
    cut(&place.path().join("consumequeue/T/0/00000000000000000000"), PAGE);
    assert_eq!(read(&store, "T", 0, 0, 1).status, ReadStatus::Found, "the units that are looked at");
    assert!(store.unit_at("T", 0, 300).is_err());
}

#[test]
fn what_is_written_to_a_page_that_was_lost_is_not_acknowledged() {
    let place = Place::new();
    let (store, stored) = filled(&place, 100);
    let end = stored[99].end();
    cut(&log_file(&place), end / PAGE * PAGE);
    assert!(store.record_at(stored[99].physical_offset).is_err());
    let mut results = Vec::new();
    let body = body_of(1);
    let written = store.append_many(&[message("T", 0, &body, "")], T0, &mut results);
    let acknowledged = written.and_then(|()| store.wait_flushed(results[0].end(), Duration::from_secs(10)));
    assert!(acknowledged.is_err(), "{acknowledged:?}");
    let refused = store.append_many(&[message("T", 0, &body, "")], T0, &mut results);
    assert!(matches!(refused, Err(StoreError::FlushFailed { .. })), "{refused:?}");
}

//! Power cuts on machines whose clock was wrong: what recovery believes must not hang on store times.

mod common;

use std::path::Path;
use std::time::Duration;

use common::*;
use store::{Options, Store};

const DAY_MS: i64 = 24 * 3_600_000;

fn copy_tree(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("create");
    for entry in std::fs::read_dir(from).expect("list") {
        let path = entry.expect("entry").path();
        let target = to.join(path.file_name().expect("name"));
        if path.is_dir() { copy_tree(&path, &target) } else { std::fs::copy(&path, &target).map(drop).expect("copy") }
    }
}

fn append_at(store: &Store, numbers: std::ops::Range<usize>, now_ms: impl Fn(usize) -> i64) {
    for i in numbers {
        let (body, properties) = (body_of(i), properties_of(i));
        append(store, message("T", i as i32 % 3, &body, &properties), now_ms(i));
    }
    let end = store.max_physical_offset().expect("end");
    assert!(store.wait_flushed(end, Duration::from_secs(10)).expect("flush"));
}

fn open(place: &Place, index_enabled: bool) -> Store {
    Store::open(place.path(), Options { index_enabled, ..small() }).expect("open")
}

/// Messages up to `vouched` are on disk with their queues and the index, of the others only the log is.
fn power_cut(index_enabled: bool, vouched: usize, count: usize, now_ms: impl Fn(usize) -> i64) -> Place {
    let place = Place::new();
    let store = open(&place, index_enabled);
    append_at(&store, 0..vouched, &now_ms);
    store.close().expect("close"); // writes the checkpoint
    let kept = tempfile::tempdir().expect("directory");
    for name in ["consumequeue", "index"] {
        std::fs::create_dir_all(place.path().join(name)).expect("create");
        copy_tree(&place.path().join(name), &kept.path().join(name));
    }
    let checkpoint = std::fs::read(place.path().join("checkpoint")).expect("read");
    let store = open(&place, index_enabled);
    append_at(&store, vouched..count, &now_ms);
    drop(store);
    for name in ["consumequeue", "index"] {
        std::fs::remove_dir_all(place.path().join(name)).expect("remove");
        copy_tree(&kept.path().join(name), &place.path().join(name));
    }
    std::fs::write(place.path().join("checkpoint"), checkpoint).expect("write");
    place
}

fn assert_survives(now_ms: impl Fn(usize) -> i64) {
    let place = power_cut(true, 50, 450, &now_ms);
    assert_holds(&place.open(), 450, 3);
    // Without an index nothing but the queues' own trusted point makes recovery read the log.
    let place = power_cut(false, 50, 450, &now_ms);
    let store = open(&place, false);
    for queue_id in 0..3 {
        let expected: Vec<_> = (0..450).filter(|i| i % 3 == queue_id).map(body_of).collect();
        assert_eq!(bodies(&store, "T", queue_id as i32), expected, "queue {queue_id}");
    }
}

#[test]
fn all_flushed_messages_are_readable_after_the_clock_was_set_back() {
    assert_survives(|i| if i < 50 { T0 + i as i64 } else { T0 - DAY_MS + i as i64 });
}

#[test]
fn all_flushed_messages_are_readable_after_the_clock_was_ahead_once() {
    assert_survives(|i| if i == 20 { T0 + DAY_MS } else { T0 + i as i64 });
}

#[test]
fn queues_are_read_again_from_the_file_of_the_checkpoint_and_not_from_the_beginning() {
    let place = power_cut(true, 150, 450, |i| T0 - i as i64);
    let store = place.open();
    assert!(store.recovery().scanned_from > 4096, "{:?}", store.recovery());
    assert_holds(&store, 450, 3);
}

#[test]
fn a_checkpoint_of_another_log_vouches_for_nothing() {
    // What a backup of the log and a newer checkpoint look like: the record that the checkpoint names is another one.
    let place = power_cut(true, 50, 450, |i| T0 + i as i64);
    let newer = power_cut(true, 200, 210, |i| T0 + i as i64 + 7);
    std::fs::copy(newer.path().join("checkpoint"), place.path().join("checkpoint")).expect("copy");
    assert_holds(&place.open(), 450, 3);
}

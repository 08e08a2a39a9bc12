//! Bad input and bad disks: each a typed error that names the file, and nothing else is harmed.

mod common;

use std::sync::atomic::{AtomicBool, Ordering};

use common::*;
use store::{CleanRules, Flush, Options, ReadStatus, Store, StoreError};

fn refusal(place: &Place) -> StoreError {
    Store::open(place.path(), small()).expect_err("must not open")
}

fn closed_with(count: usize) -> Place {
    let place = Place::new();
    let store = place.open();
    append_numbered(&store, 0..count, 2);
    store.close().expect("close");
    place
}

#[test]
fn a_second_store_on_the_directory_is_told_who_holds_it() {
    let place = Place::new();
    let store = place.open();
    match refusal(&place) {
        StoreError::Locked { path, holder } => {
            assert_eq!(path, place.path().join("lock"));
            assert_eq!(holder, Some(std::process::id() as i32));
        }
        other => panic!("{other}"),
    }
    store.close().expect("close");
    place.open();
}

/// Messages `0..count` are in two queues, whatever became of the index.
fn assert_queues_hold(store: &Store, count: usize) {
    for i in 0..count {
        let found = read(store, "T", i as i32 % 2, i as i64 / 2, 1);
        let record = found.records().next().expect("a record").expect("readable");
        assert_eq!(wire::Record::decode(record, wire::Crc::Verify).expect("whole").0.body, body_of(i));
    }
}

#[test]
fn a_damaged_index_header_costs_entries_and_nothing_else() {
    for (at, bytes) in [
        (36, i32::MAX.to_be_bytes().to_vec()),
        (36, (-1i32).to_be_bytes().to_vec()),
        (36, 21i32.to_be_bytes().to_vec()),
        (32, i32::MAX.to_be_bytes().to_vec()),
        (0, i64::MAX.to_be_bytes().to_vec()),
        (0, i64::MIN.to_be_bytes().to_vec()),
        (8, i64::MIN.to_be_bytes().to_vec()),
        (24, i64::MAX.to_be_bytes().to_vec()),
        (24, i64::MIN.to_be_bytes().to_vec()),
        (40, [0x7f, 0xff, 0xff, 0xfe].repeat(7)),
        (40 + 28, vec![0xff; 20 * 20]),
        (40 + 28, vec![0x7f; 20 * 20]),
        (0, vec![0xff; 40 + 28 + 20 * 20]),
        (0, vec![0x7f; 40 + 28 + 20 * 20]),
    ] {
        let place = Place::new();
        let store = place.open();
        append_numbered(&store, 0..4, 2);
        let [file] = place.files("index").try_into().expect("one index file");
        let open = std::fs::OpenOptions::new().write(true).open(file).expect("open");
        std::os::unix::fs::FileExt::write_all_at(&open, &bytes, at).expect("damage");
        store.query("T", "k1", 64, 0, i64::MAX).expect("query");
        append_numbered(&store, 4..20, 2);
        for i in 0..20 {
            store.query("T", &format!("k{i}"), 64, 0, i64::MAX).expect("query");
        }
        assert_queues_hold(&store, 20);
        store.close().expect("close");
        let store = place.open();
        append_numbered(&store, 20..30, 2);
        assert_queues_hold(&store, 30);
        drop(store);
        assert_queues_hold(&place.open(), 30);
    }
}

#[test]
fn files_of_another_size_foreign_files_and_gaps_are_named() {
    let place = closed_with(60);
    let log = place.files("commitlog");
    std::fs::OpenOptions::new().write(true).open(&log[1]).and_then(|f| f.set_len(4000)).expect("shorten");
    assert!(
        matches!(refusal(&place), StoreError::WrongFileSize { path, expected: 4096, actual: 4000 } if path == log[1])
    );

    let place = closed_with(60);
    let stray = place.path().join("commitlog/notes.txt");
    std::fs::write(&stray, "hello").expect("write");
    assert!(matches!(refusal(&place), StoreError::StrayFile { path } if path == stray));

    let place = closed_with(60);
    let log = place.files("commitlog");
    std::fs::remove_file(&log[1]).expect("remove");
    assert!(matches!(refusal(&place), StoreError::MissingFile { path } if path == log[1]));

    let place = closed_with(60);
    let queue = place.files("consumequeue/T/0");
    std::fs::remove_file(&queue[1]).expect("remove");
    assert!(matches!(refusal(&place), StoreError::MissingFile { path } if path == queue[1]));

    let place = closed_with(5);
    std::fs::write(place.path().join("checkpoint"), "short").expect("write");
    assert!(matches!(refusal(&place), StoreError::WrongFileSize { expected: 4096, actual: 5, .. }));
}

#[test]
fn a_refused_opening_leaves_the_directory_unlocked() {
    let place = closed_with(10);
    let stray = place.path().join("commitlog/notes.txt");
    std::fs::write(&stray, "hello").expect("write");
    refusal(&place);
    std::fs::remove_file(stray).expect("remove");
    assert_holds(&place.open(), 10, 2);
}

#[test]
fn messages_past_a_limit_are_refused_and_the_others_stay() {
    let place = Place::new();
    let store = place.open();
    let mut results = Vec::new();
    let (long_topic, long_properties, big) = ("t".repeat(128), "p".repeat(40_000), vec![0; 4096]);
    let good = message("T", 0, b"good", "");
    let too_large = store.append_many(&[good, message("T", 0, &big, ""), good], T0, &mut results);
    assert!(matches!(too_large, Err(StoreError::RecordTooLarge { size: 4188, limit: 4088, .. })), "{too_large:?}");
    assert_eq!(results.len(), 1, "what came before is in");
    for bad in [
        message(&long_topic, 0, b"", ""),
        message("", 0, b"", ""),
        message("..", 0, b"", ""),
        message("a/b", 0, b"", ""),
        message("T", -1, b"", ""),
    ] {
        let refused = store.append_many(&[bad], T0, &mut results);
        assert!(matches!(refused, Err(StoreError::InvalidMessage { .. })), "{refused:?}");
    }
    let refused = store.append_many(&[message("T", 0, b"", &long_properties)], T0, &mut results);
    assert!(matches!(refused, Err(StoreError::RecordTooLarge { .. } | StoreError::InvalidMessage { .. })));
    assert_eq!(bodies(&store, "T", 0), [b"good"]);
}

#[test]
fn a_unit_that_points_nowhere_is_an_error_and_not_garbage() {
    let place = closed_with(10);
    let log = place.path().join("commitlog/00000000000000000000");
    std::os::unix::fs::FileExt::write_all_at(
        &std::fs::OpenOptions::new().write(true).open(&log).expect("open"),
        &[0; 8],
        0,
    )
    .expect("write");
    let store = place.open();
    let limits = store::Limits { max_messages: 32, max_bytes: 1 << 20 };
    let found = store
        .read(&store::ReadRequest {
            topic: "T",
            queue_id: 0,
            offset: 0,
            max_messages: 32,
            in_memory: limits,
            on_disk: limits,
            memory_bytes: i64::MAX,
            tags_codes: None,
            filter: None,
            resident_beyond: None,
        })
        .expect("read");
    let damaged = found.records().next().expect("one message");
    assert!(matches!(damaged, Err(StoreError::Corrupt { path, offset: 0, .. }) if path == log));
}

#[test]
fn options_no_store_could_have_are_refused() {
    let place = Place::new();
    for bad in [
        Options { commit_log_file_size: 100, ..small() },
        Options { consume_queue_file_size: 0, ..small() },
        Options { index_slots: 0, ..small() },
        Options { index_entries: 200_000_000, ..small() },
        Options { delay_levels_ms: vec![-1], ..small() },
    ] {
        assert!(matches!(Store::open(place.path(), bad), Err(StoreError::InvalidOptions { .. })));
    }
    let rounded = Options { consume_queue_file_size: 150, ..small() };
    let store = Store::open(place.path(), rounded).expect("rounded up to 160");
    append_numbered(&store, 0..1, 1);
    assert_eq!(place.files("consumequeue/T/0")[0].metadata().expect("file").len(), 160);
}

#[test]
fn a_closed_store_says_so() {
    let place = Place::new();
    let store = place.open();
    store.close().expect("close");
    store.close().expect("closing twice is fine");
    assert!(matches!(store.max_physical_offset(), Err(StoreError::Closed { path }) if path == place.path()));
}

#[test]
fn expired_files_go_with_all_that_pointed_into_them() {
    let place = Place::new();
    let store = place.open();
    append_numbered(&store, 0..200, 2);
    let rules = CleanRules { reserved_ms: 1000, max_log_files: 3, ..CleanRules::default() };
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("clock").as_millis() as i64;
    let mut logs = place.files("commitlog"); // the next one may be made at any moment
    logs.sort();

    assert_eq!(store.clean(&rules, now, true, Some(0.1)).expect("clean").log_files, 0, "too young");
    assert_eq!(store.clean(&rules, now + 60_000, false, Some(0.1)).expect("clean").log_files, 0, "not due");
    let cleaned = store.clean(&rules, now + 60_000, true, Some(0.1)).expect("clean");
    assert_eq!(cleaned.log_files, 3);
    assert!(cleaned.index_files > 0);
    assert_eq!(logs.iter().filter(|file| !file.exists()).collect::<Vec<_>>(), logs[..3].iter().collect::<Vec<_>>());
    assert_eq!(store.clean(&rules, now + 60_000, false, Some(0.8)).expect("clean").log_files, 3, "space is short");
    assert_eq!(store.clean(&rules, now, false, Some(0.86)).expect("clean").log_files, 3, "space is very short");

    let min = store.min_offset("T", 0).expect("min");
    assert!(min > 0);
    assert!(place.files("consumequeue/T/0")[0].file_name().expect("name").to_str() > Some("00000000000000000000"));
    assert_eq!(bodies(&store, "T", 0), (min as usize..100).map(|i| body_of(i * 2)).collect::<Vec<_>>());
    assert!(store.query("T", "U0", 64, 0, i64::MAX).expect("query").is_empty());
    drop(store);
    let store = place.open();
    assert_eq!(store.min_offset("T", 0).expect("min"), min);
    for _ in 0..100 {
        store.clean(&rules, now, true, Some(0.99)).expect("clean");
    }
    assert_eq!(place.files("commitlog").len(), 1, "the file being written stays");
}

/// Java drops a log file first and tells its queues afterwards; in between readers step over what is missing.
#[test]
fn a_reader_is_never_led_past_messages_that_expire_while_it_reads() {
    let (queues, per_queue) = (200, 12);
    let place = Place::new();
    let store = Store::open(place.path(), Options { flush: Flush::Async, ..small() }).expect("open");
    append_numbered(&store, 0..queues * per_queue, queues as i32);
    let rules = CleanRules { reserved_ms: 0, max_log_files: 10, ..CleanRules::default() };
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while store.clean(&rules, i64::MAX / 2, true, Some(0.1)).expect("clean").log_files > 0 {}
            done.store(true, Ordering::Release);
        });
        while !done.load(Ordering::Acquire) {
            for queue_id in 0..queues as i32 {
                let result = read(&store, "T", queue_id, 0, per_queue);
                let passed = if result.status == ReadStatus::Found { result.next_offset } else { 0 };
                assert_eq!(result.len() as i64, passed, "{:?} of queue {queue_id}", result.status);
                assert!(matches!(result.status, ReadStatus::Found | ReadStatus::OffsetTooSmall));
            }
        }
    });
    // Queues all of whose messages are gone say so, too, also to who opens the store anew.
    let ends = |store: &Store| (0..queues as i32).map(|q| store.min_offset("T", q).expect("min")).collect::<Vec<_>>();
    let minima = ends(&store);
    assert!(minima.contains(&(per_queue as i64)));
    assert!(minima.iter().any(|min| *min < per_queue as i64));
    store.close().expect("close");
    assert_eq!(ends(&place.open()), minima);
}

#[test]
fn appends_are_refused_while_the_disk_is_too_full() {
    let place = Place::new();
    let store = place.open();
    append_numbered(&store, 0..1, 1);
    let rules = CleanRules::default();
    store.clean(&rules, T0, false, Some(0.95)).expect("clean");
    let refused = store.append_many(&[message("T", 0, b"x", "")], T0, &mut Vec::new());
    assert!(matches!(refused, Err(StoreError::DiskFull { .. })));
    store.clean(&rules, T0, false, Some(0.5)).expect("clean");
    append_numbered(&store, 1..2, 1);
    assert_holds(&store, 2, 1);
}

#[test]
fn a_removed_topic_has_no_queue_and_can_begin_again() {
    let place = Place::new();
    let store = place.open();
    append_numbered(&store, 0..20, 2);
    append(&store, message("other", 0, b"stays", ""), T0);
    assert_eq!(store.remove_topic("T").expect("remove"), 2);
    assert!(!place.path().join("consumequeue/T").exists());
    assert_eq!(store.queues().expect("queues"), [("other".to_string(), 0)]);
    assert_eq!(append(&store, message("T", 0, b"again", ""), T0).queue_offset, 0);
    assert_eq!(store.remove_expired_queues("").expect("remove"), 0, "their messages are still in the log");
    store.close().expect("close");
    let store = place.open();
    assert_eq!(bodies(&store, "T", 0), [b"again"]);
    assert_eq!(bodies(&store, "other", 0), [b"stays"]);
}

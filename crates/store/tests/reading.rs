//! By queue offset, by time, by key.

mod common;

use common::*;
use store::{Limits, Options, ReadRequest, ReadStatus, Store};
use wire::filter::Filter;

#[test]
fn every_message_is_found_across_file_ends_and_after_reopening() {
    let place = Place::new();
    let store = place.open();
    append_numbered(&store, 0..100, 3);
    assert_holds(&store, 100, 3);
    store.close().expect("close");
    let store = place.open();
    assert!(store.recovery().clean_exit && store.recovery().rebuilt == 0, "{:?}", store.recovery());
    assert_holds(&store, 100, 3);
    append_numbered(&store, 100..150, 3);
    assert_holds(&store, 150, 3);
}

#[test]
fn statuses_and_next_offsets_are_javas() {
    let place = Place::new();
    let store = place.open();
    let ask = |offset| {
        let result = read(&store, "T", 0, offset, 32);
        (result.status, result.next_offset)
    };
    assert_eq!(ask(5), (ReadStatus::NoMessageInQueue, 0));
    append_numbered(&store, 0..20, 1);
    assert_eq!(ask(20), (ReadStatus::OffsetOverflowOne, 20));
    assert_eq!(ask(21), (ReadStatus::OffsetOverflowBadly, 20));
    assert_eq!(ask(-1), (ReadStatus::OffsetTooSmall, 0));
    assert_eq!(ask(0), (ReadStatus::Found, 8), "an answer ends with the queue file");
    assert_eq!(ask(19), (ReadStatus::Found, 20));
}

#[test]
fn limits_and_tags_choose_what_is_given() {
    let place = Place::new();
    let store = place.open();
    for i in 0..6 {
        append(&store, message("T", 0, &[b'x'; 100], if i % 2 == 0 { "TAGS\u{1}a" } else { "TAGS\u{1}b" }), T0);
    }
    let generous = Limits { max_messages: 32, max_bytes: 1 << 20 };
    let request = ReadRequest {
        topic: "T",
        queue_id: 0,
        offset: 0,
        max_messages: 32,
        in_memory: generous,
        on_disk: Limits { max_messages: 2, max_bytes: 1 << 20 },
        memory_bytes: i64::MAX,
        tags_codes: None,
        filter: None,
        resident_beyond: None,
    };
    let ask = |request: ReadRequest<'_>| {
        let result = store.read(&request).expect("read");
        (result.status, result.len(), result.next_offset)
    };
    assert_eq!(ask(request), (ReadStatus::Found, 6, 6));
    assert_eq!(ask(ReadRequest { max_messages: 4, ..request }), (ReadStatus::Found, 4, 4));
    let tight = Limits { max_messages: 32, max_bytes: 450 };
    assert_eq!(ask(ReadRequest { in_memory: tight, ..request }), (ReadStatus::Found, 2, 2));
    let nothing = Limits { max_messages: 32, max_bytes: 1 };
    assert_eq!(
        ask(ReadRequest { in_memory: nothing, ..request }),
        (ReadStatus::Found, 1, 1),
        "the first is always given"
    );
    assert_eq!(
        ask(ReadRequest { memory_bytes: 0, ..request }),
        (ReadStatus::Found, 2, 2),
        "far behind: the disk's limits"
    );
    let tag_b = [i64::from(b'b')];
    assert_eq!(ask(ReadRequest { tags_codes: Some(&tag_b), ..request }), (ReadStatus::Found, 3, 6));
    assert_eq!(ask(ReadRequest { tags_codes: Some(&[1]), ..request }), (ReadStatus::NoMatchedMessage, 0, 6));
    let of_a = Filter::compile("TAGS = 'a'").unwrap();
    assert_eq!(ask(ReadRequest { filter: Some(&of_a), max_messages: 2, ..request }), (ReadStatus::Found, 2, 3));
    let of_none = Filter::compile("TAGS > 1").unwrap();
    assert_eq!(ask(ReadRequest { filter: Some(&of_none), ..request }), (ReadStatus::NoMatchedMessage, 0, 6));
}

#[test]
fn a_read_with_a_dear_filter_ends_early_and_goes_on_where_it_ended() {
    let place = Place::new();
    let options = Options { commit_log_file_size: 1 << 20, consume_queue_file_size: 20 * 100, ..small() };
    let store = Store::open(place.path(), options).expect("open");
    let dear = format!("a\u{1}1{}", "0".repeat(30_000));
    for _ in 0..10 {
        append(&store, message("T", 0, b"dear", &dear), T0);
    }
    append(&store, message("T", 0, b"wanted", "a\u{1}6"), T0);
    let filter = Filter::compile(&vec!["a > 5.0"; 2000].join(" AND ")).unwrap();
    let limits = Limits { max_messages: 32, max_bytes: 1 << 20 };
    let mut reads = Vec::new();
    let mut offset = 0;
    loop {
        let result = store
            .read(&ReadRequest {
                topic: "T",
                queue_id: 0,
                offset,
                max_messages: 32,
                in_memory: limits,
                on_disk: limits,
                memory_bytes: i64::MAX,
                tags_codes: None,
                filter: Some(&filter),
                resident_beyond: None,
            })
            .expect("read");
        assert!(result.next_offset > offset, "each read makes progress");
        offset = result.next_offset;
        reads.push(result.status);
        if result.status == ReadStatus::Found {
            assert_eq!((result.len(), offset), (1, 11));
            break;
        }
    }
    assert!(reads.len() > 3, "{reads:?}");
    assert!(reads[..reads.len() - 1].iter().all(|status| *status == ReadStatus::NoMatchedMessage), "{reads:?}");
}

#[test]
fn time_lookup_finds_the_message_or_its_nearest_neighbour() {
    let place = Place::new();
    let store = place.open();
    for time in [100, 200, 300, 400, 500] {
        append(&store, message("T", 0, b"x", ""), T0 + time);
    }
    let at = |time| store.offset_by_time("T", 0, T0 + time).expect("lookup");
    assert_eq!(at(0), 0);
    assert_eq!(at(200), 1);
    assert_eq!(at(249), 1);
    assert_eq!(at(250), 1, "a tie goes to the earlier one");
    assert_eq!(at(251), 2);
    assert_eq!(at(9999), 4, "the future gives the last message");
    assert_eq!(store.offset_by_time("T", 7, T0).expect("lookup"), 0);
    assert_eq!(store.earliest_store_time("T", 0).expect("time"), Some(T0 + 100));
}

#[test]
fn time_lookup_crosses_queue_files() {
    let place = Place::new();
    let store = place.open();
    append_numbered(&store, 0..50, 1);
    for i in 0..50 {
        assert_eq!(store.offset_by_time("T", 0, T0 + i * 10).expect("lookup"), i);
        // Between the last message of one file and the first of the next, the next one's file is searched, as in Java.
        let nearest = if i % 8 == 7 && i < 49 { i + 1 } else { i };
        assert_eq!(store.offset_by_time("T", 0, T0 + i * 10 + 4).expect("lookup"), nearest);
    }
}

#[test]
fn time_lookup_believes_modification_times_that_writing_can_have_made() {
    let place = Place::new();
    let store = place.open();
    append_numbered(&store, 0..24, 1);
    let first = place.files("consumequeue/T/0").into_iter().min().expect("a queue file");
    let modified = |ms: i64| {
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_millis(ms as u64);
        std::fs::File::open(&first).and_then(|file| file.set_modified(time)).expect("set the time");
    };
    let last_of_first = T0 + 70;
    modified(last_of_first - 1);
    assert_eq!(store.offset_by_time("T", 0, last_of_first).expect("lookup"), 8, "the second file begins there");
    modified(last_of_first + 1_000_000);
    assert_eq!(store.offset_by_time("T", 0, T0 + 150).expect("lookup"), 15, "a restored file says nothing");
}

#[test]
fn keys_are_found_within_their_time_range_and_across_index_files() {
    let place = Place::new();
    let store = place.open();
    let appended = append_numbered(&store, 0..100, 3);
    assert!(place.files("index").len() > 5);
    let found = store.query("T", "ten4", 64, 0, i64::MAX).expect("query");
    let expected: Vec<_> = (0..100).filter(|i| i % 10 == 4).map(|i| appended[i].physical_offset).collect();
    for offset in &expected {
        assert!(found.contains(offset));
    }
    assert!(found.is_sorted());
    assert_eq!(store.query("T", "ten4", 3, 0, i64::MAX).expect("query").len(), 3);
    assert!(store.query("other topic", "no such key", 64, 0, i64::MAX).expect("query").is_empty());
    assert!(store.query("T", "ten4", 64, 0, T0 - 5000).expect("query").is_empty());
    assert!(store.query("T", "ten4", 64, T0 + 60_000, i64::MAX).expect("query").is_empty());
}

#[test]
fn a_record_is_only_given_where_one_begins() {
    let place = Place::new();
    let store = place.open();
    let first = append(&store, message("T", 0, b"one", ""), T0);
    assert!(store.record_at(0).expect("read").is_some());
    assert!(store.record_at(1).expect("read").is_none());
    assert!(store.record_at(-1).expect("read").is_none());
    assert!(store.record_at(first.end()).expect("read").is_none());
    assert!(store.record_at(1 << 40).expect("read").is_none());
}

#[test]
fn readers_see_only_whole_messages_while_a_writer_appends() {
    let place = Place::new();
    let store: Store = place.open();
    let count = 2000;
    std::thread::scope(|scope| {
        scope.spawn(|| append_numbered(&store, 0..count, 1));
        scope.spawn(|| {
            let mut offset = 0;
            while offset < count as i64 {
                let result = read(&store, "T", 0, offset, 32);
                for (i, bytes) in result.records().map(|record| record.expect("whole")).enumerate() {
                    let (record, _) = wire::Record::decode(bytes, wire::Crc::Verify).expect("whole record");
                    assert_eq!(record.body, body_of(offset as usize + i));
                }
                offset = result.next_offset;
            }
        });
    });
}

#[test]
fn who_must_not_wait_for_the_disk_is_told_to_ask_from_elsewhere() {
    let place = Place::on_disk();
    let store = place.open();
    append_numbered(&store, 0..200, 1);
    store.close().expect("close");
    // Only pages that nobody maps and that are clean can be dropped from memory; the store is closed and flushed.
    for path in place.files("commitlog").iter().chain(&place.files("consumequeue/T/0")) {
        let file = std::fs::File::open(path).expect("open");
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).expect("fadvise");
    }
    let store = place.open();
    let limits = Limits { max_messages: 8, max_bytes: 1 << 20 };
    let request = ReadRequest {
        topic: "T",
        queue_id: 0,
        offset: 80,
        max_messages: 8,
        in_memory: limits,
        on_disk: limits,
        memory_bytes: i64::MAX,
        tags_codes: None,
        filter: None,
        resident_beyond: Some(0),
    };
    let first = store.read(&request).expect("read");
    assert_eq!((first.status, first.next_offset), (ReadStatus::NotResident, 80));
    let from_disk = store.read(&ReadRequest { resident_beyond: None, ..request }).expect("read");
    assert_eq!((from_disk.status, from_disk.len()), (ReadStatus::Found, 8));
    from_disk.copy_into(&mut Vec::new()).expect("whole records");
    let now_in_memory = store.read(&request).expect("read");
    assert_eq!((now_in_memory.status, now_in_memory.len()), (ReadStatus::Found, 8));
    assert_eq!(store.read(&ReadRequest { resident_beyond: Some(i64::MAX), ..request }).expect("read").len(), 8);
}

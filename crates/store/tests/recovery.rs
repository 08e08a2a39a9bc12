//! What is left after a crash, a power cut, and a Java broker that does not erase.

mod common;

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use common::*;
use store::{Appended, Store};
use wire::{Crc, Record};

fn overwrite(path: &Path, at: u64, bytes: &[u8]) {
    OpenOptions::new().write(true).open(path).expect("open").write_all_at(bytes, at).expect("write");
}

/// Fills `[from, end of its file)` of the log, which is what a lost or torn tail looks like.
fn overwrite_log_tail(place: &Place, from: i64, byte: impl Fn(u64) -> u8) {
    let file = place.path().join(format!("commitlog/{:020}", from / 4096 * 4096));
    let at = from as u64 % 4096;
    let bytes: Vec<u8> = (at..4096).map(byte).collect();
    overwrite(&file, at, &bytes);
}

fn crashed(count: usize) -> Place {
    let place = Place::new();
    let store = place.open();
    append_numbered(&store, 0..count, 3);
    drop(store); // without close: `abort` stays
    place
}

#[test]
fn a_store_that_was_not_closed_has_everything() {
    let place = crashed(100);
    let store = place.open();
    assert!(!store.recovery().clean_exit);
    assert_holds(&store, 100, 3);
    append_numbered(&store, 100..130, 3);
    store.close().expect("close");
    assert_holds(&place.open(), 130, 3);
}

#[test]
fn lost_queues_and_index_are_rebuilt_from_the_log() {
    for clean in [true, false] {
        let place = Place::new();
        let store = place.open();
        append_numbered(&store, 0..60, 3);
        if clean {
            store.close().expect("close");
        }
        drop(store);
        std::fs::remove_dir_all(place.path().join("consumequeue")).expect("remove");
        if !clean {
            std::fs::remove_dir_all(place.path().join("index")).expect("remove");
        }
        assert_holds(&place.open(), 60, 3);
    }
}

#[test]
fn a_tail_of_zeros_or_garbage_is_cut_off() {
    for kind in ["zeros", "garbage", "old records"] {
        let place = Place::new();
        let store = place.open();
        let kept = append_numbered(&store, 0..50, 3);
        let flushed = kept.last().expect("some").end();
        assert!(store.wait_flushed(flushed, Duration::from_secs(10)).expect("flush"));
        let first_lost = append_numbered(&store, 50..70, 3)[0];
        drop(store);
        match kind {
            "zeros" => overwrite_log_tail(&place, flushed, |_| 0),
            "garbage" => overwrite_log_tail(&place, flushed, |at| (at * 131 + 7) as u8),
            // The head of the first lost record is gone, those behind it are whole: none of them may come back.
            _ => overwrite(
                &place.path().join(format!("commitlog/{:020}", first_lost.physical_offset / 4096 * 4096)),
                first_lost.physical_offset as u64 % 4096,
                &[0; 8],
            ),
        }
        let store = place.open();
        let count = bodies(&store, "T", 0).len() + bodies(&store, "T", 1).len() + bodies(&store, "T", 2).len();
        assert_eq!(count, 50, "{kind}");
        assert_holds(&store, 50, 3);
        append_numbered(&store, 50..90, 3);
        drop(store);
        assert_holds(&place.open(), 90, 3);
    }
}

#[test]
fn a_damaged_body_ends_the_log() {
    let place = crashed(10);
    let store = place.open();
    let unit = store.unit_at("T", 2, 2).expect("unit").expect("message 8");
    drop(store);
    overwrite(&place.path().join("commitlog/00000000000000000000"), unit.physical_offset as u64 + 90, b"?");
    assert_holds(&place.open(), 8, 3);
}

/// A store that was killed long after its last key was indexed: the index is read again from the beginning of the log, the queues only
/// from a later file that the checkpoint vouches for. Message `i` has a body that tells it and is at offset `i` of its queue.
fn crashed_long_after_the_last_key(keyed: usize, count: usize) -> (Place, Vec<Appended>) {
    let place = Place::new();
    let store = place.open();
    let stored = (0..count)
        .map(|i| {
            let properties = if i < keyed { format!("UNIQ_KEY\u{1}U{i}") } else { String::new() };
            append(&store, message("T", 0, &body_of(i), &properties), T0 + i as i64 * 10_000)
        })
        .collect();
    store.close().expect("close");
    std::fs::write(place.path().join("abort"), "").expect("write");
    (place, stored)
}

#[test]
fn a_damaged_body_before_the_checkpoint_costs_no_other_message() {
    let (place, stored) = crashed_long_after_the_last_key(4, 60);
    let damaged = stored[6].physical_offset as u64;
    overwrite(&place.path().join("commitlog/00000000000000000000"), damaged + 90, b"?");
    let store = place.open();
    assert_eq!(store.recovery().log_end, stored[59].end());
    assert_eq!(store.recovery().notes.len(), 1, "{:?}", store.recovery().notes);
    assert_eq!(store.max_offset("T", 0).expect("max"), 60);
    for (i, one) in stored.iter().enumerate() {
        let result = read(&store, "T", 0, i as i64, 1);
        let record = result.records().next().expect("a message").expect("whole");
        assert_eq!(record.len(), one.size as usize);
        assert_eq!(i != 6, Record::decode(record, Crc::Verify).is_ok_and(|(r, _)| r.body == body_of(i)), "message {i}");
    }
}

#[test]
fn a_file_on_blocks_that_were_anothers_does_not_vouch_for_the_log_before_it() {
    let (place, stored) = crashed_long_after_the_last_key(4, 60);
    let files = place.files("commitlog");
    let [first, .., _, last] = files.as_slice() else { panic!("{files:?}") };
    let lost_from: i64 = last.file_name().and_then(|name| name.to_str()).expect("name").parse().expect("offset");
    // The record before it is torn, and it holds what the first file held: old, whole, and not its own.
    let kept = stored.iter().position(|one| one.end() >= lost_from - 100).expect("one") - 1;
    overwrite_log_tail(&place, stored[kept].end(), |_| 0);
    std::fs::copy(first, last).expect("copy");
    let store = place.open();
    assert_eq!(store.recovery().log_end, stored[kept].end());
    assert_eq!(bodies(&store, "T", 0), (0..=kept).map(body_of).collect::<Vec<_>>());
}

#[test]
fn a_damaged_index_entry_costs_no_message() {
    let (place, stored) = crashed_long_after_the_last_key(4, 60);
    let index = place.files("index").remove(0);
    // The last entry points into its record.
    let entry = 40 + 7 * 4 + 4 * 20;
    overwrite(&index, entry + 4, &(stored[3].physical_offset + 5).to_be_bytes());
    let store = place.open();
    assert_eq!(store.recovery().log_end, stored[59].end());
    assert_eq!(bodies(&store, "T", 0), (0..60).map(body_of).collect::<Vec<_>>());
    for (i, one) in stored[..4].iter().enumerate() {
        let found = store.query("T", &format!("U{i}"), 64, 0, i64::MAX).expect("query");
        assert_eq!(found, [one.physical_offset], "key U{i}");
    }
}

#[test]
fn units_that_do_not_match_the_log_are_dropped_even_after_a_clean_exit() {
    let place = Place::new();
    let store = place.open();
    append_numbered(&store, 0..4, 1);
    store.close().expect("close");
    // What Java leaves behind the end of a queue it has truncated: units of messages that are no more.
    let queue = place.path().join("consumequeue/T/0/00000000000000000000");
    let mut stale = Vec::new();
    for (offset, size) in [(1000i64, 200i32), (70_000, 200)] {
        stale.extend_from_slice(&offset.to_be_bytes());
        stale.extend_from_slice(&size.to_be_bytes());
        stale.extend_from_slice(&[0; 8]);
    }
    overwrite(&queue, 4 * 20, &stale);
    let store = place.open();
    assert_eq!(store.max_offset("T", 0).expect("max"), 4);
    assert_eq!(store.recovery().notes.len(), 1);
    append_numbered(&store, 4..20, 1);
    assert_holds(&store, 20, 1);
}

#[test]
fn garbage_in_unflushed_queue_pages_does_not_survive() {
    let place = crashed(30);
    let queue = place.path().join("consumequeue/T/1/00000000000000000000");
    overwrite(&queue, 60, &[0; 40]);
    overwrite(&place.path().join("consumequeue/T/2/00000000000000000000"), 20, &[0x11; 100]);
    assert_holds(&place.open(), 30, 3);
}

#[test]
fn a_garbled_index_is_rebuilt_after_a_crash() {
    let place = crashed(40);
    for path in place.files("index") {
        overwrite(&path, 0, &[0x77; 60]);
    }
    assert_holds(&place.open(), 40, 3);
}

const QUEUE_OFFSET_AT: u64 = 20;

/// Checks that queue 0 has, each at its offset, all of `0..count` but one.
#[test]
fn a_message_that_cannot_be_read_hides_none_before_it() {
    let place = Place::new();
    let store = place.open();
    let stored: Vec<_> =
        (0..1000).map(|i| append(&store, message("T", 0, &body_of(i), "TAGS\u{1}Tag"), T0 + i as i64 * 10)).collect();
    drop(store);
    // The last byte of its properties is no text any more.
    let damaged = stored[500].end() as u64 - 1;
    let file = place.path().join(format!("commitlog/{:020}", damaged / 4096 * 4096));
    overwrite(&file, damaged % 4096, &[0xFF]);
    let store = place.open();
    assert_eq!((store.min_offset("T", 0).expect("min"), store.max_offset("T", 0).expect("max")), (0, 1000));
    for i in (0..1000).filter(|i| *i != 500) {
        let result = read(&store, "T", 0, i, 1);
        assert_eq!(result.records().count(), 1, "message {i}");
        let found = store.offset_by_time("T", 0, T0 + i * 10).expect("offset");
        assert_eq!(found, i, "by the time of message {i}");
    }
}

fn assert_holds_all_but(store: &Store, missing: usize, count: usize) {
    assert_eq!(store.max_offset("T", 0).expect("max"), count as i64);
    for i in (0..count).filter(|i| *i != missing) {
        let result = read(store, "T", 0, i as i64, 1);
        let record = result.records().next().expect("a message").expect("whole");
        assert_eq!(Record::decode(record, Crc::Verify).expect("record").0.body, body_of(i), "message {i}");
    }
}

#[test]
fn a_damaged_queue_offset_costs_one_message() {
    for damaged in [0, 1, 3000, i64::MAX / 20 + 1, i64::MAX, -1] {
        let place = Place::new();
        let store = place.open();
        let stored = append_numbered(&store, 0..60, 1);
        drop(store);
        overwrite(
            &place.path().join("commitlog/00000000000000000000"),
            stored[8].physical_offset as u64 + QUEUE_OFFSET_AT,
            &damaged.to_be_bytes(),
        );
        let store = place.open();
        assert_holds_all_but(&store, 8, 60);
        let is_told = damaged == 0 || damaged > 1; // of the others the queue has such messages already
        assert_eq!(store.recovery().notes.len(), usize::from(is_told), "{:?}", store.recovery().notes);
    }
}

#[test]
fn a_topic_that_has_begun_again_has_its_new_messages_only() {
    for again in [1, 2, 5, 40] {
        let place = Place::new();
        let store = place.open();
        for (old, topic) in [(7, "T"), (3, "T"), (2, "other")] {
            store.remove_topic(topic).expect("remove");
            for _ in 0..old {
                append(&store, message(topic, 0, b"old", ""), T0);
            }
        }
        store.remove_topic("T").expect("remove");
        append_numbered(&store, 0..again, 1);
        drop(store);
        let store = place.open();
        assert_holds(&store, again, 1);
        assert_eq!(bodies(&store, "other", 0), [b"old", b"old"]);
        assert!(store.recovery().notes.is_empty(), "{:?}", store.recovery().notes);
        append_numbered(&store, again..again + 10, 1);
        drop(store);
        assert_holds(&place.open(), again + 10, 1);
    }
}

#[test]
fn crash_after_crash_after_crash() {
    let place = Place::new();
    for round in 0..6 {
        let store = place.open();
        assert_holds(&store, round * 25, 2);
        append_numbered(&store, round * 25..(round + 1) * 25, 2);
        drop(store);
    }
    assert_holds(&place.open(), 150, 2);
}

#[test]
fn a_queue_that_begins_in_the_middle_is_filled_with_blanks() {
    let place = Place::new();
    let store = place.open();
    append_numbered(&store, 0..60, 1);
    store.close().expect("close");
    let log = place.files("commitlog");
    assert!(log.len() > 3);
    std::fs::remove_file(&log[0]).expect("remove");
    std::fs::remove_dir_all(place.path().join("consumequeue")).expect("remove");
    let store = place.open();
    let min = store.min_offset("T", 0).expect("min");
    assert!(min > 0);
    assert_eq!(store.max_offset("T", 0).expect("max"), 60);
    assert_eq!(bodies(&store, "T", 0), (min as usize..60).map(body_of).collect::<Vec<_>>());
    assert_eq!(read(&store, "T", 0, 0, 32).next_offset, min);
    drop(store);
    let store: Store = place.open();
    assert_eq!((store.min_offset("T", 0).expect("min"), store.max_offset("T", 0).expect("max")), (min, 60));
}

#[test]
fn files_that_a_killed_process_was_creating_are_no_obstacle() {
    let place = crashed(30);
    let last_log = place.files("commitlog").pop().expect("a log file");
    let next =
        last_log.file_name().and_then(|n| n.to_str()).and_then(|n| n.parse::<u64>().ok()).expect("number") + 4096;
    std::fs::write(place.path().join(format!("commitlog/{next:020}")), "").expect("write");
    std::fs::write(place.path().join("commitlog.creating-3"), "half").expect("write");
    std::fs::write(place.path().join("consumequeue/T/0.creating-7"), "").expect("write");
    assert_holds(&place.open(), 30, 3);
    assert!(!place.path().join("commitlog.creating-3").exists());
    assert!(!place.path().join("consumequeue/T/0.creating-7").exists());
}

//! The bytes on disk are RocketMQ's.

mod common;

use common::*;
use store::{SCHEDULE_TOPIC, Store};

#[test]
fn a_record_its_unit_and_its_index_entries_stand_where_java_puts_them() {
    let place = Place::new();
    let store = place.open();
    let properties = "TAGS\u{1}TagA\u{2}KEYS\u{1}k1 k2\u{2}UNIQ_KEY\u{1}UK1";
    append(&store, message("T1", 0, b"hello", properties), 1_794_768_512_175);
    store.close().expect("close");

    let log = std::fs::read(&place.files("commitlog")[0]).expect("log");
    assert_eq!(log.len(), 4096);
    assert_eq!(log[..8], [0, 0, 0, 0x83, 0xda, 0xa3, 0x20, 0xa7]);
    assert_eq!(log[131..139], [0; 8]);
    let queue = std::fs::read(&place.files("consumequeue/T1/0")[0]).expect("queue");
    assert_eq!(queue[..20], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x83, 0, 0, 0, 0, 0, 0x27, 0xa8, 0x07]);
    assert_eq!(queue[20..], [0; 140]);

    let index = std::fs::read(&place.files("index")[0]).expect("index");
    assert_eq!(index.len(), 40 + 7 * 4 + 20 * 20);
    assert_eq!(index[0..8], 1_794_768_512_175i64.to_be_bytes());
    assert_eq!(index[36..40], [0, 0, 0, 4], "three entries, the next is number 4");
    let entry = |n: usize| &index[40 + 28 + n * 20..][..20];
    assert_eq!(entry(0), [0; 20]);
    assert_eq!(entry(1)[..4], 0x6de5_3acbu32.to_be_bytes(), "the unique key comes first");
    assert_eq!(entry(2)[..4], 0x04b6_8d0cu32.to_be_bytes());
}

#[test]
fn a_file_without_room_ends_with_a_blank_and_the_log_goes_on_in_the_next() {
    let place = Place::new();
    let store = place.open();
    let body = [b'x'; 1000];
    let offsets: Vec<_> = (0..5).map(|_| append(&store, message("T", 0, &body, ""), T0).physical_offset).collect();
    store.close().expect("close");
    assert_eq!(offsets, [0, 1092, 2184, 4096, 4096 + 1092]);
    let first = std::fs::read(&place.files("commitlog")[0]).expect("log");
    assert_eq!(first[3276..3284], [0, 0, 0x03, 0x34, 0xcb, 0xd4, 0x31, 0x94]);
    assert_eq!(place.files("commitlog").len(), 2, "the file made in advance is gone after a clean exit");
}

#[test]
fn scheduled_messages_carry_their_deliver_time_in_place_of_the_tags_code() {
    let place = Place::new();
    let store = place.open();
    append(&store, message(SCHEDULE_TOPIC, 2, b"later", "TAGS\u{1}TagA\u{2}DELAY\u{1}3"), T0);
    append(&store, message(SCHEDULE_TOPIC, 17, b"too late", "DELAY\u{1}99"), T0);
    append(&store, message(SCHEDULE_TOPIC, 0, b"now", "TAGS\u{1}TagA\u{2}DELAY\u{1}0"), T0);
    let code = |queue_id| store.unit_at(SCHEDULE_TOPIC, queue_id, 0).expect("unit").expect("there").tags_code;
    assert_eq!(code(2), T0 + 10_000);
    assert_eq!(code(17), T0 + 2 * 3600 * 1000);
    assert_eq!(code(0), 2_598_919);
}

#[test]
fn half_and_rolled_back_messages_are_in_no_queue() {
    let place = Place::new();
    let store = place.open();
    for sys_flag in [wire::sys_flag::TRANSACTION_PREPARED, wire::sys_flag::TRANSACTION_ROLLBACK] {
        let half = store::Message { sys_flag, ..message("T", 0, b"half", "UNIQ_KEY\u{1}H") };
        assert_eq!(append(&store, half, T0).queue_offset, 0);
    }
    assert_eq!(store.max_offset("T", 0).expect("max"), 0);
    assert_eq!(store.query("T", "H", 64, 0, i64::MAX).expect("query").len(), 1, "only the half message is indexed");
    let end = store.max_physical_offset().expect("end");
    store.close().expect("close");
    let store = Store::open(place.path(), small()).expect("open");
    assert_eq!(store.max_physical_offset().expect("end"), end, "found although no queue knows of them");
}

#[test]
fn a_batch_lies_in_one_file_or_nowhere() {
    let place = Place::new();
    let store = place.open();
    append(&store, message("T", 0, &[b'x'; 2000], ""), T0);
    let body = [b'y'; 600];
    let batch = [message("T", 0, &body, ""); 3];
    let mut results = Vec::new();
    store.append_batch(&batch, T0, &mut results).expect("batch");
    assert_eq!(results[0].physical_offset, 4096);
    assert_eq!(results.iter().map(|r| r.queue_offset).collect::<Vec<_>>(), [1, 2, 3]);
    let end = store.max_physical_offset().expect("end");
    let too_much = [message("T", 0, &body, ""); 6];
    assert!(store.append_batch(&too_much, T0, &mut results).is_err());
    assert_eq!(store.max_physical_offset().expect("end"), end);
    assert_eq!(bodies(&store, "T", 0).len(), 4);
}

#[test]
fn abort_exists_while_open_and_the_lock_file_says_lock() {
    let place = Place::new();
    let store = place.open();
    assert!(place.path().join("abort").exists());
    assert_eq!(std::fs::read(place.path().join("lock")).expect("lock"), b"lock");
    let store_end = append(&store, message("T", 0, b"x", ""), T0).end();
    store.close().expect("close");
    assert!(!place.path().join("abort").exists());
    let checkpoint = std::fs::read(place.path().join("checkpoint")).expect("checkpoint");
    assert_eq!(checkpoint.len(), 4096);
    // No index file is full.
    let times = [T0, T0, 0, 0, T0, T0];
    assert_eq!(checkpoint[..48], times.map(i64::to_be_bytes).concat());
    let end = store_end.to_be_bytes();
    assert_eq!([&checkpoint[48..56], &checkpoint[56..64], &checkpoint[72..80]], [&[0; 8][..], &end, &end]);
    assert!(checkpoint[88..].iter().all(|&byte| byte == 0));
}

#[test]
fn the_checkpoint_has_the_end_of_the_newest_full_index_file_as_java_has_it() {
    let place = Place::new();
    let store = place.open();
    for i in 0..10 {
        append(&store, message("T", 0, b"x", &properties_of(i)), T0 + i as i64);
    }
    store.close().expect("close");
    let checkpoint = std::fs::read(place.path().join("checkpoint")).expect("checkpoint");
    // A file of 19 entries ends with the first of the seventh message's three.
    let times = [T0 + 9, T0 + 9, T0 + 6];
    assert_eq!(checkpoint[..24], times.map(i64::to_be_bytes).concat());
}

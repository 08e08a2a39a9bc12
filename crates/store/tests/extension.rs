//! Directories of Java brokers with `enableConsumeQueueExt=true`: units have an address in place of the tags code.

mod common;

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;

use common::*;
use store::{Limits, ReadRequest, SCHEDULE_TOPIC};

/// Puts the address that Java would have written into a unit: a byte offset, counted from the least i64.
fn extend(place: &Place, queue: &str, unit: u64) {
    let path = place.path().join("consumequeue").join(queue).join(format!("{:020}", 0));
    let file = OpenOptions::new().write(true).open(path).expect("open");
    file.write_all_at(&(i64::MIN + 20 * unit as i64).to_be_bytes(), unit * 20 + 12).expect("write");
}

#[test]
fn tags_are_those_of_the_messages() {
    let place = Place::new();
    let store = place.open();
    for i in 0..8 {
        append(&store, message("T", 0, b"x", if i % 2 == 0 { "TAGS\u{1}a" } else { "TAGS\u{1}b" }), T0);
    }
    append(&store, message(SCHEDULE_TOPIC, 2, b"later", "DELAY\u{1}3"), T0);
    store.close().expect("close");
    (0..6).for_each(|unit| extend(&place, "T/0", unit));
    extend(&place, &format!("{SCHEDULE_TOPIC}/2"), 0);

    let store = place.open();
    let limits = Limits { max_messages: 32, max_bytes: 1 << 20 };
    let request = ReadRequest {
        topic: "T",
        queue_id: 0,
        offset: 0,
        max_messages: 32,
        in_memory: limits,
        on_disk: limits,
        memory_bytes: i64::MAX,
        tags_codes: Some(&[b'b' as i64]),
        filter: None,
        resident_beyond: None,
    };
    let result = store.read(&request).expect("read");
    assert_eq!((result.len(), result.next_offset), (4, 8));
    let code = |offset| store.unit_at("T", 0, offset).expect("unit").expect("there").tags_code;
    assert_eq!([code(0), code(1), code(7)], [b'a', b'b', b'b'].map(i64::from));
    let due = store.unit_at(SCHEDULE_TOPIC, 2, 0).expect("unit").expect("there").tags_code;
    assert_eq!(due, T0 + 10_000);
}

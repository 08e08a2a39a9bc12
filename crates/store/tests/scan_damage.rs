//! Scans of a damaged log that are to read only a part of it: no damage may hide what is whole.

mod common;

use common::scanning::{cut, large, large_options, numbers, of_topic, overwrite, read, snapshot, start_of};
use common::{Place, T0, append, append_numbered, message};
use store::scan::{LogFile, LogRange, RangeScan, Seen, Selection};
use store::{Store, StoreError};
use wire::Crc;

#[test]
fn times_are_found_behind_damage_of_any_size() {
    const MOST: u64 = 1 << 20;
    for damage in [300 << 10, MOST, 4 << 20] {
        let place = Place::new();
        large(&place);
        let files = place.files("commitlog");
        let start = start_of(&files[1]);
        overwrite(&place, start, &vec![0xff; damage as usize]);
        let snapshot = snapshot(&place);
        // Some 400 messages are in each file.
        for (start, end) in [(None, Some(500)), (None, Some(700)), (Some(300), Some(600)), (Some(600), None)] {
            let at = |number: Option<i64>| number.map(|number| T0 + number * 10_000);
            let wanted = Selection { start_ms: at(start), end_ms: at(end), ..Selection::default() };
            let (everything, _) = read(&snapshot, snapshot.whole(), &wanted);
            let (found, report) = read(&snapshot, cut(snapshot.ranges(&wanted).expect("ranges"), 400_000), &wanted);
            assert_eq!(numbers(&found), numbers(&everything), "{damage} bytes, {start:?} to {end:?}");
            let is_between = start != Some(600) || damage > MOST;
            assert_eq!(report.damaged, u64::from(is_between), "{damage} bytes, {start:?} to {end:?}");
        }
    }
}

/// The most memory this process has had, in KiB.
fn peak_memory_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("status");
    let line = status.lines().find(|line| line.starts_with("VmHWM")).expect("a peak");
    line.split_whitespace().nth(1).expect("a number").parse().expect("digits")
}

#[test]
fn a_length_that_cannot_be_is_not_fetched() {
    let place = Place::new();
    let store = place.open();
    let first = append_numbered(&store, 0..2, 1)[0];
    store.close().expect("close");
    overwrite(&place, first.physical_offset as u64, &i32::MAX.to_be_bytes());
    let [path] = place.files("commitlog").try_into().expect("one file");
    // A file of the usual size, most of it a hole.
    let len = 1 << 30;
    std::fs::OpenOptions::new().write(true).open(&path).expect("open").set_len(len).expect("set_len");
    let files = vec![LogFile { path, start: 0, len }];
    let range = LogRange { start: 0, end: 4096, aligned: true };
    let before = peak_memory_kib();
    let mut scan = RangeScan::new(files, len, vec![range], Crc::Verify);
    let mut seen = 0;
    scan.run::<StoreError>(|_| {
        seen += 1;
        Ok(if seen == 1 { Seen::Pause } else { Seen::Next })
    })
    .expect("scan");
    assert!(peak_memory_kib() - before < 500 << 10, "read {} KiB into memory", peak_memory_kib() - before);
    let [damage] = scan.report().damages.as_slice() else { panic!("{:?}", scan.report()) };
    assert_eq!((damage.physical_offset, damage.len, seen), (0, u64::from(first.size), 1));
    assert!(damage.reason.contains("says it has 2147483647 bytes, its parts have"), "{}", damage.reason);
}

#[test]
fn those_who_ask_for_damages_get_all_of_them_some_at_a_time() {
    let place = Place::new();
    let store = place.open();
    let appended = append_numbered(&store, 0..450, 3);
    store.close().expect("close");
    // All bytes of every other one: where damage has nothing whole between, it is one.
    let hurt: Vec<_> = appended.iter().step_by(2).map(|message| message.physical_offset as u64).collect();
    for at in &hurt {
        overwrite(&place, *at, &[0; 50]);
    }
    let snapshot = snapshot(&place);
    let mut scan = RangeScan::new(snapshot.log_files.clone(), snapshot.log_end, snapshot.whole(), Crc::Verify);
    let mut found = Vec::new();
    loop {
        let some = scan.next_damages::<StoreError>(|_| Ok(Seen::Next)).expect("scan");
        if some.is_empty() {
            break;
        }
        assert!(some.len() <= 110, "{} at once", some.len());
        found.extend(some.into_iter().map(|damage| damage.physical_offset));
    }
    assert_eq!(found, hurt);
    assert_eq!((scan.report().damaged, scan.report().records), (225, 225));
}

#[test]
fn damage_of_a_queue_s_last_message_is_told_to_those_who_want_it() {
    let place = Place::new();
    let store = Store::open(place.path(), large_options()).expect("open");
    let put = |topic| append(&store, message(topic, 0, &[b'x'; 10_000], ""), T0);
    let first = put("rare");
    for _ in 0..100 {
        put("other");
    }
    let last = put("rare");
    for _ in 0..100 {
        put("other");
    }
    store.close().expect("close");
    overwrite(&place, last.physical_offset as u64, &[0; 80]);
    let (snapshot, wanted) = (snapshot(&place), of_topic("rare", None));
    let (found, report) = read(&snapshot, cut(snapshot.ranges(&wanted).expect("ranges"), 100_000), &wanted);
    assert_eq!((found.len(), first.physical_offset), (1, 0));
    let told: Vec<_> = report.damages.iter().map(|damage| damage.physical_offset as i64).collect();
    assert_eq!(told, [last.physical_offset]);
}

//! Scans of a log that lacks files, or the ends of some: what is there is given, what is not is told once.

mod common;

use std::collections::HashMap;
use std::path::PathBuf;

use common::scanning::{CUTS, cut, large, numbers, of_topic, read, snapshot, start_of};
use common::{Place, T0, append, append_numbered, message};
use store::StoreError;
use store::scan::{DamageKind, LogRange, RangeScan, Seen, Selection, Snapshot};
use wire::Crc;

fn error_of(snapshot: &Snapshot, ranges: Vec<LogRange>) -> StoreError {
    let mut scan = RangeScan::new(snapshot.log_files.clone(), snapshot.log_end, ranges, Crc::Verify);
    scan.run::<StoreError>(|_| Ok(Seen::Next)).expect("scan");
    scan.first_damage().expect("a damage")
}

#[test]
fn a_missing_file_hides_no_other_and_is_told_once() {
    let place = Place::new();
    let store = place.open();
    append_numbered(&store, 0..60, 3);
    store.close().expect("close");
    let files = place.files("commitlog");
    std::fs::remove_file(&files[2]).expect("remove");
    let snapshot = snapshot(&place);
    let gap = (start_of(&files[2]), start_of(&files[3]));
    assert_eq!(snapshot.gaps, [gap]);
    let everything = LogRange { start: 0, end: snapshot.log_end, aligned: true };
    let (expected, _) = read(&snapshot, snapshot.whole(), &Selection::default());
    assert!(expected.len() > 30 && expected.len() < 60);
    for ranges in [snapshot.whole(), vec![everything], snapshot.ranges(&of_topic("T", None)).expect("ranges")] {
        for len in CUTS {
            let (bodies, report) = read(&snapshot, cut(ranges.clone(), len), &Selection::default());
            assert_eq!(bodies, expected, "{ranges:?} cut every {len} bytes");
            let [damage] = report.damages.as_slice() else { panic!("cut {len}: {:?}", report.damages) };
            assert_eq!((damage.kind, damage.physical_offset, damage.len), (DamageKind::Gap, gap.0, gap.1 - gap.0));
            assert_eq!((report.damaged, report.absent), (1, 1));
        }
        let error = error_of(&snapshot, ranges).to_string();
        assert!(error.contains(&format!("nothing for {} to {}", gap.0, gap.1)), "{error}");
        assert!(error.contains(files[1].to_str().expect("text")) && error.contains("restore it"), "{error}");
    }
}

#[test]
fn files_that_expired_in_front_are_no_gap() {
    let place = Place::new();
    let store = place.open();
    append_numbered(&store, 0..60, 3);
    store.close().expect("close");
    for file in &place.files("commitlog")[..2] {
        std::fs::remove_file(file).expect("remove");
    }
    let snapshot = snapshot(&place);
    let everything = LogRange { start: 0, end: snapshot.log_end, aligned: true };
    for ranges in [snapshot.whole(), vec![everything], snapshot.ranges(&of_topic("T", None)).expect("ranges")] {
        let (bodies, report) = read(&snapshot, cut(ranges, 1000), &Selection::default());
        assert_eq!((report.damaged, bodies.last()), (0, Some(&common::body_of(59))));
    }
}

#[test]
fn a_file_that_was_cut_short_is_a_gap_behind_its_end() {
    let place = Place::new();
    large(&place);
    let files = place.files("commitlog");
    let file = std::fs::OpenOptions::new().write(true).open(&files[1]).expect("open");
    file.set_len(1 << 20).expect("cut");
    let snapshot = snapshot(&place);
    let gap = (start_of(&files[1]) + (1 << 20), start_of(&files[2]));
    assert_eq!(snapshot.gaps, [gap]);
    for topic in ["first", "second"] {
        let wanted = of_topic(topic, None);
        let (everything, whole) = read(&snapshot, snapshot.whole(), &wanted);
        let (found, pruned) = read(&snapshot, cut(snapshot.ranges(&wanted).expect("ranges"), 300_000), &wanted);
        assert_eq!(numbers(&found), numbers(&everything), "{topic}");
        assert_eq!((whole.damaged, whole.absent), (2, 1), "the record that was cut, and the gap");
        assert_eq!((pruned.damaged, pruned.absent), (2, 1), "{topic}");
    }
}

#[test]
fn times_and_keys_meet_the_gap_where_it_is() {
    let place = Place::new();
    large(&place);
    let files = place.files("commitlog");
    let lost = start_of(&files[1]) / 10_200;
    std::fs::remove_file(&files[1]).expect("remove");
    let snapshot = snapshot(&place);
    let found = |selection: &Selection| {
        let (bodies, report) = read(&snapshot, cut(snapshot.ranges(selection).expect("ranges"), 70_000), selection);
        (bodies.len(), report.absent)
    };
    let at = |number: u64| Some(T0 + number as i64 * 10_000);
    let between = |start_ms, end_ms| Selection { start_ms, end_ms, ..Selection::default() };
    assert_eq!(found(&between(at(lost + 50), at(lost + 60))), (0, 1), "all of it was there");
    assert_eq!(found(&between(at(lost + 500), at(lost + 510))), (10, 0), "far behind it");
    assert_eq!(found(&between(at(10), at(20))), (10, 0), "far before it");
    assert_eq!(found(&between(None, at(lost + 200))).1, 1);
    let topics = of_topic("first", None).topics;
    let by_key = |number: u64| Selection {
        topics: topics.clone(),
        keys: Some(vec![format!("U{number}")]),
        ..Selection::default()
    };
    assert_eq!(found(&by_key((lost + 50) & !1)), (0, 1));
    assert_eq!(found(&by_key(5)), (1, 0));
    let queue = |offsets| of_topic("first", Some(HashMap::from([(0, offsets)])));
    assert_eq!(found(&queue(3..9)), (6, 0), "its units lead elsewhere");
}

#[test]
fn who_loses_the_last_messages_of_a_queue_is_told() {
    let place = Place::new();
    let store = place.open();
    append(&store, message("other", 0, b"kept", ""), T0);
    append_numbered(&store, 0..20, 1);
    let lost = append(&store, message("other", 0, &[b'x'; 3900], ""), T0 + 1000);
    append_numbered(&store, 20..30, 1);
    store.close().expect("close");
    let is_lost = |path: &&PathBuf| start_of(path) <= lost.physical_offset as u64;
    std::fs::remove_file(place.files("commitlog").iter().rfind(is_lost).expect("its file")).expect("remove");
    let (snapshot, wanted) = (snapshot(&place), of_topic("other", None));
    let (bodies, report) = read(&snapshot, snapshot.ranges(&wanted).expect("ranges"), &wanted);
    assert_eq!((bodies, report.absent), (vec![b"kept".to_vec()], 1));
}

#[test]
fn files_that_are_deleted_while_they_are_read_are_told_for_what_they_are() {
    for (deleted, kind) in [(0..1, DamageKind::Expired), (0..3, DamageKind::Expired), (2..3, DamageKind::Gap)] {
        let place = Place::new();
        let store = place.open();
        append_numbered(&store, 0..60, 3);
        store.close().expect("close");
        let snapshot = snapshot(&place);
        let (everything, _) = read(&snapshot, snapshot.whole(), &Selection::default());
        let files = place.files("commitlog");
        files[deleted.clone()].iter().for_each(|path| std::fs::remove_file(path).expect("remove"));
        let (found, report) = read(&snapshot, snapshot.whole(), &Selection::default());
        assert_eq!(found.last(), everything.last());
        assert!(found.iter().all(|body| everything.contains(body)) && found.len() < everything.len());
        let told: Vec<_> = report.damages.iter().map(|damage| (damage.kind, damage.physical_offset)).collect();
        let expected: Vec<_> = files[deleted].iter().map(|path| (kind, start_of(path))).collect();
        assert_eq!(told, expected);
        let error = error_of(&snapshot, snapshot.whole()).to_string();
        let told_how = if kind == DamageKind::Gap { "missing" } else { "expired while it was read: retention" };
        assert!(error.contains(told_how), "{error}");
    }
}

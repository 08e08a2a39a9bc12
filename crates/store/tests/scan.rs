//! Reading a directory that others own: whole, cut anywhere, damaged, torn, while it is written; and only as much as is needed.

mod common;

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use common::scanning::{CUTS, cut, large, numbers, of_topic, overwrite, read, snapshot};
use common::{Place, T0, append_numbered, body_of};
use store::scan::{Selection, Snapshot};

fn numbered(place: &Place, count: usize) -> Vec<store::Appended> {
    let store = place.open();
    let appended = append_numbered(&store, 0..count, 3);
    store.close().expect("close");
    appended
}

#[test]
fn every_cut_gives_every_record_once() {
    let place = Place::new();
    numbered(&place, 60);
    let snapshot = snapshot(&place);
    assert!(snapshot.log_files.len() > 3 && snapshot.tail.is_none() && snapshot.gaps.is_empty());
    let expected: Vec<_> = (0..60).map(body_of).collect();
    for len in CUTS {
        let (bodies, report) = read(&snapshot, cut(snapshot.whole(), len), &Selection::default());
        assert_eq!(bodies, expected, "cut every {len} bytes");
        assert_eq!((report.records, report.damaged), (60, 0), "cut every {len} bytes");
    }
}

#[test]
fn a_damage_is_counted_once_wherever_the_cut_falls() {
    // What is overwritten in the record: a byte of the body, its size, its magic, its topic, its own offset, all of its head.
    let damages: [(&str, u64, &[u8], bool); 6] = [
        ("checksum", 90, b"\xff", true),
        ("bytes", 2, b"\x7f", false),
        ("no record", 4, b"\0", false),
        ("UTF-8", 0, b"", false),
        ("says it stands at", 35, b"\xee", false),
        ("zeros", 0, &[0; 60], false),
    ];
    for (reason, at, bytes, has_place) in damages {
        let place = Place::new();
        let appended = numbered(&place, 40);
        let victim = appended[17];
        match reason {
            "UTF-8" => overwrite(&place, victim.end() as u64 - 1, b"\xff"),
            _ => overwrite(&place, victim.physical_offset as u64 + at, bytes),
        }
        let snapshot = snapshot(&place);
        let expected: Vec<_> = (0..40).filter(|i| *i != 17).map(body_of).collect();
        for len in CUTS {
            let (bodies, report) = read(&snapshot, cut(snapshot.whole(), len), &Selection::default());
            assert_eq!(bodies, expected, "{reason}, cut every {len} bytes");
            let [damage] = report.damages.as_slice() else { panic!("{reason}, cut {len}: {:?}", report.damages) };
            assert_eq!((damage.physical_offset, damage.len), (victim.physical_offset as u64, u64::from(victim.size)));
            assert!(damage.reason.contains(reason), "{}", damage.reason);
            assert_eq!(damage.place.is_some(), has_place);
            assert_eq!((report.damaged, report.damaged_bytes), (1, u64::from(victim.size)));
        }
    }
}

#[test]
fn a_damaged_file_does_not_hide_the_next() {
    let place = Place::new();
    let appended = numbered(&place, 60);
    let last_of_first = appended.iter().rfind(|a| a.end() <= 4096).expect("several fit");
    overwrite(&place, last_of_first.physical_offset as u64, &[0; 50]);
    let snapshot = snapshot(&place);
    let (bodies, report) = read(&snapshot, snapshot.whole(), &Selection::default());
    assert_eq!((bodies.len(), report.damaged), (59, 1));
    assert_eq!(report.damaged_bytes, 4096 - last_of_first.physical_offset as u64, "to the end of its file");
}

#[test]
fn a_torn_tail_is_no_damage() {
    for (torn, whole_head) in [(vec![7u8; 33], false), (vec![], true)] {
        let place = Place::new();
        let appended = numbered(&place, 20);
        let end = appended[19].end() as u64;
        let torn = if whole_head {
            // The beginning of a record that was not written to its end.
            let record = wire::Record { physical_offset: end as i64, ..sample() };
            let mut bytes = vec![0; record.encoded_len()];
            record.encode_into(&mut bytes);
            bytes.truncate(110);
            bytes
        } else {
            torn
        };
        overwrite(&place, end, &torn);
        let snapshot = snapshot(&place);
        assert_eq!(snapshot.log_end, end);
        let tail = snapshot.tail.clone().expect("a torn tail");
        assert_eq!(tail.bytes as usize, torn.len());
        for len in CUTS {
            let (bodies, report) = read(&snapshot, cut(snapshot.whole(), len), &Selection::default());
            assert_eq!((bodies.len(), report.damaged), (20, 0), "cut every {len} bytes");
        }
    }
}

fn sample() -> wire::Record<'static> {
    wire::Record {
        queue_id: 0,
        flag: 0,
        queue_offset: 0,
        physical_offset: 0,
        sys_flag: 0,
        born_timestamp: T0,
        born_host: common::HOST,
        store_timestamp: T0,
        store_host: common::HOST,
        reconsume_times: 0,
        prepared_transaction_offset: 0,
        body: b"a body that is not all there, long enough to be cut",
        topic: "T",
        properties: "",
    }
}

#[test]
fn a_log_without_queues_is_read_too() {
    let place = Place::new();
    let appended = numbered(&place, 30);
    overwrite(&place, appended[28].physical_offset as u64, &[1; 20]);
    for dir in ["consumequeue", "index", "config"] {
        let _ = std::fs::remove_dir_all(place.path().join(dir));
    }
    let whole_store = snapshot(&place);
    let log_only = Snapshot::take(&place.path().join("commitlog"), &[]).expect("a bare log");
    for snapshot in [whole_store, log_only] {
        assert_eq!(snapshot.dispatched_end, None);
        let (bodies, report) = read(&snapshot, snapshot.whole(), &Selection::default());
        assert_eq!((bodies.len(), report.damaged), (29, 1));
    }
}

#[test]
fn nothing_here_is_an_error_that_names_the_directory() {
    let place = Place::new();
    for path in [place.path().to_path_buf(), place.path().join("absent")] {
        let error = Snapshot::take(&path, &[]).expect_err("nothing here").to_string();
        assert!(error.contains(&path.display().to_string()), "{error}");
    }
    numbered(&place, 0);
    let empty = snapshot(&place);
    assert!(empty.whole().is_empty() && empty.tail.is_none());
}

#[test]
fn a_store_is_read_while_it_is_written() {
    let place = Place::new();
    let store = place.open();
    append_numbered(&store, 0..5, 3);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for i in 5..400 {
                append_numbered(&store, i..i + 1, 3);
            }
            done.store(true, Ordering::Release);
        });
        let mut seen = 5;
        loop {
            let last_round = done.load(Ordering::Acquire);
            let snapshot = snapshot(&place);
            let (bodies, report) = read(&snapshot, cut(snapshot.whole(), 1000), &Selection::default());
            assert_eq!(report.damaged, 0, "{:?}", report.damages);
            assert!(bodies.len() >= seen, "{} after {seen}", bodies.len());
            seen = bodies.len();
            let expected: Vec<_> = (0..seen).map(body_of).collect();
            assert_eq!(bodies, expected);
            if last_round {
                assert_eq!(seen, 400);
                break;
            }
        }
    });
}

#[test]
fn scanning_changes_nothing() {
    let place = Place::new();
    numbered(&place, 30);
    let state = |place: &Place| {
        let mut found: Vec<_> = walk(place.path());
        found.sort();
        found
    };
    let before = state(&place);
    let snapshot = snapshot(&place);
    read(&snapshot, snapshot.whole(), &Selection::default());
    assert_eq!(state(&place), before);
}

fn walk(dir: &Path) -> Vec<(std::path::PathBuf, Vec<u8>, std::time::SystemTime)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).expect("directory") {
        let path = entry.expect("entry").path();
        match path.is_dir() {
            true => found.extend(walk(&path)),
            false => {
                let modified = path.metadata().expect("metadata").modified().expect("time");
                found.push((path.clone(), std::fs::read(&path).expect("content"), modified));
            }
        }
    }
    found
}

#[test]
fn pruning_reads_less_and_finds_the_same() {
    let place = Place::new();
    let stored = large(&place);
    let snapshot = snapshot(&place);
    let one_topic = |topic: &str, queues| Some(HashMap::from([(topic.to_string(), queues)]));
    let cases: Vec<(&str, Selection, f64)> = vec![
        ("everything", Selection::default(), 1.0),
        ("topic", Selection { topics: one_topic("second", None), ..Selection::default() }, 0.65),
        ("no such topic", Selection { topics: one_topic("third", None), ..Selection::default() }, 0.0),
        (
            "queue offsets",
            Selection { topics: one_topic("first", Some(HashMap::from([(0, 3..9)]))), ..Selection::default() },
            0.1,
        ),
        ("from", Selection { start_ms: Some(T0 + 8_000_000), ..Selection::default() }, 0.3),
        ("until", Selection { end_ms: Some(T0 + 2_000_000), ..Selection::default() }, 0.3),
        (
            "between, of a topic",
            Selection {
                topics: one_topic("second", None),
                start_ms: Some(T0 + 3_000_000),
                end_ms: Some(T0 + 4_500_000),
                ..Selection::default()
            },
            0.15,
        ),
        ("before everything", Selection { end_ms: Some(T0 - 1_000_000), ..Selection::default() }, 0.0),
        (
            "keys",
            Selection {
                topics: one_topic("second", None),
                keys: Some(vec!["U701".into(), "k999".into(), "k3".into()]),
                ..Selection::default()
            },
            0.01,
        ),
        ("keys without topics", Selection { keys: Some(vec!["U701".into()]), ..Selection::default() }, 1.0),
    ];
    for (name, selection, most) in cases {
        let ranges = snapshot.ranges(&selection).expect("ranges");
        let (everything, _) = read(&snapshot, snapshot.whole(), &selection);
        let (found, report) = read(&snapshot, cut(ranges, 100_000), &selection);
        assert_eq!(numbers(&found), numbers(&everything), "{name}");
        let read = report.bytes as f64 / (snapshot.log_end - snapshot.log_start) as f64;
        assert!(read <= most + 0.02, "{name}: read {read:.2} of the log");
        for number in numbers(&found) {
            let (_, stored_ms) = stored[number];
            assert!(selection.start_ms.is_none_or(|start| stored_ms >= start), "{name}");
            assert!(selection.end_ms.is_none_or(|end| stored_ms < end), "{name}");
        }
    }
}

#[test]
fn keys_are_found_where_index_files_are_missing() {
    let place = Place::new();
    numbered(&place, 300);
    let files = place.files("index");
    assert!(files.len() > 10);
    let wanted = |key: String| Selection { keys: Some(vec![key]), ..of_topic("T", None) };
    let look = |key: usize| {
        let (snapshot, wanted) = (snapshot(&place), wanted(format!("k{key}")));
        let (found, report) = read(&snapshot, snapshot.ranges(&wanted).expect("ranges"), &wanted);
        assert_eq!(found, [body_of(key)], "key {key}");
        report.records
    };
    let before = look(150);
    assert!(before < 100, "{before} records read for one");
    for file in &files[files.len() / 2 - 3..files.len() / 2 + 3] {
        std::fs::remove_file(file).expect("remove");
    }
    for key in 0..300 {
        look(key);
    }
    assert!(look(150) < 200, "only the hole is read");
}

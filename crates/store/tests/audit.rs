//! An audit finds nothing in a sound store, and every fault that is put into one, by its name and place.

mod common;

use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;
use std::path::Path;

use common::{Place, T0, append, append_numbered, message, small};
use store::scan::{Audit, Findings, Kind, Snapshot};
use store::{Appended, Options, SCHEDULE_TOPIC, Store};

/// One index file, several files of everything else.
fn options() -> Options {
    Options { index_slots: 40, index_entries: 1000, ..small() }
}

fn stored(place: &Place, count: usize) -> Vec<Appended> {
    let store = Store::open(place.path(), options()).expect("open");
    let appended = append_numbered(&store, 0..count, 3);
    store.close().expect("close");
    appended
}

fn audit(place: &Place) -> (BTreeMap<Kind, u64>, Findings) {
    let audit = Audit::new(Snapshot::take(place.path(), &[]).expect("snapshot")).expect("audit");
    let mut parts = vec![audit.check_log(audit.snapshot.whole()).expect("log").findings];
    parts.push(audit.check_directory());
    for queue in &audit.snapshot.queues {
        let (first, end) = audit.snapshot.queue_bounds(queue).expect("bounds");
        // Two pieces, as two tasks would do it.
        let middle = (first + end) / 2;
        parts.push(audit.check_queue(&queue.topic, queue.queue_id, first, middle).expect("queue"));
        parts.push(audit.check_queue(&queue.topic, queue.queue_id, middle, end).expect("queue"));
    }
    for (path, entries) in audit.index_files() {
        parts.push(audit.check_index(&path, 1, entries / 2).expect("index"));
        parts.push(audit.check_index(&path, entries / 2, entries + 1).expect("index"));
        parts.push(audit.check_chains(&path).expect("chains"));
    }
    let mut all = Findings::default();
    for part in parts {
        all.checked += part.checked;
        all.named.extend(part.named);
        part.counts.iter().for_each(|(kind, count)| *all.counts.entry(*kind).or_default() += count);
    }
    (all.counts.clone(), all)
}

fn write(path: &Path, at: u64, bytes: &[u8]) {
    std::fs::OpenOptions::new().write(true).open(path).expect("open").write_all_at(bytes, at).expect("write");
}

/// Where unit `offset` of queue 1 stands: files of this suite hold eight.
fn unit_place(place: &Place, offset: u64) -> (std::path::PathBuf, u64) {
    (place.path().join(format!("consumequeue/T/1/{:020}", offset / 8 * 160)), offset % 8 * 20)
}

fn index_file(place: &Place) -> std::path::PathBuf {
    let [file] = place.files("index").try_into().expect("one index file");
    file
}

const ENTRIES_AT: u64 = 40 + 40 * 4;

#[test]
fn a_sound_store_has_no_findings() {
    let place = Place::new();
    let store = Store::open(place.path(), options()).expect("open");
    append_numbered(&store, 0..50, 3);
    append(&store, message(SCHEDULE_TOPIC, 2, b"later", "DELAY\u{1}3\u{2}TAGS\u{1}x"), T0 + 600);
    let half = store::Message { sys_flag: wire::sys_flag::TRANSACTION_PREPARED, ..message("T", 0, b"half", "") };
    append(&store, half, T0 + 610);
    append_numbered(&store, 50..60, 3);
    let (counts, all) = audit(&place);
    assert_eq!(counts, BTreeMap::new(), "while it is open: {:?}", all.named);
    store.close().expect("close");
    let (counts, all) = audit(&place);
    assert_eq!(counts, BTreeMap::new(), "at rest: {:?}", all.named);
    // 62 records, 61 units, three keys of 60 messages in entries and chains.
    assert_eq!(all.checked, 62 + 61 + 180 + 180);
}

#[test]
fn several_small_index_files_are_understood() {
    let place = Place::new();
    let store = place.open();
    append_numbered(&store, 0..40, 3);
    store.close().expect("close");
    assert!(place.files("index").len() > 3);
    assert_eq!(audit(&place).0, BTreeMap::new());
}

#[test]
fn sizes_are_told_by_topic() {
    let place = Place::new();
    let appended = stored(&place, 20);
    let audit = Audit::new(Snapshot::take(place.path(), &[]).expect("snapshot")).expect("audit");
    let log = audit.check_log(audit.snapshot.whole()).expect("log");
    let size = &log.topics["T"];
    assert_eq!(size.messages, 20);
    assert_eq!(size.bytes, appended.iter().map(|a| u64::from(a.size)).sum::<u64>());
    assert_eq!((size.first_ms, size.last_ms), (T0, T0 + 190));
}

#[test]
fn seeded_faults_are_found() {
    type Fault = fn(&Place, &[Appended]);
    let cases: [(&str, Fault, &[Kind]); 12] = [
        ("a flipped byte of a body", |place, a| flip(place, a[9].physical_offset as u64 + 95), &[Kind::DamagedRecord]),
        (
            "an erased unit",
            |place, _| {
                let (path, at) = unit_place(place, 5);
                write(&path, at, &[0; 20]);
            },
            &[Kind::MissingUnit, Kind::QueueGap],
        ),
        (
            "a unit that points to another message",
            |place, a| {
                let (path, at) = unit_place(place, 5);
                write(&path, at, &a[0].physical_offset.to_be_bytes());
            },
            &[Kind::WrongUnit, Kind::StrayUnit],
        ),
        (
            "a unit of another size",
            |place, _| {
                let (path, at) = unit_place(place, 5);
                write(&path, at + 8, &77i32.to_be_bytes());
            },
            &[Kind::WrongUnit, Kind::StrayUnit],
        ),
        (
            "a unit with another tags code",
            |place, _| {
                let (path, at) = unit_place(place, 5);
                write(&path, at + 12, &77i64.to_be_bytes());
            },
            &[Kind::WrongUnit],
        ),
        (
            "a queue file that is gone",
            |place, _| std::fs::remove_file(unit_place(place, 0).0).expect("remove"),
            &[Kind::MissingUnit],
        ),
        (
            "an index entry that points wrong",
            |place, a| write(&index_file(place), ENTRIES_AT + 20 * 20 + 4, &a[1].physical_offset.to_be_bytes()),
            &[Kind::MissingIndexEntry, Kind::WrongIndexEntry],
        ),
        (
            "an index entry of another time",
            |place, _| write(&index_file(place), ENTRIES_AT + 20 * 20 + 12, &9i32.to_be_bytes()),
            &[Kind::WrongIndexEntry],
        ),
        (
            "an index entry with another hash",
            |place, _| write(&index_file(place), ENTRIES_AT + 20 * 20, &1i32.to_be_bytes()),
            &[Kind::MissingIndexEntry, Kind::WrongIndexEntry],
        ),
        (
            "an index header that makes no sense",
            |place, _| write(&index_file(place), 16, &123_456_789i64.to_be_bytes()),
            &[Kind::UnreadableIndex],
        ),
        (
            "a log file that is gone",
            |place, _| std::fs::remove_file(&place.files("commitlog")[1]).expect("remove"),
            &[Kind::LogGap, Kind::StrayUnit, Kind::WrongIndexEntry],
        ),
        (
            "a slot that leads nowhere",
            |place, _| write(&index_file(place), 40 + 7 * 4, &0i32.to_be_bytes()),
            &[Kind::MissingIndexEntry, Kind::BrokenIndexChain],
        ),
    ];
    for (name, fault, kinds) in cases {
        let place = Place::new();
        let appended = stored(&place, 60);
        fault(&place, &appended);
        let (counts, all) = audit(&place);
        for kind in kinds {
            assert!(counts.contains_key(kind), "{name}: {counts:?}");
        }
        let unexpected = counts.keys().find(|kind| !kinds.contains(kind) && **kind != Kind::BrokenIndexChain);
        assert_eq!(unexpected, None, "{name}: {:?}", all.named);
        assert!(all.named.iter().all(|finding| !finding.detail.is_empty()), "{name}");
        if kinds.contains(&Kind::WrongUnit) || kinds.contains(&Kind::QueueGap) {
            let found = all.named.iter().any(|f| (f.topic.as_str(), f.queue_id, f.queue_offset) == ("T", 1, 5));
            assert!(found, "{name}: {:?}", all.named);
        }
    }
}

fn flip(place: &Place, physical_offset: u64) {
    let path = place.files("commitlog").into_iter().rfind(|path| {
        path.file_name().and_then(|n| n.to_str()).is_some_and(|n| n.parse::<u64>().is_ok_and(|s| s <= physical_offset))
    });
    let path = path.expect("a file");
    let at = physical_offset % 4096;
    let mut byte = [0];
    std::fs::File::open(&path).expect("open").read_exact_at(&mut byte, at).expect("read");
    write(&path, at, &[byte[0] ^ 1]);
}

//! Scans by topic of directories whose queues were saved at different moments: copies of a running store, and what a loss of power
//! leaves. Reading less must never mean finding less.

mod common;

use std::collections::HashMap;
use std::path::Path;

use common::scanning::{large_options, of_topic, read};
use common::{Place, T0, append, append_numbered, message, properties_of};
use store::scan::{Selection, Snapshot};
use store::{Options, Store};

fn copy(from: &Path, to: &Path) {
    if from.is_file() {
        std::fs::copy(from, to).expect("copy");
        return;
    }
    std::fs::create_dir_all(to).expect("directory");
    for entry in std::fs::read_dir(from).expect("directory") {
        let path = entry.expect("entry").path();
        copy(&path, &to.join(path.file_name().expect("name")));
    }
}

fn put(store: &Store, topic: &str, queue_id: i32, number: usize) {
    let (body, properties) = ([format!("{number} ").into_bytes(), vec![b'x'; 10_000]].concat(), properties_of(number));
    append(store, message(topic, queue_id, &body, &properties), T0 + number as i64);
}

/// Finds the same with and without reading less; how much of the log that took.
fn part_read(root: &Path, selection: &Selection) -> f64 {
    let snapshot = Snapshot::take(root, &[]).expect("snapshot");
    let (everything, _) = read(&snapshot, snapshot.whole(), selection);
    let (found, report) = read(&snapshot, snapshot.ranges(selection).expect("ranges"), selection);
    assert_eq!(found.len(), everything.len(), "{selection:?}");
    assert!(found == everything, "{selection:?}");
    report.bytes as f64 / (snapshot.log_end - snapshot.log_start) as f64
}

fn options() -> Options {
    Options { consume_queue_file_size: 20 * 1000, ..large_options() }
}

#[test]
fn a_copy_of_a_running_store_is_read_whole_where_its_queues_may_be_older_than_its_log() {
    let (place, copied) = (Place::new(), Place::new());
    let store = Store::open(place.path(), options()).expect("open");
    let save = |what: &str| {
        std::fs::create_dir_all(copied.path().join(what).parent().expect("parent")).expect("directory");
        copy(&place.path().join(what), &copied.path().join(what));
    };
    for number in 0..100 {
        put(&store, ["A", "B"][number % 2], 0, number);
    }
    for name in ["abort", "checkpoint", "lock", "index", "consumequeue/A"] {
        save(name);
    }
    for number in 100..400 {
        put(&store, ["A", "B"][number % 2], 0, number);
    }
    put(&store, "A", 7, 400);
    put(&store, "C", 0, 401);
    put(&store, "B", 0, 402);
    save("consumequeue/B");
    save("commitlog");
    let queue = |wish| Some(HashMap::from([(0, wish)]));
    let keys = Selection { keys: Some(vec!["U301".into(), "U7".into()]), ..of_topic("B", None) };
    for without in ["", "checkpoint", "abort"] {
        if !without.is_empty() {
            std::fs::remove_file(copied.path().join(without)).expect("remove");
        }
        for selection in [
            of_topic("A", None),
            of_topic("A", queue(0..i64::MAX)),
            of_topic("A", Some(HashMap::from([(7, 0..i64::MAX)]))),
            of_topic("B", None),
            of_topic("C", None),
            keys.clone(),
        ] {
            part_read(copied.path(), &selection);
        }
        assert!(part_read(copied.path(), &of_topic("A", queue(3..9))) < 0.1, "these offsets it has");
        assert!(part_read(copied.path(), &of_topic("B", queue(300..i64::MAX))) < 0.1, "so long was this queue saved");
    }
    // The store itself can be believed: while it is open, and at rest.
    assert!(part_read(place.path(), &of_topic("C", None)) < 0.1, "in use");
    store.close().expect("close");
    assert!(part_read(place.path(), &of_topic("C", None)) < 0.1, "at rest");
}

#[test]
fn units_that_a_loss_of_power_took_are_made_good_by_the_log() {
    for lost in [0..20usize, 50..90, 380..400] {
        let place = Place::new();
        let store = Store::open(place.path(), options()).expect("open");
        for number in 0..800 {
            put(&store, ["A", "B"][number % 2], 0, number);
        }
        store.close().expect("close");
        std::fs::write(place.path().join("abort"), b"").expect("abort");
        let [queue] = place.files("consumequeue/A/0").try_into().expect("one file");
        let mut units = std::fs::read(&queue).expect("units");
        units[lost.start * 20..lost.end * 20].fill(0);
        std::fs::write(&queue, units).expect("write");
        let all = Some(HashMap::from([(0, 0..i64::MAX)]));
        part_read(place.path(), &of_topic("A", all.clone()));
        part_read(place.path(), &Selection { start_ms: Some(T0 + 70), ..of_topic("A", all) });
        part_read(place.path(), &of_topic("A", Some(HashMap::from([(0, 60..70)]))));
    }
}

/// Calls of `read` that this thread has made.
fn reads() -> u64 {
    let io = std::fs::read_to_string("/proc/thread-self/io").expect("counters of this thread");
    let line = io.lines().find(|line| line.starts_with("syscr")).expect("calls");
    line.split_whitespace().nth(1).expect("a number").parse().expect("digits")
}

#[test]
fn queues_that_lead_out_of_the_log_cost_a_few_looks() {
    let place = Place::new();
    let store = place.open();
    append_numbered(&store, 0..60, 1);
    store.close().expect("close");
    std::fs::remove_file(&place.files("commitlog")[0]).expect("expired");
    // All units point before the log, or all behind it.
    for (queue_id, beyond) in [(0, 0i64), (1, 1 << 40)] {
        let units = (0..50_000i64).flat_map(|k| {
            let mut unit = [0; 20];
            unit[..8].copy_from_slice(&(beyond + k / 20).to_be_bytes());
            unit[8..12].copy_from_slice(&91i32.to_be_bytes());
            unit
        });
        let dir = place.path().join(format!("consumequeue/dead/{queue_id}"));
        std::fs::create_dir_all(&dir).expect("directory");
        std::fs::write(dir.join("0".repeat(20)), units.collect::<Vec<_>>()).expect("write");
    }
    let before = reads();
    let snapshot = Snapshot::take(place.path(), &[]).expect("snapshot");
    snapshot.ranges(&of_topic("absent", None)).expect("ranges");
    assert!(reads() - before < 1000, "{} reads", reads() - before);
    let ends: Vec<_> = snapshot.queues.iter().map(|queue| snapshot.queue_bounds(queue).expect("bounds").1).collect();
    assert_eq!(ends, [60, 50_000, 50_000]);
}

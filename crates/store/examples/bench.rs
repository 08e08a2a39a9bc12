//! The store measured through its Rust API. `make bench` runs it beside Java's store; one JSON line per run on stdout.
//!
//! ```text
//! bench append --dir D --body 128 --messages N [--warm-up N] [--batch 1] [--topics 1] [--queues 8]
//! bench read   --dir D [--max 32]            reads every queue of the directory from its first to its last message
//! bench fill   --dir D --bytes N --queues N  makes a large store (for `open`)
//! bench open   --dir D                       opens and closes a cleanly closed store
//! ```

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use store::{Appended, Host, Limits, Message, Options, ReadRequest, ReadStatus, Store};

struct Arguments(HashMap<String, String>);

impl Arguments {
    fn number(&self, name: &str, default: u64) -> u64 {
        self.0
            .get(name)
            .map_or(default, |value| value.parse().unwrap_or_else(|_| panic!("--{name} {value}: no number")))
    }

    fn dir(&self) -> PathBuf {
        PathBuf::from(self.0.get("dir").expect("--dir DIRECTORY"))
    }
}

fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis() as i64
}

fn main() {
    let mut words = std::env::args().skip(1);
    let command = words.next().unwrap_or_default();
    let mut arguments = Arguments(HashMap::new());
    while let (Some(name), Some(value)) = (words.next(), words.next()) {
        arguments.0.insert(name.trim_start_matches("--").to_string(), value);
    }
    match command.as_str() {
        "append" => append(&arguments),
        "read" => read(&arguments),
        "fill" => fill(&arguments),
        "open" => open(&arguments),
        _ => {
            eprintln!("usage: bench append|read|fill|open --dir D …");
            std::process::exit(2);
        }
    }
}

/// Appends `count` messages of one topic, round robin over its queues, as a producer would send them: tags and a unique key.
fn append_messages(store: &Store, body: &[u8], count: u64, first: u64, batch: usize, topics: &[String], queues: u64) {
    let host = Host { ip: [127, 0, 0, 1].into(), port: 10911 };
    let mut results: Vec<Appended> = Vec::with_capacity(batch);
    let mut properties = vec![String::new(); batch];
    let mut sent = 0;
    while sent < count {
        let now = now_ms();
        let these = batch.min((count - sent) as usize);
        for (i, text) in properties.iter_mut().take(these).enumerate() {
            use std::fmt::Write;
            text.clear();
            let number = first + sent + i as u64;
            write!(text, "UNIQ_KEY\u{1}7F000001{number:024X}\u{2}TAGS\u{1}TagA\u{2}CLUSTER\u{1}DefaultCluster")
                .expect("to memory");
        }
        let messages: Vec<Message<'_>> = (0..these)
            .map(|i| {
                let number = first + sent + i as u64;
                Message {
                    topic: &topics[(number / queues % topics.len() as u64) as usize],
                    queue_id: (number % queues) as i32,
                    flag: 0,
                    sys_flag: 0,
                    born_timestamp: now,
                    born_host: host,
                    store_host: host,
                    reconsume_times: 0,
                    prepared_transaction_offset: 0,
                    body,
                    properties: &properties[i],
                }
            })
            .collect();
        results.clear();
        store.append_many(&messages, now, &mut results).expect("append");
        sent += these as u64;
    }
}

fn append(arguments: &Arguments) {
    let body = vec![b'x'; arguments.number("body", 128) as usize];
    let (count, warm_up) = (arguments.number("messages", 1_000_000), arguments.number("warm-up", 200_000));
    let (batch, queues) = (arguments.number("batch", 1) as usize, arguments.number("queues", 8));
    let topics: Vec<String> = (0..arguments.number("topics", 1)).map(|i| format!("bench{i}")).collect();
    let store = Store::open(&arguments.dir(), Options::default()).expect("open");
    append_messages(&store, &body, warm_up, 0, batch, &topics, queues);
    let started = Instant::now();
    append_messages(&store, &body, count, warm_up, batch, &topics, queues);
    report("append", count, started, &[("body", body.len() as u64), ("batch", batch as u64)]);
    store.close().expect("close");
}

fn read(arguments: &Arguments) {
    let store = Store::open(&arguments.dir(), Options::default()).expect("open");
    let max_messages = arguments.number("max", 32) as usize;
    let limits = Limits { max_messages, max_bytes: 256 << 10 };
    let started = Instant::now();
    let (mut count, mut bytes) = (0u64, 0u64);
    for (topic, queue_id) in store.queues().expect("queues") {
        let mut offset = store.min_offset(&topic, queue_id).expect("min offset");
        loop {
            let request = ReadRequest {
                topic: &topic,
                queue_id,
                offset,
                max_messages,
                in_memory: limits,
                on_disk: limits,
                memory_bytes: i64::MAX,
                tags_codes: None,
            };
            let found = store.read(&request).expect("read");
            if found.status != ReadStatus::Found {
                break;
            }
            // What a pull answer needs: the length of each record, from its bytes.
            for record in found.records() {
                bytes += u64::from(u32::from_be_bytes(record[..4].try_into().expect("4 bytes")));
            }
            count += found.len() as u64;
            offset = found.next_offset;
        }
    }
    report("read", count, started, &[("bytes", bytes)]);
    store.close().expect("close");
}

fn fill(arguments: &Arguments) {
    let store = Store::open(&arguments.dir(), Options::default()).expect("open");
    let body = vec![b'x'; 64 << 10];
    let queues = arguments.number("queues", 1000);
    let count = arguments.number("bytes", 10 << 30) / (body.len() as u64 + 200);
    let topics: Vec<String> = (0..queues.div_ceil(8)).map(|i| format!("bench{i}")).collect();
    let started = Instant::now();
    append_messages(&store, &body, count, 0, 16, &topics, 8);
    store.close().expect("close");
    report("fill", count, started, &[("queues", queues)]);
}

fn open(arguments: &Arguments) {
    let started = Instant::now();
    let store = Store::open(&arguments.dir(), Options::default()).expect("open");
    let elapsed = started.elapsed();
    let queues = store.queues().expect("queues").len();
    let log_bytes = store.max_physical_offset().expect("max") - store.min_physical_offset().expect("min");
    println!(
        "{{\"what\":\"open\",\"seconds\":{:.6},\"resident_bytes\":{},\"queues\":{queues},\"log_bytes\":{log_bytes}}}",
        elapsed.as_secs_f64(),
        resident_bytes()
    );
    store.close().expect("close");
}

fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("/proc");
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).expect("resident pages") * 4096
}

fn report(what: &str, messages: u64, started: Instant, more: &[(&str, u64)]) {
    let seconds = started.elapsed().as_secs_f64();
    let more: String = more.iter().map(|(name, value)| format!(",\"{name}\":{value}")).collect();
    println!(
        "{{\"what\":\"{what}\",\"messages\":{messages},\"seconds\":{seconds:.6},\"per_second\":{:.0}{more}}}",
        messages as f64 / seconds
    );
}

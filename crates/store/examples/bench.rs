//! The store measured through its Rust API, beside `benches/peers/StoreBench.java` and with the same words. One JSON line per run.
//!
//! ```text
//! append --dir D --body BYTES --messages N --warmup N --queues N    one message per call, one thread, async flush
//! read   --dir D --messages N --warmup N --queues N                 up to 32 messages per call, queue after queue
//! fill   --dir D --log-gib N --queues N --body BYTES                a large store, for `open`
//! open   --dir D                                                    time and resident memory of opening it
//! ```

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use store::{Host, Limits, Message, Options, ReadRequest, ReadStatus, Store};

const TOPIC: &str = "bench";
const READ_BATCH: usize = 32;
/// Between warm-up and measurement, on both sides: what background threads have left to do shall be done.
const PAUSE: Duration = Duration::from_secs(2);

struct Words(HashMap<String, String>);

impl Words {
    fn number(&self, name: &str) -> u64 {
        let value = self.0.get(name).unwrap_or_else(|| panic!("--{name} NUMBER is missing"));
        value.parse().unwrap_or_else(|_| panic!("--{name} {value}: not a number"))
    }

    fn open_store(&self) -> Store {
        let dir = PathBuf::from(self.0.get("dir").expect("--dir DIRECTORY"));
        Store::open(&dir, Options::default()).expect("the store opens")
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let command = arguments.next().unwrap_or_default();
    let mut words = Words(HashMap::new());
    while let (Some(name), Some(value)) = (arguments.next(), arguments.next()) {
        words.0.insert(name.trim_start_matches("--").to_string(), value);
    }
    match command.as_str() {
        "append" => append(&words),
        "read" => read(&words),
        "fill" => fill(&words),
        "open" => open(&words),
        _ => {
            eprintln!("usage: bench append|read|fill|open --dir D …");
            std::process::exit(2);
        }
    }
}

fn append(words: &Words) {
    let store = words.open_store();
    let body = vec![0; words.number("body") as usize];
    let (queues, warmup, messages) = (words.number("queues"), words.number("warmup"), words.number("messages"));
    let topic = |_| TOPIC;
    put(&store, &body, 0..warmup, queues, topic);
    std::thread::sleep(PAUSE);
    let start = Instant::now();
    put(&store, &body, warmup..warmup + messages, queues, topic);
    print_rate(messages, start, 0);
    store.close().expect("the store closes");
}

/// One call per message, as Java's side does it: with a unique key and a tag, as a producer would send it.
fn put<'t>(store: &Store, body: &[u8], numbers: std::ops::Range<u64>, queues: u64, topic: impl Fn(u64) -> &'t str) {
    let host = Host { ip: [127, 0, 0, 1].into(), port: 10911 };
    let mut properties = String::new();
    let mut results = Vec::new();
    for number in numbers {
        properties.clear();
        properties.push_str("UNIQ_KEY\u{1}7F00000100002A9F0000018B");
        for digit in (0..8).rev() {
            properties.push(char::from(b"0123456789ABCDEF"[(number >> (4 * digit) & 15) as usize]));
        }
        properties.push_str("\u{2}TAGS\u{1}TagA");
        let message = Message {
            topic: topic(number),
            queue_id: (number % queues) as i32,
            flag: 0,
            sys_flag: 0,
            born_timestamp: 1_700_000_000_000,
            born_host: host,
            store_host: host,
            reconsume_times: 0,
            prepared_transaction_offset: 0,
            body,
            properties: &properties,
        };
        results.clear();
        store.append_many(&[message], now_ms(), &mut results).expect("the message is appended");
    }
}

fn read(words: &Words) {
    let store = words.open_store();
    let (queues, warmup, messages) = (words.number("queues"), words.number("warmup"), words.number("messages"));
    get(&store, queues, warmup);
    let start = Instant::now();
    let bytes = get(&store, queues, messages);
    print_rate(messages, start, bytes);
    store.close().expect("the store closes");
}

fn get(store: &Store, queues: u64, messages: u64) -> u64 {
    let limits = Limits { max_messages: READ_BATCH, max_bytes: 256 << 10 };
    let (mut bytes, mut count) = (0, 0);
    for queue_id in 0..queues as i32 {
        let mut offset = 0;
        while count < messages {
            let request = ReadRequest {
                topic: TOPIC,
                queue_id,
                offset,
                max_messages: READ_BATCH,
                in_memory: limits,
                on_disk: limits,
                memory_bytes: i64::MAX,
                tags_codes: None,
                filter: None,
                resident_beyond: None,
            };
            let result = store.read(&request).expect("the queue is read");
            if result.status != ReadStatus::Found {
                break;
            }
            bytes += result.bytes as u64;
            count += result.len() as u64;
            offset = result.next_offset;
        }
    }
    assert!(count >= messages, "the store holds only {count} of {messages} messages");
    bytes
}

fn fill(words: &Words) {
    let store = words.open_store();
    let body = vec![0; words.number("body") as usize];
    let queues = words.number("queues");
    let topics: Vec<String> = (0..queues.div_ceil(8)).map(|i| format!("{TOPIC}{i}")).collect();
    let messages = (words.number("log-gib") << 30) / (body.len() as u64 + 160);
    let start = Instant::now();
    put(&store, &body, 0..messages, 8, |number| &topics[(number / 8) as usize % topics.len()]);
    store.close().expect("the store closes");
    print_rate(messages, start, 0);
}

fn open(words: &Words) {
    let start = Instant::now();
    let store = words.open_store();
    let seconds = start.elapsed().as_secs_f64();
    let status = std::fs::read_to_string("/proc/self/status").expect("/proc is mounted");
    let resident = status.lines().find(|line| line.starts_with("VmRSS:")).expect("a resident size");
    let kilobytes: String = resident.chars().filter(char::is_ascii_digit).collect();
    let megabytes = kilobytes.parse::<f64>().expect("a number") / 1024.0;
    let log_bytes = store.max_physical_offset().expect("open") - store.min_physical_offset().expect("open");
    let queues = store.queues().expect("open").len();
    println!(
        "{{\"seconds\":{seconds:.6},\"resident_mb\":{megabytes:.1},\"queues\":{queues},\"log_bytes\":{log_bytes}}}"
    );
    store.close().expect("the store closes");
}

fn print_rate(messages: u64, start: Instant, bytes: u64) {
    let seconds = start.elapsed().as_secs_f64();
    let rate = messages as f64 / seconds;
    println!("{{\"messages\":{messages},\"seconds\":{seconds:.6},\"messages_per_s\":{rate:.0},\"bytes\":{bytes}}}");
}

fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis() as i64
}

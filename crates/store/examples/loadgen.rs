//! The load of the broker benchmark: the same bytes for whichever broker listens.
//!
//! ```text
//! loadgen send|pull --address HOST:PORT --topic T --queues N --connections N --messages N [--body BYTES] [--window N]
//! ```
//! One thread waits on all connections with epoll; each has one request in flight, the way a synchronous producer or one queue of
//! a consumer has, or as many sends as the window says. A pull asks for 32 messages and begins again at the queue's first when it has read the last. Prints one line of
//! JSON: messages per second, and the latency of a request in microseconds at the median and at the 99th of 100.

use std::collections::{HashMap, VecDeque};
use std::error::Error;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use wire::frame::{self, Cut};
use wire::header::{Command, Encoding, Language};

const SEND_MESSAGE_V2: i32 = 310;
const PULL_MESSAGE: i32 = 11;
const PULLED_AT_ONCE: &str = "32";
const SILENCE: Duration = Duration::from_secs(20);

type Fallible<T> = Result<T, Box<dyn Error>>;

struct Load {
    sends: bool,
    topic: String,
    queues: usize,
    messages: u64,
    body: Vec<u8>,
    window: usize,
}

struct Connection {
    socket: TcpStream,
    received: Vec<u8>,
    queue_id: usize,
    offset: u64,
    asked_at: VecDeque<Instant>,
}

fn main() -> Fallible<()> {
    let mut words = std::env::args().skip(1);
    let verb = words.next().ok_or("send or pull?")?;
    let mut options = HashMap::new();
    while let Some(name) = words.next() {
        options.insert(name.trim_start_matches("--").to_owned(), words.next().ok_or(name)?);
    }
    let option = |name: &str| options.get(name).cloned().ok_or(format!("--{name} is missing"));
    let load = Load {
        sends: verb == "send",
        topic: option("topic")?,
        queues: option("queues")?.parse()?,
        messages: option("messages")?.parse()?,
        body: vec![b'b'; options.get("body").map_or(Ok(0), |bytes| bytes.parse())?],
        window: options.get("window").map_or(Ok(1), |requests| requests.parse())?,
    };
    let address = option("address")?;
    let connections = (0..option("connections")?.parse()?)
        .map(|number| Connection::open(&address, number % load.queues))
        .collect::<Fallible<Vec<_>>>()?;
    run(&load, connections)
}

fn run(load: &Load, mut connections: Vec<Connection>) -> Fallible<()> {
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    for (number, connection) in connections.iter().enumerate() {
        epoll::add(&poll, &connection.socket, epoll::EventData::new_u64(number as u64), epoll::EventFlags::IN)?;
    }
    let mut latencies_us = Vec::with_capacity(1 << 20);
    let mut sequence = 0;
    let mut done = 0;
    let began = Instant::now();
    for connection in &mut connections {
        connection.ask(load, load.window, &mut sequence)?;
    }
    let mut events = Vec::with_capacity(connections.len());
    while done < load.messages {
        events.clear();
        epoll::wait(&poll, spare_capacity(&mut events), Some(&SILENCE.try_into()?))?;
        if events.is_empty() {
            return Err("the broker has fallen silent".into());
        }
        for event in &events {
            let connection = &mut connections[event.data.u64() as usize];
            let answered = latencies_us.len();
            done += connection.take_answers(load, &mut latencies_us)?;
            connection.ask(load, latencies_us.len() - answered, &mut sequence)?;
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    latencies_us.sort_unstable();
    let at = |share: f64| latencies_us[((latencies_us.len() - 1) as f64 * share) as usize];
    println!("{{\"per_second\": {:.0}, \"p50_us\": {}, \"p99_us\": {}}}", done as f64 / seconds, at(0.5), at(0.99));
    Ok(())
}

impl Connection {
    fn open(address: &str, queue_id: usize) -> Fallible<Connection> {
        let socket = TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        socket.set_nonblocking(true)?;
        Ok(Connection { socket, received: Vec::with_capacity(1 << 20), queue_id, offset: 0, asked_at: VecDeque::new() })
    }

    fn ask(&mut self, load: &Load, requests: usize, sequence: &mut u64) -> Fallible<()> {
        let mut bytes = Vec::with_capacity(requests * (1024 + load.body.len()));
        for _ in 0..requests {
            *sequence += 1;
            let (code, pairs) = if load.sends { self.send(load, *sequence) } else { self.pull(load) };
            let command = Command {
                code,
                language: Language::Java,
                version: 407,
                opaque: (*sequence & 0x7FFF_FFFF) as i32,
                flag: 0,
                remark: None,
                ext_fields: Some(pairs.into_iter().map(|(name, value)| (name.into(), value.into())).collect()),
            };
            frame::encode(&command, Encoding::Json, if load.sends { &load.body } else { &[] }, &mut bytes)?;
            self.asked_at.push_back(Instant::now());
        }
        // A few small requests in flight: the socket has room for them.
        self.socket.write_all(&bytes)?;
        Ok(())
    }

    fn send(&self, load: &Load, sequence: u64) -> (i32, Vec<(&'static str, String)>) {
        let born_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let queue_id = sequence as usize % load.queues;
        let properties =
            format!("UNIQ_KEY\u{1}7F00000100002A139A4B{sequence:012X}\u{2}WAIT\u{1}true\u{2}TAGS\u{1}TagA");
        let pairs = vec![
            ("a", "bench-producer".to_owned()),
            ("b", load.topic.clone()),
            ("c", "TBW102".to_owned()),
            ("d", load.queues.to_string()),
            ("e", queue_id.to_string()),
            ("f", "0".to_owned()),
            ("g", born_ms.to_string()),
            ("h", "0".to_owned()),
            ("i", properties),
            ("j", "0".to_owned()),
            ("k", "false".to_owned()),
            ("m", "false".to_owned()),
        ];
        (SEND_MESSAGE_V2, pairs)
    }

    fn pull(&self, load: &Load) -> (i32, Vec<(&'static str, String)>) {
        let pairs = vec![
            ("consumerGroup", "bench-consumer".to_owned()),
            ("topic", load.topic.clone()),
            ("queueId", self.queue_id.to_string()),
            ("queueOffset", self.offset.to_string()),
            ("maxMsgNums", PULLED_AT_ONCE.to_owned()),
            ("sysFlag", "4".to_owned()),
            ("commitOffset", "0".to_owned()),
            ("suspendTimeoutMillis", "0".to_owned()),
            ("subscription", "*".to_owned()),
            ("subVersion", "0".to_owned()),
            ("expressionType", "TAG".to_owned()),
        ];
        (PULL_MESSAGE, pairs)
    }

    /// Reads what is there; the number of messages sent or pulled by the answers that are whole.
    fn take_answers(&mut self, load: &Load, latencies_us: &mut Vec<u64>) -> Fallible<u64> {
        let mut portion = [0; 1 << 16];
        loop {
            match self.socket.read(&mut portion) {
                Ok(0) => return Err("the broker has closed a connection".into()),
                Ok(length) => self.received.extend_from_slice(&portion[..length]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error.into()),
            }
        }
        let (mut taken, mut messages) = (0, 0);
        while let Cut::Frame { frame, len } = frame::cut(&self.received[taken..])? {
            taken += len;
            let answer = frame.command()?;
            if answer.code != 0 {
                return Err(format!("the broker answers {}: {:?}", answer.code, answer.remark).into());
            }
            // Answers come in any order; with more than one in flight the latency is that of the window.
            let asked_at = self.asked_at.pop_front().ok_or("more answers than requests")?;
            latencies_us.push(asked_at.elapsed().as_micros() as u64);
            if load.sends {
                messages += 1;
                continue;
            }
            messages += wire::record::decode_list_with(frame.body, wire::Crc::Trust).count() as u64;
            let number = |name| answer.ext(name).and_then(|text| text.parse().ok()).unwrap_or(0_u64);
            let next = number("nextBeginOffset");
            self.offset = if next < number("maxOffset") { next } else { 0 };
        }
        self.received.drain(..taken);
        Ok(messages)
    }
}

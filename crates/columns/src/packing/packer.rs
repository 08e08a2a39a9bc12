//! Groups rows and writes their bytes.
use std::collections::{HashMap, HashSet};

use arrow_array::Array;
use arrow_array::cast::AsArray;
use wire::batch::BatchMessage;
use wire::hash::java_hash;
use wire::properties::{DELAY, KEYS, MAX_LEN, TAGS, UNIQ_KEY, is_name};

use super::ids::{Ids, RowText};
use super::rows::{Rows, int_at, long_at, text_at};
use super::send::{PackError, Place, Send};

const MAX_TOPIC_LEN: usize = 127;
/// Prefix of topics for which brokers accept no batches.
const RETRY_PREFIX: &str = "%RETRY%";
/// Property with the deliver time of a message, in epoch milliseconds.
const TIMER_DELIVER_MS: &str = "TIMER_DELIVER_MS";

/// Size limits of packing.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Maximum size of one batch in bytes.
    pub batch_bytes: usize,
    /// Maximum size of one body in bytes.
    pub body_bytes: usize,
    /// Maximum size of all groups that are not full yet, in bytes.
    pub waiting_bytes: usize,
}

/// Packs rows into sends.
pub struct Packer {
    limits: Limits,
    topic: Option<String>,
    left_out: HashSet<String>,
    ids: Ids,
    groups: HashMap<(String, Place), Group>,
    waiting_bytes: usize,
    packed: u64,
    properties: String,
    place: String,
}

#[derive(Default)]
struct Group {
    body: Vec<u8>,
    rows: u32,
}

impl Packer {
    /// Creates a packer; if `topic` is given, all rows go to it. Properties named in `left_out` are not sent, as they
    /// are reserved for RocketMQ.
    pub fn new(limits: Limits, topic: Option<String>, left_out: HashSet<String>, ids: Ids) -> Packer {
        Packer {
            limits,
            topic,
            left_out,
            ids,
            groups: HashMap::new(),
            waiting_bytes: 0,
            packed: 0,
            properties: String::new(),
            place: String::new(),
        }
    }

    /// Returns the source of ids.
    pub fn ids_mut(&mut self) -> &mut Ids {
        &mut self.ids
    }

    /// Returns the topics of rows, each once.
    pub fn topics(&self, rows: &Rows<'_>) -> Result<Vec<String>, PackError> {
        if let Some(topic) = &self.topic {
            return Ok(vec![topic.clone()]);
        }
        let mut topics: Vec<String> = Vec::new();
        for row in 0..rows.len {
            let topic = text_at(rows.topic, row).ok_or(PackError::NoTopic { row: self.packed + row as u64 })?;
            if topics.last().is_none_or(|last| last != topic) && !topics.iter().any(|known| known == topic) {
                check_topic(topic, self.packed + row as u64)?;
                topics.push(topic.to_owned());
            }
        }
        Ok(topics)
    }

    /// Packs rows and returns the full sends. `queue_counts` has the number of queues of each broker of a topic, for
    /// sharding keys.
    pub fn push(&mut self, rows: &Rows<'_>, queue_counts: &HashMap<String, Vec<u32>>) -> Result<Vec<Send>, PackError> {
        let mut full = Vec::new();
        let fixed = self.topic.take();
        let outcome = (0..rows.len).try_for_each(|row| {
            let number = self.packed + row as u64;
            let topic = match &fixed {
                Some(topic) => topic,
                None => text_at(rows.topic, row).ok_or(PackError::NoTopic { row: number })?,
            };
            if fixed.is_none() {
                check_topic(topic, number)?;
            }
            self.push_row(rows, row, number, topic, queue_counts, &mut full)
        });
        self.topic = fixed;
        self.packed += rows.len as u64;
        outcome.map(|()| full)
    }

    /// Returns all sends that wait for more rows.
    pub fn finish(&mut self) -> Vec<Send> {
        self.waiting_bytes = 0;
        self.groups.drain().map(|((topic, place), group)| group.into_send(topic, place)).collect()
    }

    fn push_row(
        &mut self,
        rows: &Rows<'_>,
        row: usize,
        number: u64,
        topic: &str,
        queue_counts: &HashMap<String, Vec<u32>>,
        full: &mut Vec<Send>,
    ) -> Result<(), PackError> {
        let body = match rows.body.is_valid(row).then(|| rows.body.value(row)) {
            None | Some([]) => return Err(PackError::NoBody { row: number }),
            Some(body) if body.len() > self.limits.body_bytes => {
                return Err(PackError::BodyTooLarge { row: number, len: body.len(), limit: self.limits.body_bytes });
            }
            Some(body) => body,
        };
        let place = place_of(rows, row, number, topic, queue_counts)?;
        let delayed = self.write_properties(rows, row, number)?;
        self.place.clear();
        if let Some(key) = text_at(rows.sharding_key, row) {
            self.place.push_str(key);
        } else if let Place::Broker(_) | Place::Queue { .. } = place {
            self.place.push_str(&format!("{place:?}"));
        }
        let id = self.ids.next(&RowText { topic, place: &self.place, properties: &self.properties, body });
        let id = std::str::from_utf8(&id).unwrap_or_default();
        put(&mut self.properties, UNIQ_KEY, id);
        if self.properties.len() > MAX_LEN - 64 {
            // The broker adds its cluster's name, and the scope if there is one.
            return Err(PackError::PropertiesTooLong { row: number, len: self.properties.len() });
        }
        // The text is taken out of `self` while the groups change, and put back at the end, so that its capacity is
        // reused from row to row.
        let properties = std::mem::take(&mut self.properties);
        let alone = delayed || topic.starts_with(RETRY_PREFIX);
        self.add(topic, place, alone, BatchMessage { flag: 0, body, properties: &properties }, full);
        self.properties = properties;
        Ok(())
    }

    fn add(&mut self, topic: &str, place: Place, alone: bool, message: BatchMessage<'_>, full: &mut Vec<Send>) {
        let len = message.encoded_len();
        if alone || len > self.limits.batch_bytes {
            if !matches!(place, Place::Any | Place::Broker(_)) {
                // Rows that wait for the same queue are sent first.
                full.extend(self.take((topic.to_owned(), place.clone())));
            }
            full.push(Send {
                topic: topic.to_owned(),
                place,
                body: message.body.to_vec(),
                properties: Some(message.properties.to_owned()),
                rows: 1,
            });
            return;
        }
        let key = (topic.to_owned(), place);
        if self.groups.get(&key).is_some_and(|group| group.body.len() + len > self.limits.batch_bytes) {
            full.extend(self.take(key.clone()));
        }
        let group = self.groups.entry(key).or_default();
        if group.body.is_empty() {
            group.body.reserve(self.limits.batch_bytes.min(64 << 10));
        }
        message.encode(&mut group.body).expect("both lengths were compared with what their fields hold");
        group.rows += 1;
        self.waiting_bytes += len;
        if self.waiting_bytes > self.limits.waiting_bytes {
            full.extend(self.finish());
        }
    }

    fn take(&mut self, key: (String, Place)) -> Option<Send> {
        let group = self.groups.remove(&key)?;
        self.waiting_bytes -= group.body.len();
        Some(group.into_send(key.0, key.1))
    }

    /// Writes the properties of a row except its id. Returns true if the message is delayed.
    fn write_properties(&mut self, rows: &Rows<'_>, row: usize, number: u64) -> Result<bool, PackError> {
        let text = &mut self.properties;
        text.clear();
        if let Some(tags) = text_at(rows.tags, row) {
            put_checked(text, TAGS, tags, number, "tags")?;
        }
        if let Some(keys) = rows.keys.filter(|keys| keys.is_valid(row)) {
            put_keys(text, keys.value(row).as_string::<i32>(), number)?;
        }
        if let Some(map) = rows.properties.filter(|map| map.is_valid(row)) {
            let entries = map.value(row);
            let (names, values) = (entries.column(0).as_string::<i32>(), entries.column(1).as_string::<i32>());
            for entry in 0..entries.len() {
                let (name, value) = (names.value(entry), text_at(Some(values), entry));
                let own = match name {
                    TAGS => rows.tags.is_some(),
                    KEYS => rows.keys.is_some(),
                    name => name.is_empty() || self.left_out.contains(name),
                };
                if let (false, Some(value)) = (own, value) {
                    if !is_name(name) {
                        return Err(PackError::Separator { row: number, what: "the name of a property" });
                    }
                    put_checked(text, name, value, number, "a property")?;
                }
            }
        }
        let level = int_at(rows.delay_level, row).filter(|&level| level > 0);
        let deliver_at = long_at(rows.deliver_at_ms, row);
        match (level, deliver_at) {
            (Some(_), Some(_)) => return Err(PackError::TwoTimes { row: number }),
            (Some(level), None) => put(text, DELAY, &level.to_string()),
            (None, Some(time)) => put(text, TIMER_DELIVER_MS, &time.to_string()),
            (None, None) => return Ok(false),
        }
        Ok(true)
    }
}

impl Group {
    fn into_send(self, topic: String, place: Place) -> Send {
        let single = (self.rows == 1).then(|| BatchMessage::decode(&self.body).ok()).flatten();
        let (body, properties) = match single {
            Some((message, _)) => (message.body.to_vec(), Some(message.properties.to_owned())),
            None => (self.body, None),
        };
        Send { topic, place, body, properties, rows: self.rows }
    }
}

fn place_of(
    rows: &Rows<'_>,
    row: usize,
    number: u64,
    topic: &str,
    queue_counts: &HashMap<String, Vec<u32>>,
) -> Result<Place, PackError> {
    let broker = text_at(rows.broker_name, row);
    let queue_id = int_at(rows.queue_id, row);
    match (text_at(rows.sharding_key, row), queue_id) {
        (Some(_), Some(_)) => Err(PackError::TwoPlaces { row: number }),
        (Some(_), None) if broker.is_some() => Err(PackError::ShardOnBroker { row: number }),
        (Some(key), None) => slot_of(key, queue_counts.get(topic).map_or(&[], Vec::as_slice))
            .ok_or_else(|| PackError::NoQueues { row: number, topic: topic.to_owned() }),
        (None, Some(queue_id)) if queue_id < 0 => Err(PackError::BadQueueId { row: number, queue_id }),
        (None, Some(queue_id)) => Ok(Place::Queue { broker: broker.map(str::to_owned), queue_id }),
        (None, None) => Ok(broker.map_or(Place::Any, |broker| Place::Broker(broker.to_owned()))),
    }
}

/// Returns the queue of a key: first its broker, which stays the same when brokers get more queues, then one of that
/// broker's queues. With one count for all brokers together the result is the queue that RocketMQ's own clients choose.
fn slot_of(key: &str, counts: &[u32]) -> Option<Place> {
    let hash = java_hash(key).unsigned_abs();
    let brokers = u32::try_from(counts.len()).ok().filter(|&brokers| brokers > 0)?;
    let broker = (hash % brokers) as usize;
    let queue = (hash / brokers).checked_rem(counts[broker])?;
    Some(Place::Slot(counts[..broker].iter().sum::<u32>() + queue))
}

fn check_topic(topic: &str, row: u64) -> Result<(), PackError> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"%|_-".contains(&byte);
    if topic.len() > MAX_TOPIC_LEN || !topic.bytes().all(allowed) {
        return Err(PackError::BadTopic { row, topic: topic.chars().take(200).collect() });
    }
    Ok(())
}

fn put(text: &mut String, name: &str, value: &str) {
    if !text.is_empty() {
        text.push('\u{2}');
    }
    text.push_str(name);
    text.push('\u{1}');
    text.push_str(value);
}

fn put_checked(text: &mut String, name: &str, value: &str, row: u64, what: &'static str) -> Result<(), PackError> {
    if value.contains('\u{2}') {
        return Err(PackError::Separator { row, what });
    }
    put(text, name, value);
    Ok(())
}

fn put_keys(text: &mut String, keys: &arrow_array::StringArray, row: u64) -> Result<(), PackError> {
    let mut is_first = true;
    for key in keys.iter().flatten().filter(|key| !key.is_empty()) {
        if key.contains(' ') {
            return Err(PackError::KeyWithSpace { row, key: key.chars().take(200).collect() });
        }
        if is_first {
            put_checked(text, KEYS, key, row, "a key")?;
        } else if key.contains('\u{2}') {
            return Err(PackError::Separator { row, what: "a key" });
        } else {
            text.push(' ');
            text.push_str(key);
        }
        is_first = false;
    }
    Ok(())
}

//! Messages to store, and the result of storing them.

use wire::{Host, Record, properties, sys_flag};

use crate::index::Keys;

/// Topic that holds messages until their delay is over; its queues are the delay levels.
pub const SCHEDULE_TOPIC: &str = "SCHEDULE_TOPIC_XXXX";

/// Message as its sender and the broker made it. The store assigns offsets and store time.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    pub topic: &'a str,
    pub queue_id: i32,
    pub flag: i32,
    pub sys_flag: i32,
    pub born_timestamp: i64,
    pub born_host: Host,
    pub store_host: Host,
    pub reconsume_times: i32,
    pub prepared_transaction_offset: i64,
    pub body: &'a [u8],
    pub properties: &'a str,
}

impl<'a> Message<'a> {
    #[inline]
    pub(crate) fn record(&self, queue_offset: i64, physical_offset: i64, store_timestamp: i64) -> Record<'a> {
        Record {
            queue_id: self.queue_id,
            flag: self.flag,
            queue_offset,
            physical_offset,
            sys_flag: self.sys_flag,
            born_timestamp: self.born_timestamp,
            born_host: self.born_host,
            store_timestamp,
            store_host: self.store_host,
            reconsume_times: self.reconsume_times,
            prepared_transaction_offset: self.prepared_transaction_offset,
            body: self.body,
            topic: self.topic,
            properties: self.properties,
        }
    }
}

/// Position at which a message was stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    pub physical_offset: i64,
    pub size: u32,
    pub queue_offset: i64,
}

impl Appended {
    /// Returns the end of the message; the message is durable once the flushed watermark has reached this offset.
    pub fn end(&self) -> i64 {
        self.physical_offset + i64::from(self.size)
    }
}

/// True if the message belongs in a queue: half and rolled-back messages are in the log but in no queue.
#[inline]
pub(crate) fn is_queued(flags: i32) -> bool {
    matches!(flags & sys_flag::TRANSACTION_MASK, 0 | sys_flag::TRANSACTION_COMMIT)
}

#[inline]
pub(crate) fn is_indexed(flags: i32) -> bool {
    flags & sys_flag::TRANSACTION_MASK != sys_flag::TRANSACTION_ROLLBACK
}

/// Properties from which the queue units and the index entries are built.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Routing<'a> {
    pub keys: Keys<'a>,
    tags: Option<&'a str>,
    delay_level: Option<&'a str>,
}

impl<'a> Routing<'a> {
    #[inline]
    pub fn of(properties: &'a str) -> Routing<'a> {
        let mut routing = Routing::default();
        for (name, value) in properties::iter(properties) {
            match name {
                "TAGS" => routing.tags = Some(value),
                "KEYS" => routing.keys.user = Some(value),
                "UNIQ_KEY" => routing.keys.unique = Some(value),
                "DELAY" => routing.delay_level = Some(value),
                _ => {}
            }
        }
        routing
    }

    /// Returns the tags code of the queue unit: the hash of the tags or, for a message that waits for its delay, its
    /// deliver time.
    #[inline]
    pub fn tags_code(&self, topic: &str, store_timestamp: i64, delay_levels_ms: &[i64]) -> i64 {
        if topic == SCHEDULE_TOPIC {
            let level = self.delay_level.and_then(|level| level.parse::<i64>().ok()).unwrap_or(0);
            if level > 0 {
                let last = delay_levels_ms.len();
                let delay = (level as usize).min(last).checked_sub(1).map_or(1000, |i| delay_levels_ms[i]);
                return store_timestamp + delay;
            }
        }
        wire::hash::tags_code(self.tags.unwrap_or(""))
    }
}

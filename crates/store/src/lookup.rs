//! Searches by store time, by key and by physical offset instead of by queue offset.

use std::sync::Arc;

use wire::record;

use crate::consume_queue::{ConsumeQueue, UNIT_LEN};
use crate::error::Result;
use crate::flush::Durable;
use crate::mapped_file::MappedFile;

/// Number of rounds in which a key query searches older entries when all it found has left the log.
const QUERY_ROUNDS: usize = 3;

/// Largest credible difference between the modification time of a queue file and the store time of its last message:
/// queue files are flushed at least once a minute, so a larger difference was not caused by writing.
const BELIEVABLE_LAG_MS: u64 = 120_000;

impl Durable {
    /// Returns the record at a physical offset, if a whole message begins there.
    pub fn record_at(&self, physical_offset: i64) -> Result<Option<Vec<u8>>> {
        match self.log.record_at(physical_offset)? {
            Some((file, pos, size)) => Ok(Some(file.bytes(pos, size)?.to_vec())),
            None => Ok(None),
        }
    }

    fn store_time_of(&self, physical_offset: i64) -> Result<Option<i64>> {
        match self.log.record_at(physical_offset)? {
            Some((file, pos, size)) => Ok(record::store_timestamp(file.bytes(pos, size)?)),
            None => Ok(None),
        }
    }

    fn time_at(&self, queue: &ConsumeQueue, queue_offset: i64) -> Result<Option<i64>> {
        match queue.unit(queue_offset)? {
            Some(unit) => self.store_time_of(unit.physical_offset),
            None => Ok(None),
        }
    }

    /// Returns the queue offset of the message stored at `timestamp_ms`, else of the one stored nearest to it within
    /// its queue file.
    ///
    /// File and bisection are chosen as in Java, so that both brokers return the same offset for every time.
    pub fn offset_by_time(&self, topic: &str, queue_id: i32, timestamp_ms: i64) -> Result<i64> {
        let Some(queue) = self.queues.get(topic, queue_id) else { return Ok(0) };
        let (min, max) = (queue.min(), queue.max());
        let per_file = (queue.files.file_size / UNIT_LEN) as i64;
        let Some(file) = self.queue_file_of(&queue, timestamp_ms)? else { return Ok(0) };
        let file_begin = (file.start / UNIT_LEN) as i64;
        let (mut low, mut high) = (min.max(file_begin), max.min(file_begin + per_file) - 1);
        let (mut before, mut after) = (None, None);
        while low <= high {
            // Java counts from the beginning of the file.
            let middle = file_begin + (low - file_begin + high - file_begin) / 2;
            // A blank stands for a missing message; the next unit that has a message is used instead.
            let mut mid = middle;
            while mid <= high && queue.unit(mid)?.is_some_and(|unit| unit.is_pre_blank()) {
                mid += 1;
            }
            if mid > high {
                high = middle - 1;
                continue;
            }
            match self.time_at(&queue, mid)? {
                Some(time) if time == timestamp_ms => return Ok(mid),
                Some(time) if time > timestamp_ms => {
                    after = Some((mid, time));
                    high = middle - 1;
                }
                Some(time) => {
                    before = Some((mid, time));
                    low = mid + 1;
                }
                // The message has left the log already, so it is older.
                None => low = mid + 1,
            }
        }
        Ok(match (before, after) {
            (Some((left, before)), Some((right, after))) => {
                if timestamp_ms.abs_diff(before) > after.abs_diff(timestamp_ms) { right } else { left }
            }
            (Some((left, _)), None) => left,
            (None, Some((right, _))) => right,
            (None, None) => 0,
        })
    }

    /// Returns the first file that was written to at `timestamp_ms` or later, else the last one.
    ///
    /// The modification time of a mapped file is that of the first write to a page since the page was last flushed: a
    /// little before its last message, or after it. Java uses only this time. The time is useless once the directory
    /// was copied or restored; it is then far from the store time of the file's last message, which is used instead.
    fn queue_file_of(&self, queue: &ConsumeQueue, timestamp_ms: i64) -> Result<Option<Arc<MappedFile>>> {
        let mut files = queue.files.all();
        let last = files.pop();
        for file in files {
            let modified = file.modified_ms()?;
            let written = match self.time_at(queue, (file.end() / UNIT_LEN) as i64 - 1)? {
                Some(stored) if stored.abs_diff(modified) > BELIEVABLE_LAG_MS => stored,
                _ => modified,
            };
            if written >= timestamp_ms {
                return Ok(Some(file));
            }
        }
        Ok(last)
    }

    /// Returns the store time of the oldest message of a queue.
    pub fn earliest_store_time(&self, topic: &str, queue_id: i32) -> Result<Option<i64>> {
        match self.queues.get(topic, queue_id) {
            Some(queue) => self.time_at(&queue, queue.min()),
            None => Ok(None),
        }
    }

    /// Returns the physical offsets, ascending, of messages that have the key (or one of the same hash), stored within
    /// the time range.
    pub fn query(&self, topic: &str, key: &str, max: usize, begin_ms: i64, end_ms: i64) -> Result<Vec<i64>> {
        let Some(index) = &self.index else { return Ok(Vec::new()) };
        let mut until_ms = end_ms;
        for _ in 0..QUERY_ROUNDS {
            let mut offsets = index.query(topic, key, max, begin_ms, until_ms)?;
            offsets.sort_unstable();
            let Some(&oldest) = offsets.first() else { break };
            let mut readable = Vec::with_capacity(offsets.len());
            for offset in offsets {
                if self.log.record_at(offset)?.is_some() {
                    readable.push(offset);
                }
            }
            if !readable.is_empty() {
                return Ok(readable);
            }
            match self.store_time_of(oldest)? {
                Some(time) => until_ms = time,
                None => break,
            }
        }
        Ok(Vec::new())
    }
}

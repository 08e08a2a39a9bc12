//! Selection of messages of the log, and the byte ranges that can hold them.
//!
//! A record is selected by its own fields ([`Selection::wants`]); ranges only avoid reading records that would be
//! rejected anyway. They come from three sources, of which the narrowest is used:
//!
//! * *time*: store timestamps rise along the log, so its ends are found by bisection.
//! * *queues*: their units lead to the neighbourhood of their messages.
//! * *keys*: the index leads to the records themselves.

use std::collections::HashMap;
use std::ops::Range;

use wire::Record;

use super::log_files::LogFile;
use super::log_ranges::{Gap, LogRange, clip, gap_mark};
use super::queue_files::QueueFiles;
use super::snapshot::Snapshot;
use super::{key_lookup, queue_lookup, time_lookup};
use crate::error::Result;
use crate::message::Routing;

/// Queue id that stands for the queues of a topic that are not named.
pub const OTHER_QUEUES: i32 = -1;

/// Range of wanted queue offsets of one queue.
pub type QueueWish = Range<i64>;

#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Wanted topics, each with its wanted queues, or `None` for all its queues; `None` selects every topic.
    pub topics: Option<HashMap<String, Option<HashMap<i32, QueueWish>>>>,
    /// Store time, from the first inclusively to the second exclusively.
    pub start_ms: Option<i64>,
    pub end_ms: Option<i64>,
    /// Messages with one of these keys; unique keys and user keys count.
    pub keys: Option<Vec<String>>,
}

impl Selection {
    #[inline]
    pub fn wants(&self, record: &Record<'_>) -> bool {
        if self.start_ms.is_some_and(|start| record.store_timestamp < start)
            || self.end_ms.is_some_and(|end| record.store_timestamp >= end)
        {
            return false;
        }
        if let Some(topics) = &self.topics {
            let wanted = match topics.get(record.topic) {
                Some(Some(queues)) => {
                    wish_of(queues, record.queue_id).is_some_and(|w| w.contains(&record.queue_offset))
                }
                Some(None) => true,
                None => false,
            };
            if !wanted {
                return false;
            }
        }
        match &self.keys {
            Some(keys) => Routing::of(record.properties).keys.iter().any(|key| keys.iter().any(|wanted| wanted == key)),
            None => true,
        }
    }

    pub(crate) fn wish_for(&self, queue: &QueueFiles) -> Option<QueueWish> {
        match self.topics.as_ref()?.get(&queue.topic)? {
            Some(queues) => wish_of(queues, queue.queue_id).cloned(),
            None => Some(0..i64::MAX),
        }
    }
}

fn wish_of(queues: &HashMap<i32, QueueWish>, queue_id: i32) -> Option<&QueueWish> {
    queues.get(&queue_id).or_else(|| queues.get(&OTHER_QUEUES))
}

impl Snapshot {
    /// Returns the whole log, file by file, and the first byte of every gap between the files: the range that holds
    /// this byte counts the gap.
    pub fn whole(&self) -> Vec<LogRange> {
        let end = |file: &LogFile| file.end().min(self.log_end);
        let file = |file: &LogFile| LogRange { start: file.start, end: end(file), aligned: true };
        let gaps = self.gaps.iter().filter(|(start, _)| *start <= self.log_end);
        let mut ranges: Vec<_> = self.log_files.iter().map(file).chain(gaps.map(|gap| gap_mark(*gap))).collect();
        ranges.retain(|range| range.start < range.end);
        ranges.sort_by_key(|range| range.start);
        ranges
    }

    pub(crate) fn gap_at(&self, position: u64) -> Option<Gap> {
        self.gaps.iter().copied().find(|(start, end)| (*start..*end).contains(&position))
    }

    /// Returns first and next queue offset of a queue.
    pub fn queue_bounds(&self, queue: &QueueFiles) -> Result<(u64, u64)> {
        Ok((queue.first(), queue.end(&self.log_files, self.log_end)?.next))
    }

    /// Returns the ranges of the log that can hold the messages that `selection` wants, in log order.
    pub fn ranges(&self, selection: &Selection) -> Result<Vec<LogRange>> {
        let (from, to) = time_lookup::bounds(self, selection)?;
        if let Some(ranges) = key_lookup::ranges(self, selection)? {
            return Ok(clip(ranges, from, to));
        }
        if let Some(ranges) = queue_lookup::ranges(self, selection, from, to)? {
            return Ok(ranges);
        }
        Ok(clip(self.whole(), from, to))
    }
}

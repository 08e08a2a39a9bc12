//! What of the log is wanted, and the byte ranges that can hold it.
//!
//! A record is judged by its own fields ([`Selection::wants`]); ranges only save reading what would be turned down anyway. They come
//! from three places, the narrowest wins:
//!
//! * *time*: store timestamps rise along the log, so its ends are found by bisection, files first, then bytes. A clock that was set
//!   back breaks the order; [`CLOCK_MARGIN_MS`] is allowed for.
//! * *queues*: the units of the wanted queues mark the granules of the log that hold one of their messages. What no queue knows yet
//!   (the end of the log) is always read.
//! * *keys*: the index leads to the records themselves.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use wire::Record;
use wire::record::store_timestamp;

use super::key_lookup;
use super::log_files::LogFile;
use super::queue_files::QueueFiles;
use super::range_scan::LogRange;
use super::snapshot::Snapshot;
use super::window::Window;
use crate::error::{Result, StoreError};
use crate::message::Routing;

/// How far a clock may have been set back while the broker ran.
const CLOCK_MARGIN_MS: i64 = 60_000;
/// Reading skips what is larger than this; smaller holes are read over.
const GRANULE: u64 = 256 << 10;
/// Up to and including STORETIMESTAMP of a record with IPv6 hosts.
const TIME_HEAD: usize = 80;

/// Stands for the queues of a topic that are not named.
pub const OTHER_QUEUES: i32 = -1;

/// Queue offsets wanted of one queue.
pub type QueueWish = Range<i64>;

#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Wanted topics, each with its wanted queues or all of them; `None` is every topic.
    pub topics: Option<HashMap<String, Option<HashMap<i32, QueueWish>>>>,
    /// Store time, from the first inclusively to the second exclusively.
    pub start_ms: Option<i64>,
    pub end_ms: Option<i64>,
    /// Messages with one of these keys, unique or the user's.
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

    fn wish_for(&self, queue: &QueueFiles) -> Option<QueueWish> {
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
    /// The whole log, file by file.
    pub fn whole(&self) -> Vec<LogRange> {
        let end = |file: &LogFile| file.end().min(self.log_end);
        let range = |file: &LogFile| LogRange { start: file.start, end: end(file), aligned: true };
        self.log_files.iter().map(range).filter(|range| range.start < range.end).collect()
    }

    /// First and next queue offset of a queue.
    pub fn queue_bounds(&self, queue: &QueueFiles) -> Result<(u64, u64)> {
        let (end, _) = queue.end(&self.log_files, self.log_end)?;
        Ok((queue.first(), end))
    }

    /// The ranges of the log that can hold what `selection` wants, in log order.
    pub fn ranges(&self, selection: &Selection) -> Result<Vec<LogRange>> {
        let (from, to) = self.time_bounds(selection)?;
        if let Some(ranges) = key_lookup::ranges(self, selection)? {
            return Ok(clip(ranges, from, to));
        }
        if selection.topics.is_some() && self.dispatched_end.is_some() {
            return self.queue_ranges(selection, from, to);
        }
        Ok(clip(self.whole(), from, to))
    }

    fn time_bounds(&self, selection: &Selection) -> Result<(LogRange, u64)> {
        let mut from = LogRange { start: self.log_start, end: self.log_end, aligned: true };
        let mut to = self.log_end;
        if let Some(start_ms) = selection.start_ms {
            let (below, _) = self.around(start_ms.saturating_sub(CLOCK_MARGIN_MS))?;
            from.start = below;
        }
        if let Some(end_ms) = selection.end_ms {
            let (_, above) = self.around(end_ms.saturating_add(CLOCK_MARGIN_MS))?;
            to = above;
        }
        Ok((from, to))
    }

    /// A record's position, or the log's start, before everything stored at `ms` or later; and a position behind everything stored before.
    fn around(&self, ms: i64) -> Result<(u64, u64)> {
        let mut begun = Vec::new();
        for file in &self.log_files {
            if file.start < self.log_end {
                begun.push((file, stored_at(file, file.start, file.start + GRANULE, self.log_end)?));
            }
        }
        // The newest file that begins before `ms`: the border lies in it.
        let Some((file, _)) = begun.iter().rfind(|(_, first)| first.is_some_and(|(_, stored)| stored < ms)) else {
            return Ok((self.log_start, begun.first().map_or(self.log_start, |(file, _)| file.start)));
        };
        let (mut below, mut above) = (file.start, file.end().min(self.log_end));
        while above - below > GRANULE {
            let middle = below + (above - below) / 2;
            match stored_at(file, middle, above, self.log_end)? {
                Some((position, stored)) if stored < ms => below = position,
                _ => above = middle,
            }
        }
        Ok((below, above))
    }

    fn queue_ranges(&self, selection: &Selection, from: LogRange, to: u64) -> Result<Vec<LogRange>> {
        // Granule → first wanted record in it.
        let mut granules: BTreeMap<u64, u64> = BTreeMap::new();
        for queue in &self.queues {
            let Some(wish) = selection.wish_for(queue) else { continue };
            let (end, _) = queue.end(&self.log_files, self.log_end)?;
            let first = queue.first_behind(from.start, end)?.max(wish.start.max(0) as u64);
            let last = end.min(wish.end.max(0) as u64);
            queue.walk::<StoreError>(first, last, |_, unit| {
                let position = unit.physical_offset as u64;
                if unit.is_valid() && !unit.is_pre_blank() && position >= from.start && position < to {
                    granules.entry(position / GRANULE).and_modify(|p| *p = position.min(*p)).or_insert(position);
                }
                Ok(())
            })?;
        }
        let mut ranges: Vec<LogRange> = Vec::new();
        for (granule, start) in granules {
            let end = ((granule + 1) * GRANULE).min(to);
            match ranges.last_mut() {
                Some(last) if last.end == granule * GRANULE => last.end = end,
                _ => ranges.push(LogRange { start, end, aligned: true }),
            }
        }
        let dispatched = self.dispatched_end.unwrap_or(self.log_start).max(from.start);
        if dispatched < to {
            match ranges.last_mut() {
                Some(last) if last.end >= dispatched => last.end = to,
                _ => ranges.push(LogRange { start: dispatched, end: to, aligned: true }),
            }
        }
        Ok(ranges)
    }
}

fn clip(ranges: Vec<LogRange>, from: LogRange, to: u64) -> Vec<LogRange> {
    let clipped = ranges.into_iter().map(|range| match range.start < from.start {
        true => LogRange { start: from.start, end: range.end.min(to), aligned: from.aligned },
        false => LogRange { end: range.end.min(to), ..range },
    });
    clipped.filter(|range| range.start < range.end).collect()
}

/// The first record that begins in `[from, to)` and when it was stored.
fn stored_at(file: &LogFile, from: u64, to: u64, log_end: u64) -> Result<Option<(u64, i64)>> {
    let mut window = Window::with_piece(file, log_end, 16 << 10)?;
    let Some(position) = window.find_record(from, to)? else { return Ok(None) };
    Ok(store_timestamp(window.bytes(position, TIME_HEAD)?).map(|stored| (position, stored)))
}

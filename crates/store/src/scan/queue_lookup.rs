//! Search from wanted queues to positions in the log, through their units.
//!
//! The units of the wanted queues mark the granules of the log that hold one of their messages. Parts of the log whose
//! messages the queues may lack are read as well:
//!
//! * the part behind the last message that any queue points to: a running Java broker fills its queues a little later;
//! * if the queues do not agree (see `snapshot`), the part behind the last message of a wanted queue, unless no later
//!   message of that queue is wanted. Queues that are not named may be missing altogether, so in that case all of the
//!   log is read;
//! * if units are missing in the middle of a queue, the part between the messages of their neighbours;
//! * if the last units of a queue do not lead to their messages, the part up to those positions: the messages may be
//!   damaged or lost, which must be reported.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

use super::log_ranges::{Gap, LogRange, clip, over_gaps, united};
use super::queue_files::QueueFiles;
use super::selection::{OTHER_QUEUES, QueueWish, Selection};
use super::snapshot::Snapshot;
use crate::error::{Result, StoreError};

/// Size from which unwanted parts are skipped; smaller parts between wanted records are read.
const GRANULE: u64 = 256 << 10;

/// Returns the ranges in `[from, to)` with messages of the wanted queues; `None` if there are no queues, or all queues
/// are wanted.
pub(crate) fn ranges(snapshot: &Snapshot, selection: &Selection, from: u64, to: u64) -> Result<Option<Vec<LogRange>>> {
    let (Some(topics), Some(dispatched_end)) = (&selection.topics, snapshot.dispatched_end) else { return Ok(None) };
    let mut known = Known::default();
    let mut ends = Ends::new();
    for queue in &snapshot.queues {
        let Some(wish) = selection.wish_for(queue) else { continue };
        let end = queue.end(&snapshot.log_files, snapshot.log_end)?;
        let physical_end = end.physical_end.unwrap_or(0);
        ends.insert((&queue.topic, queue.queue_id), (end.next as i64, physical_end));
        let first = queue.first_behind(from, end.next)?.max(wish.start.max(0) as u64);
        known.learn(queue, first, end.next.min(wish.end.max(0) as u64), from..to, snapshot)?;
        if let Some(doubtful_end) = end.doubtful_end.filter(|_| wish.end > end.next as i64) {
            known.unknown.push(physical_end..doubtful_end);
        }
    }
    let known_end = match snapshot.queues_agree {
        true => dispatched_end,
        false => {
            topics.iter().map(|(topic, queues)| known_end(topic, queues.as_ref(), &ends)).fold(dispatched_end, u64::min)
        }
    };
    let mut ranges = over_gaps(known.ranges(to.min(snapshot.log_end)), &snapshot.gaps, known.lost);
    known.unknown.push(known_end..u64::MAX);
    for stretch in known.unknown {
        ranges.extend(clip(snapshot.whole(), stretch.start.max(from), stretch.end.min(to)));
    }
    Ok(Some(united(ranges)))
}

/// Next queue offset, and end of the last message, by topic and queue id.
type Ends<'a> = HashMap<(&'a str, i32), (i64, u64)>;

/// Returns the end of the part of the log for which the wanted queues of a topic are complete.
fn known_end(topic: &str, queues: Option<&HashMap<i32, QueueWish>>, ends: &Ends<'_>) -> u64 {
    let Some(queues) = queues.filter(|queues| !queues.contains_key(&OTHER_QUEUES)) else { return 0 };
    let own_end = |(id, wish): (&i32, &QueueWish)| match ends.get(&(topic, *id)) {
        Some((end, _)) if wish.end <= *end => u64::MAX,
        Some((_, physical_end)) => *physical_end,
        None => 0,
    };
    queues.iter().map(own_end).min().unwrap_or(u64::MAX)
}

/// Parts of the log with known messages, and parts whose content is unknown.
#[derive(Default)]
struct Known {
    /// Granule → first wanted record in it.
    granules: BTreeMap<u64, u64>,
    /// Granule and wanted record of the last lookup: the next unit of a queue usually points right behind it.
    last: Option<(u64, u64)>,
    lost: BTreeSet<Gap>,
    unknown: Vec<Range<u64>>,
}

impl Known {
    /// Adds the units `[first, last)` of a queue that point into `within`.
    fn learn(
        &mut self,
        queue: &QueueFiles,
        first: u64,
        last: u64,
        within: Range<u64>,
        snapshot: &Snapshot,
    ) -> Result<()> {
        let (mut expected, mut is_hole) = (first, false);
        // End of the message of the last unit.
        let mut behind = within.start;
        queue.walk::<StoreError>(first, last, |offset, unit| {
            is_hole |= offset != expected || !unit.is_valid();
            expected = offset + 1;
            if !unit.is_valid() || unit.is_pre_blank() {
                return Ok(());
            }
            let position = unit.physical_offset as u64;
            if is_hole {
                self.unknown.push(behind..position);
            }
            (behind, is_hole) = (unit.end() as u64, false);
            if within.contains(&position) {
                self.add(position, snapshot.gap_at(position));
            }
            Ok(())
        })?;
        if is_hole || expected < last {
            self.unknown.push(behind..u64::MAX);
        }
        Ok(())
    }

    fn add(&mut self, position: u64, gap: Option<Gap>) {
        if let Some(gap) = gap {
            self.lost.insert(gap);
            return;
        }
        let granule = position / GRANULE;
        if self.last.is_some_and(|(at, first)| at == granule && first <= position) {
            return;
        }
        self.granules.entry(granule).and_modify(|p| *p = position.min(*p)).or_insert(position);
        self.last = Some((granule, position));
    }

    fn ranges(&self, to: u64) -> Vec<LogRange> {
        let range = |(granule, first): (&u64, &u64)| {
            // Neighbouring granules are read at once.
            let joined = granule.checked_sub(1).is_some_and(|before| self.granules.contains_key(&before));
            let start = if joined { granule * GRANULE } else { *first };
            LogRange { start, end: ((granule + 1) * GRANULE).min(to), aligned: !joined }
        };
        united(self.granules.iter().map(range).collect())
    }
}

//! From wanted queues to places in the log, through their units.
//!
//! The units of the wanted queues mark the granules of the log that hold one of their messages. What no queue knows yet (the end of
//! the log) is always read.

use std::collections::{BTreeMap, BTreeSet};

use super::log_ranges::{Gap, LogRange, clip, over_gaps, united};
use super::selection::Selection;
use super::snapshot::Snapshot;
use crate::error::{Result, StoreError};

/// Reading skips what is larger than this; smaller holes are read over.
const GRANULE: u64 = 256 << 10;

/// The places in `[from, to)` of the messages of the wanted queues; `None` when there are no queues to ask, or all are wanted.
pub(crate) fn ranges(snapshot: &Snapshot, selection: &Selection, from: u64, to: u64) -> Result<Option<Vec<LogRange>>> {
    let (Some(_), Some(dispatched_end)) = (&selection.topics, snapshot.dispatched_end) else { return Ok(None) };
    let mut known = Known::default();
    for queue in &snapshot.queues {
        let Some(wish) = selection.wish_for(queue) else { continue };
        let (end, _) = queue.end(&snapshot.log_files, snapshot.log_end)?;
        let first = queue.first_behind(from, end)?.max(wish.start.max(0) as u64);
        let last = end.min(wish.end.max(0) as u64);
        queue.walk::<StoreError>(first, last, |_, unit| {
            let position = unit.physical_offset as u64;
            if unit.is_valid() && !unit.is_pre_blank() && (from..to).contains(&position) {
                known.add(position, snapshot.gap_at(position));
            }
            Ok(())
        })?;
    }
    let mut ranges = over_gaps(known.ranges(to.min(snapshot.log_end)), &snapshot.gaps, known.lost);
    ranges.extend(clip(snapshot.whole(), dispatched_end.max(from), to));
    Ok(Some(united(ranges)))
}

/// Where messages are known to be.
#[derive(Default)]
struct Known {
    /// Granule → first wanted record in it.
    granules: BTreeMap<u64, u64>,
    lost: BTreeSet<Gap>,
}

impl Known {
    fn add(&mut self, position: u64, gap: Option<Gap>) {
        if let Some(gap) = gap {
            self.lost.insert(gap);
            return;
        }
        self.granules.entry(position / GRANULE).and_modify(|p| *p = position.min(*p)).or_insert(position);
    }

    fn ranges(&self, to: u64) -> Vec<LogRange> {
        let range = |(granule, first): (&u64, &u64)| {
            // Neighbours are read in one go.
            let joined = granule.checked_sub(1).is_some_and(|before| self.granules.contains_key(&before));
            let start = if joined { granule * GRANULE } else { *first };
            LogRange { start, end: ((granule + 1) * GRANULE).min(to), aligned: !joined }
        };
        united(self.granules.iter().map(range).collect())
    }
}

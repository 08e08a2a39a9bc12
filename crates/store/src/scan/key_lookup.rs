//! Search from keys to positions in the log, through the index.
//!
//! The index has every message under `topic#key`, so topics must be given. Messages stored behind the last indexed
//! message are read as well: the index may be a moment behind the log. So is the part between the last message of one
//! index file and the first message of the next: a Java broker that was killed drops files it does not trust, and
//! restores only a part of their entries.

use wire::hash::index_hash;

use super::index_view::IndexView;
use super::log_ranges::{LogRange, clip, gap_mark, united};
use super::selection::Selection;
use super::snapshot::Snapshot;
use crate::error::Result;

/// Returns the positions of the messages with the wanted keys; `None` if the index is not sufficient.
pub(crate) fn ranges(snapshot: &Snapshot, selection: &Selection) -> Result<Option<Vec<LogRange>>> {
    let (Some(keys), Some(topics)) = (&selection.keys, &selection.topics) else { return Ok(None) };
    // If the queues do not agree, parts of the index are of different moments, too.
    if !snapshot.queues_agree {
        return Ok(None);
    }
    let (views, unreadable) = IndexView::of_store(&snapshot.root)?;
    if !unreadable.is_empty() {
        return Ok(None);
    }
    // A log that reaches further back than the index has messages that are not in the index.
    let (Some(oldest), Some(newest)) = (views.first(), views.last()) else { return Ok(None) };
    if oldest.begin_physical > snapshot.log_start as i64 {
        return Ok(None);
    }
    let mut places = Vec::new();
    for view in &views {
        for topic in topics.keys() {
            for key in keys {
                let hash = index_hash(topic, key);
                view.chain(hash, |_, entry| {
                    if entry.hash == hash && entry.physical_offset >= snapshot.log_start as i64 {
                        places.push(entry.physical_offset as u64);
                    }
                    true
                })?;
            }
        }
    }
    let indexed = newest.end_physical.max(snapshot.log_start as i64) as u64;
    places.retain(|&place| place < indexed);
    let range = |start: u64| match snapshot.gap_at(start) {
        Some(gap) => gap_mark(gap),
        None => LogRange { start, end: start + 1, aligned: true },
    };
    let mut ranges: Vec<_> = places.into_iter().map(range).collect();
    let between =
        views.windows(2).map(|pair| (pair[0].end_physical.max(0) as u64, pair[1].begin_physical.max(0) as u64));
    for (from, to) in between.chain([(indexed, u64::MAX)]) {
        ranges.extend(clip(snapshot.whole(), from.max(snapshot.log_start), to));
    }
    Ok(Some(united(ranges)))
}

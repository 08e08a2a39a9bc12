//! Byte ranges of the log, and operations on them.
//!
//! A gap between files is marked by a range that holds its first byte: the scan of that range counts the gap.

use std::collections::BTreeSet;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogRange {
    pub start: u64,
    pub end: u64,
    /// True if a record is known to begin at `start`.
    pub aligned: bool,
}

/// `[start, end)` of a part that is in no file.
pub type Gap = (u64, u64);

pub(crate) fn gap_mark(gap: Gap) -> LogRange {
    LogRange { start: gap.0, end: gap.0 + 1, aligned: true }
}

/// Returns the parts of the ranges that lie in `[from, to)`; a record begins at `from`.
pub(crate) fn clip(ranges: Vec<LogRange>, from: u64, to: u64) -> Vec<LogRange> {
    let clipped = ranges.into_iter().map(|range| match range.start < from {
        true => LogRange { start: from, end: range.end.min(to), aligned: true },
        false => LogRange { end: range.end.min(to), ..range },
    });
    clipped.filter(|range| range.start < range.end).collect()
}

/// Returns the ranges in log order with touching ranges joined: nothing is read twice.
pub(crate) fn united(mut ranges: Vec<LogRange>) -> Vec<LogRange> {
    ranges.sort_by_key(|range| range.start);
    let mut made: Vec<LogRange> = Vec::new();
    for range in ranges {
        match made.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => made.push(range),
        }
    }
    made
}

/// Returns the ranges without their parts in gaps, and marks for the gaps in which something was `lost`.
pub(crate) fn over_gaps(ranges: Vec<LogRange>, gaps: &[Gap], lost: BTreeSet<Gap>) -> Vec<LogRange> {
    let mut readable = Vec::new();
    for mut range in ranges {
        for &(start, end) in gaps {
            if range.start < end && start < range.end {
                readable.push(LogRange { end: start, ..range });
                range = LogRange { start: end, aligned: true, ..range };
            }
        }
        readable.push(range);
    }
    readable.retain(|range| range.start < range.end);
    readable.extend(lost.into_iter().map(gap_mark));
    united(readable)
}

//! Search from store times to positions in the log.
//!
//! Store timestamps rise along the log, so the range is found by bisection, files first, then bytes. A clock that was
//! set back breaks the order; [`CLOCK_MARGIN_MS`] allows for it. The time of a part of the log without a readable
//! record is unknown: it is read if it may lie between the wanted times, and its damage is reported.

use wire::record::store_timestamp;

use super::log_files::LogFile;
use super::selection::Selection;
use super::snapshot::Snapshot;
use super::window::Window;
use crate::error::Result;

/// Time by which a clock may have been set back while the broker ran.
const CLOCK_MARGIN_MS: i64 = 60_000;
/// Size of a range at which bisection ends: the rest is read.
const CLOSE: u64 = 256 << 10;
/// Number of bytes up to and including STORETIMESTAMP of a record with IPv6 hosts.
const TIME_HEAD: usize = 80;

/// Returns `[from, to)` of the log that can hold the messages stored at the wanted times; a record, or a file, begins
/// at `from`.
pub(crate) fn bounds(snapshot: &Snapshot, selection: &Selection) -> Result<(u64, u64)> {
    let (mut from, mut to) = (snapshot.log_start, u64::MAX);
    if let Some(start_ms) = selection.start_ms {
        (from, _) = around(snapshot, start_ms.saturating_sub(CLOCK_MARGIN_MS))?;
    }
    if let Some(end_ms) = selection.end_ms {
        (_, to) = around(snapshot, end_ms.saturating_add(CLOCK_MARGIN_MS))?;
    }
    Ok((from, to))
}

/// Returns the position of a record, or the log's start, before every message stored at `ms` or later; and a position
/// behind every message stored before `ms`.
fn around(snapshot: &Snapshot, ms: i64) -> Result<(u64, u64)> {
    let log_end = snapshot.log_end;
    // Newest file that begins before `ms`, and first record of the first file that does not.
    let (mut border, mut above) = (None, u64::MAX);
    for file in snapshot.log_files.iter().filter(|file| file.start < log_end) {
        match stored_at(file, file.start, file.end(), log_end)? {
            Some((_, stored)) if stored < ms => (border, above) = (Some(file), u64::MAX),
            Some((position, _)) if above == u64::MAX => above = position,
            _ => {}
        }
    }
    let Some(file) = border else { return Ok((snapshot.log_start, above)) };
    let (mut below, mut until) = (file.start, file.end().min(log_end));
    while until - below > CLOSE {
        let middle = below + (until - below) / 2;
        match stored_at(file, middle, until, log_end)? {
            Some((position, stored)) if stored < ms => below = position,
            Some((position, _)) => (until, above) = (middle, position),
            None => until = middle,
        }
    }
    Ok((below, above))
}

/// Returns the first record that begins in `[from, to)` and its store time.
fn stored_at(file: &LogFile, from: u64, to: u64, log_end: u64) -> Result<Option<(u64, i64)>> {
    let mut window = match Window::with_piece(file, log_end, 16 << 10) {
        // The file has expired; the scan that reads it reports that.
        Err(error) if error.is_absence() => return Ok(None),
        opened => opened?,
    };
    let Some(position) = window.find_record(from, to)? else { return Ok(None) };
    Ok(store_timestamp(window.bytes(position, TIME_HEAD)?).map(|stored| (position, stored)))
}

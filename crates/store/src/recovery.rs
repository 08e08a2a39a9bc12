//! Recovery of a directory to a consistent state: the end of the log, the units of its queues, the entries of its
//! index.
//!
//! *After a clean exit* everything is on disk and the queues have all messages. The end of each queue is found by
//! bisection (units, then zeros), and its last unit is compared with the log. The log is read on from the last message
//! that any queue points to, which is its end unless records follow that belong to no queue. Nothing is mapped, so a
//! large store opens fast and uses little memory.
//!
//! *After a crash* only data that the checkpoint covers is trusted. According to the checkpoint, log and queues are on
//! disk up to a certain record. The scan begins at the log file with that record (or at the file found by Java's times,
//! if the record is not there). Every queue is cut back to that point and rebuilt from the log; the index is rebuilt
//! from its own trusted point. Each record is checked: magic, lengths, its own offset, body CRC. The first record that
//! fails is the end, and the bytes behind it are zeroed, so that no later reader (Java's included) can take them for
//! data. If a record fails that is read for the index alone, before the queues' trusted point, only the reading for the
//! index ends there. Bytes that the disk cannot read are not the end: reading continues at the next record behind them,
//! if there is one.
//!
//! Java never erases, so its directories may hold stale units behind the end of a queue. Comparing the last unit with
//! the log finds them.

use std::sync::Arc;
use std::time::Instant;

use wire::record::{Lead, RecordError, lead, physical_offset, store_timestamp};
use wire::{Crc, Record};

use crate::checkpoint::Mark;
use crate::commit_log::BLANK_LEN;
use crate::consume_queue::{ConsumeQueue, UNIT_LEN, Unit};
use crate::error::Result;
use crate::flush::{Durable, Newest};
use crate::index::Index;
use crate::log_peek::LogPeek;
use crate::mapped_file::MappedFile;
use crate::options::Options;
use crate::rebuild::Rebuild;
use crate::scan::log_files::LogFile;
use crate::scan::window::Window;

/// Report of recovery at the opening of a store.
#[derive(Clone, Debug, Default)]
pub struct Recovery {
    pub clean_exit: bool,
    pub log_end: i64,
    /// Offset at which reading of the log began, and the number of messages that were added to queues again.
    pub scanned_from: i64,
    pub rebuilt: u64,
    pub elapsed_ms: u64,
    /// Events that an operator should know about.
    pub notes: Vec<String>,
}

pub(crate) fn recover(durable: &Durable, options: &Options, clean_exit: bool) -> Result<Recovery> {
    let started = Instant::now();
    let mut recovery = Recovery { clean_exit, ..Recovery::default() };
    if durable.log.files.is_empty() {
        for queue in durable.queues.all() {
            queue.set_end(0, -1)?;
        }
        if let Some(index) = &durable.index {
            index.recover(0, 0)?;
        }
    } else if clean_exit {
        after_clean_exit(durable, options, &mut recovery)?;
    } else {
        after_crash(durable, options, &mut recovery)?;
    }
    let min_physical = durable.log.min();
    for queue in durable.queues.all() {
        queue.correct_min(min_physical)?;
    }
    recovery.elapsed_ms = started.elapsed().as_millis() as u64;
    Ok(recovery)
}

fn after_clean_exit(durable: &Durable, options: &Options, recovery: &mut Recovery) -> Result<()> {
    let mut peek = LogPeek::new(&durable.log);
    let mut all_readable = true;
    for queue in durable.queues.all() {
        let settled = end_by_bisection(&queue).and_then(|end| settle(&queue, end, &mut peek, recovery));
        all_readable &= give_up_unreadable(&queue, settled, recovery)?;
    }
    let known_end = if all_readable { durable.queues.max_physical() } else { 0 };
    let from = known_end.max(durable.log.min()) as u64;
    let mut rebuild = Rebuild::new(durable, options);
    let end = scan(durable, options, from, &mut rebuild, recovery)?;
    rebuild.finish(recovery)?;
    if needs_cut(durable, end)? {
        durable.log.files.cut(end)?;
    }
    durable.log.publish(end);
    durable.flushed.raise(end as i64);
    recovery.log_end = end as i64;
    Ok(())
}

fn after_crash(durable: &Durable, options: &Options, recovery: &mut Recovery) -> Result<()> {
    let mut from = trusted_file(durable)?.start;
    let mut peek = LogPeek::new(&durable.log);
    let mut all_readable = true;
    for queue in durable.queues.all() {
        let settled = end_before(&queue, from as i64).and_then(|end| settle(&queue, end, &mut peek, recovery));
        all_readable &= give_up_unreadable(&queue, settled, recovery)?;
    }
    if !all_readable {
        from = durable.log.min() as u64;
    }
    let mut scan_from = from;
    if let Some(index) = &durable.index {
        scan_from = from.min(recover_index(durable, index)?.max(durable.log.min()) as u64);
    }
    let mut rebuild = Rebuild::new(durable, options);
    let mut end = scan(durable, options, scan_from, &mut rebuild, recovery)?;
    if end < from {
        // This part was read for the index only; the checkpoint covers the messages behind it, which are not given up
        // for an old one.
        recovery.notes.push(format!(
            "the log is damaged at {end}, before the checkpoint; messages from there to {from} may be missing from the index"
        ));
        end = scan(durable, options, from, &mut rebuild, recovery)?;
    }
    rebuild.finish(recovery)?;
    durable.log.files.cut(end)?;
    durable.log.publish(end);
    durable.flushed.raise(scan_from as i64);
    durable.flush_log()?;
    durable.write_checkpoint()?;
    recovery.log_end = end as i64;
    Ok(())
}

/// Empties a queue whose files the disk cannot read, so that it is rebuilt from the whole log. Returns false if it was
/// emptied.
fn give_up_unreadable(queue: &ConsumeQueue, settled: Result<()>, recovery: &mut Recovery) -> Result<bool> {
    match settled {
        Err(error) if error.is_unreadable() => {
            recovery
                .notes
                .push(format!("{error}; queue {} of {} is made anew from the log", queue.queue_id, queue.topic));
            queue.set_end(0, -1)?;
            Ok(false)
        }
        settled => settled.map(|()| true),
    }
}

/// Recovers the index, and returns the physical offset from which messages must be indexed again.
fn recover_index(durable: &Durable, index: &Index) -> Result<i64> {
    let log_end = durable.log.files.last().map_or(0, |file| file.end());
    match durable.checkpoint.index_end() {
        Some(end) if is_still_there(durable) => index.recover(i64::MAX, end.min(log_end) as i64),
        _ => index.recover(durable.checkpoint.trusted_index_ms(), log_end as i64),
    }
}

/// True if the record named in the checkpoint is still at its place, or has expired since.
fn is_still_there(durable: &Durable) -> bool {
    let is_same =
        |mark: Mark| (mark.start as i64) < durable.log.min() || durable.mark(mark.start, mark.end) == Some(mark);
    durable.checkpoint.mark().is_some_and(is_same)
}

/// Returns the log file before which the checkpoint covers everything.
fn trusted_file(durable: &Durable) -> Result<Arc<MappedFile>> {
    let first = durable.log.files.first().expect("the log has files");
    match durable.checkpoint.mark().filter(|_| is_still_there(durable)) {
        Some(mark) => Ok(durable.log.files.file_at(mark.start).unwrap_or(first)),
        None => trusted_file_by_time(durable, first),
    }
}

/// Returns the newest log file that begins with a message older than the checkpoint's times, else the first one. Behind
/// a point where the clock was set back, times are not used.
fn trusted_file_by_time(durable: &Durable, first: Arc<MappedFile>) -> Result<Arc<MappedFile>> {
    let trusted_ms = durable.checkpoint.trusted_ms();
    let mut trusted = first;
    let mut newest_ms = 0;
    for file in durable.log.files.all() {
        let mut head = [0u8; 128];
        if file.read_at(&file.open_for_reading()?, 0, &mut head).is_err() {
            continue;
        }
        // Disk blocks that belonged to another file before may hold whole records, older than any here.
        if !matches!(lead(&head), Lead::Message { .. }) || physical_offset(&head) != Some(file.start as i64) {
            continue;
        }
        let stored_ms = store_timestamp(&head).unwrap_or(0);
        if stored_ms < newest_ms {
            break;
        }
        newest_ms = stored_ms;
        if stored_ms != 0 && stored_ms <= trusted_ms {
            trusted = file;
        }
    }
    Ok(trusted)
}

/// Returns the queue offset behind the last valid unit, trusting that valid units are followed by zeros only.
fn end_by_bisection(queue: &ConsumeQueue) -> Result<i64> {
    for file in queue.files.all().iter().rev() {
        let count = queue.bisect(file, file.size / UNIT_LEN, |unit| !unit.is_valid())?;
        if count > 0 {
            return Ok((file.start / UNIT_LEN + count) as i64);
        }
    }
    Ok(0)
}

/// Returns the queue offset behind the last unit that points before `physical_offset`, without trusting later units.
fn end_before(queue: &ConsumeQueue, physical_offset: i64) -> Result<i64> {
    let good = |unit: &Unit| unit.is_pre_blank() || unit.is_valid() && unit.end() <= physical_offset;
    for file in queue.files.all().iter().rev() {
        let open = file.open_for_reading()?;
        if !good(&queue.peek(file, &open, 0)?) {
            continue;
        }
        let mut previous_end = 0;
        let mut count = 0;
        let mut units = vec![0; file.size as usize];
        file.read_at(&open, 0, &mut units)?;
        for bytes in units.chunks_exact(UNIT_LEN as usize) {
            let unit = Unit::decode(bytes);
            if !good(&unit) || !unit.is_pre_blank() && unit.physical_offset < previous_end {
                break;
            }
            if !unit.is_pre_blank() {
                previous_end = unit.end();
            }
            count += 1;
        }
        return Ok((file.start / UNIT_LEN + count) as i64);
    }
    Ok(0)
}

/// Ends the queue at `end`, or earlier if its last units do not match the log.
fn settle(queue: &ConsumeQueue, end: i64, peek: &mut LogPeek<'_>, recovery: &mut Recovery) -> Result<()> {
    let mut max = end;
    let mut max_physical = -1;
    let first = queue.files.first().map_or(0, |file| (file.start / UNIT_LEN) as i64);
    while max > first {
        let offset = max - 1;
        let byte = offset as u64 * UNIT_LEN;
        let Some(file) = queue.files.file_at(byte) else { break };
        let unit = queue.peek(&file, &file.open_for_reading()?, (byte - file.start) / UNIT_LEN)?;
        if unit.is_pre_blank() {
            max -= 1;
            continue;
        }
        if peek.is_message_of(&unit, &queue.topic, queue.queue_id, offset)? {
            max_physical = unit.end();
            break;
        }
        max -= 1;
    }
    if max < end {
        recovery.notes.push(format!(
            "{} units at the end of {} do not match the log and were dropped",
            end - max,
            queue.files.dir.display()
        ));
    }
    queue.set_end(if max_physical < 0 { 0 } else { max }, max_physical)
}

/// Reads the log from `from`, adds the messages to queues and index, and returns the end of the log.
fn scan(
    durable: &Durable,
    options: &Options,
    from: u64,
    rebuild: &mut Rebuild<'_>,
    recovery: &mut Recovery,
) -> Result<u64> {
    let crc = if options.check_crc_on_recover { Crc::Verify } else { Crc::Trust };
    let mut offset = from;
    recovery.scanned_from = from as i64;
    while let Some(file) = durable.log.files.file_at(offset) {
        let mut window = Window::open(&LogFile::of(&file), file.end())?;
        let ended = loop {
            if let Some(at) = window.unreadable_in_record(offset)? {
                let Some(next) = next_readable(durable, &mut window, offset)? else { break true };
                recovery.notes.push(format!(
                    "the disk cannot read {} at {at}; messages from {offset} to {next} are left out",
                    file.path.display()
                ));
                if next == file.end() {
                    break false;
                }
                offset = next;
                continue;
            }
            let bytes = window.record_bytes(offset)?;
            match lead(bytes) {
                Lead::Message { .. } => match Record::decode(bytes, crc) {
                    Ok((record, size)) if record.physical_offset == offset as i64 => {
                        rebuild.add(&record, size, recovery)?;
                        let (start, end) = (offset, offset + size as u64);
                        durable.set_newest(Newest { start, end, store_ms: record.store_timestamp });
                        offset = end;
                    }
                    Err(RecordError::NotUtf8 { field, total_size }) => {
                        recovery.notes.push(format!(
                            "the {field} of the message at {offset} is not UTF-8; left out of its queue"
                        ));
                        offset += total_size as u64;
                    }
                    _ => break true,
                },
                Lead::Blank { total_size } if total_size as u64 == file.end() - offset => break false,
                _ => break true,
            }
        };
        if ended || durable.log.files.file_at(file.end()).is_none() {
            break;
        }
        offset = file.end();
    }
    Ok(offset)
}

/// Returns the offset of the first record behind a page that the disk cannot read: the next record in the file, or the
/// start of the next file.
fn next_readable(durable: &Durable, window: &mut Window, offset: u64) -> Result<Option<u64>> {
    let end = window.log_file.end();
    if let Some(next) = window.find_record(offset + 1, end)? {
        return Ok(Some(next));
    }
    let Some(next_file) = durable.log.files.file_at(end) else { return Ok(None) };
    let mut next_window = Window::open(&LogFile::of(&next_file), next_file.end())?;
    Ok(next_window.find_record(end, next_file.end())?.map(|_| end))
}

/// True if there is anything behind the end of the log: a spare file, or bytes that are not zero.
fn needs_cut(durable: &Durable, end: u64) -> Result<bool> {
    let Some(last) = durable.log.files.last() else { return Ok(false) };
    if last.start >= end {
        return Ok(last.start > end || last.start != durable.log.min() as u64);
    }
    let left = last.end() - end;
    if left == 0 {
        return Ok(false);
    }
    let mut head = [0u8; BLANK_LEN as usize];
    let len = left.min(BLANK_LEN) as usize;
    match last.read_at(&last.open_for_reading()?, end - last.start, &mut head[..len]) {
        Err(error) if error.is_unreadable() => return Ok(true),
        read => read?,
    }
    Ok(head != [0; BLANK_LEN as usize])
}

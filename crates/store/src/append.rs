//! Appends: the only place where messages get their offsets.
//!
//! Steps for each message, all under the append lock: limits are checked; then every step that can fail because of the
//! disk is done (room in the log, the queue and the index); then the record, the queue unit and the index entries are
//! written, which cannot fail any more. So a full disk rejects a message as a whole, and every message in the log is in
//! its queue. The end of the log is published before the end of the queue, so a thread that sees a unit can read its
//! record.

use std::sync::Arc;

use wire::record::RecordError;

use crate::commit_log::{BLANK_LEN, CommitLog};
use crate::consume_queue::Unit;
use crate::error::{Result, StoreError};
use crate::flush::{Durable, Newest};
use crate::mapped_file::MappedFile;
use crate::message::{Appended, Message, Routing, is_indexed, is_queued};
use crate::options::Options;
use crate::preallocate::Preallocator;

/// Number of bytes that a record may take for its parts other than the largest body.
const RECORD_OVERHEAD_LIMIT: u64 = 64 << 10;

/// Number of bytes reserved at once when the writer has overtaken the preallocator.
const RESERVE_STRIDE: u64 = 4 << 20;

/// Writing end of the log. Its holder (behind the store's append lock) is the only writer.
#[derive(Debug)]
pub(crate) struct Appender {
    durable: Arc<Durable>,
    preallocator: Preallocator,
    options: Options,
    file: Option<Arc<MappedFile>>,
    /// Position in the file at which the writer notifies the preallocator.
    tell_at: u64,
}

impl Appender {
    pub fn new(durable: Arc<Durable>, options: &Options) -> Result<Appender> {
        let preallocator = Preallocator::start(durable.log.clone(), options.populate_ahead_bytes)?;
        Ok(Appender { durable, preallocator, options: options.clone(), file: None, tell_at: 0 })
    }

    /// Appends one message after the other; messages before the first one that fails stay appended and are in
    /// `results`.
    pub fn append_many(&mut self, messages: &[Message<'_>], now_ms: i64, results: &mut Vec<Appended>) -> Result<()> {
        let mut outcome = Ok(());
        for message in messages {
            match self.check(message).and_then(|size| self.append(message, size, now_ms)) {
                Ok(appended) => results.push(appended),
                Err(error) => {
                    outcome = Err(error);
                    break;
                }
            }
        }
        self.finish(results, now_ms);
        outcome
    }

    /// Appends all messages contiguously in one file, or none of them.
    pub fn append_batch(&mut self, messages: &[Message<'_>], now_ms: i64, results: &mut Vec<Appended>) -> Result<()> {
        let mut total = 0;
        let mut sizes = Vec::with_capacity(messages.len());
        for message in messages {
            let size = self.check(message)?;
            total += size;
            sizes.push(size);
        }
        let limit = self.record_limit();
        if total > limit {
            let topic = messages.first().map_or("", |message| message.topic).to_string();
            return Err(StoreError::RecordTooLarge { what: "batch", topic, size: total, limit });
        }
        self.prepare_batch(messages, total, now_ms)?;
        for (message, size) in messages.iter().zip(sizes) {
            results.push(self.append(message, size, now_ms)?);
        }
        self.finish(results, now_ms);
        Ok(())
    }

    /// Sets the maximum size of a body for later messages.
    pub fn limit_bodies(&mut self, max_bytes: u64) {
        self.options.max_body_bytes = max_bytes;
    }

    fn record_limit(&self) -> u64 {
        (self.options.max_body_bytes + RECORD_OVERHEAD_LIMIT).min(self.options.commit_log_file_size - BLANK_LEN)
    }

    /// Returns the size of the message's record, or an error if the message exceeds a limit.
    #[inline]
    fn check(&self, message: &Message<'_>) -> Result<u64> {
        let record = message.record(0, 0, 0);
        let size = record.encoded_len() as u64;
        let limit = self.record_limit();
        let body = message.body.len() as u64;
        if body > self.options.max_body_bytes {
            let limit = self.options.max_body_bytes;
            return Err(StoreError::RecordTooLarge { what: "body", topic: message.topic.into(), size: body, limit });
        }
        if size > limit {
            return Err(StoreError::RecordTooLarge { what: "record", topic: message.topic.into(), size, limit });
        }
        record.check().map_err(|error: RecordError| StoreError::InvalidMessage { reason: error.to_string() })?;
        Ok(size)
    }

    /// Prepares room for a whole batch, so that none of its messages can fail after the first is written.
    fn prepare_batch(&mut self, messages: &[Message<'_>], total: u64, now_ms: i64) -> Result<()> {
        self.place(total)?;
        let mut keys = 0;
        for message in messages {
            let queue = self.durable.queues.get_or_add(message.topic, message.queue_id)?;
            queue.prepare(messages.len() as u64)?;
            keys += Routing::of(message.properties).keys.iter().count() as u32;
        }
        if let Some(index) = &self.durable.index {
            index.prepare(keys, now_ms)?;
        }
        Ok(())
    }

    #[inline]
    fn append(&mut self, message: &Message<'_>, size: u64, now_ms: i64) -> Result<Appended> {
        let routing = Routing::of(message.properties);
        let queue = self.durable.queues.get_or_add(message.topic, message.queue_id)?;
        let queued = is_queued(message.sys_flag);
        if queued {
            queue.prepare(1)?;
        }
        let index = self.durable.index.as_ref().filter(|_| is_indexed(message.sys_flag));
        let index_file = match index {
            Some(index) => Some(index.prepare(routing.keys.iter().count() as u32, now_ms)?),
            None => None,
        };
        let pos = self.place(size)?;

        let file = self.file.as_ref().expect("place sets the file");
        let physical_offset = (file.start + pos) as i64;
        let queue_offset = if queued { queue.max() } else { 0 };
        // SAFETY: the append lock is held and these bytes lie past the published end.
        let out = unsafe { file.bytes_mut(pos, size as usize)? };
        message.record(queue_offset, physical_offset, now_ms).encode_into(out);
        self.durable.log.publish(file.start + pos + size);
        if queued {
            queue.push(Unit {
                physical_offset,
                size: size as i32,
                tags_code: routing.tags_code(message.topic, now_ms, &self.options.delay_levels_ms),
            })?;
        }
        if let (Some(index), Some(file)) = (&self.durable.index, index_file) {
            index.put(file, message.topic, routing.keys, physical_offset, now_ms)?;
        }
        if pos >= self.tell_at {
            self.tell_preallocator(pos + size);
        }
        Ok(Appended { physical_offset, size: size as u32, queue_offset })
    }

    /// Finds `room` bytes in one file, and ends the current file if it has less room left. Returns the position in
    /// `self.file`.
    #[inline]
    fn place(&mut self, room: u64) -> Result<u64> {
        let end = self.durable.log.max();
        if let Some(file) = self.file.as_ref().filter(|file| end < file.end()) {
            let pos = end - file.start;
            if room + BLANK_LEN <= file.size - pos {
                file.reserve(pos + room + BLANK_LEN, RESERVE_STRIDE)?;
                return Ok(pos);
            }
        }
        self.place_in_another_file(room, end)
    }

    #[cold]
    fn place_in_another_file(&mut self, room: u64, mut end: u64) -> Result<u64> {
        loop {
            let file =
                self.file_from(end / self.options.commit_log_file_size * self.options.commit_log_file_size, 0)?;
            let pos = end - file.start;
            if room + BLANK_LEN <= file.size - pos {
                file.reserve(pos + room + BLANK_LEN, RESERVE_STRIDE)?;
                self.file = Some(file);
                self.tell_preallocator(pos);
                return Ok(pos);
            }
            // The next file must exist before this one is ended: a full disk leaves the log as it is.
            self.file_from(file.end(), room + BLANK_LEN)?;
            end = CommitLog::end_file(&file, pos)?;
            self.durable.log.publish(end);
        }
    }

    /// Returns the log file that starts at `start`, with disk blocks for its first `room` bytes: an existing file, the
    /// one created in advance, or a new one. A new file joins the sequence only once it has these blocks: a full disk
    /// leaves no empty file behind the one being written.
    fn file_from(&self, start: u64, room: u64) -> Result<Arc<MappedFile>> {
        let files = &self.durable.log.files;
        if let Some(file) = files.file_at(start) {
            file.reserve(room, 0)?;
            return Ok(file);
        }
        let file = match self.preallocator.take_spare(start) {
            Some(file) => file,
            None => files.make(start)?,
        };
        if let Err(error) = file.reserve(room, 0) {
            self.preallocator.give_back(file);
            return Err(error);
        }
        files.push(file.clone());
        Ok(file)
    }

    fn tell_preallocator(&mut self, pos: u64) {
        let file = self.file.as_ref().expect("a file is being written");
        self.tell_at = pos + self.options.populate_ahead_bytes / 4;
        self.preallocator.advance(file, pos);
    }

    fn finish(&self, results: &[Appended], now_ms: i64) {
        if let Some(last) = results.last() {
            let (start, end) = (last.physical_offset as u64, last.end() as u64);
            self.durable.set_newest(Newest { start, end, store_ms: now_ms });
        }
    }

    /// Stops the preallocator and removes the file that it created in advance.
    pub fn stop(&mut self) -> Result<()> {
        self.preallocator.stop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_without_room_for_the_next_file_leaves_the_log_as_it_is() {
        let dir = tempfile::tempdir().expect("directory");
        let options = Options { commit_log_file_size: 4096, index_enabled: false, ..Options::default() };
        let durable = Arc::new(Durable::load(dir.path(), &options).expect("load"));
        let mut appender = Appender::new(durable.clone(), &options).expect("start");
        // No blocks can be allocated for a file that was deleted from the disk.
        let files = &durable.log.files;
        let next = files.make(4096).expect("make");
        next.delete().expect("delete");
        appender.preallocator.give_back(next);

        let host = wire::Host { ip: std::net::Ipv4Addr::LOCALHOST.into(), port: 10911 };
        let message = Message {
            topic: "T",
            queue_id: 0,
            flag: 0,
            sys_flag: 0,
            born_timestamp: 1,
            born_host: host,
            store_host: host,
            reconsume_times: 0,
            prepared_transaction_offset: 0,
            body: &[b'x'; 1500],
            properties: "",
        };
        let mut results = Vec::new();
        for _ in 0..2 {
            let refused = appender.append_many(&[message; 3], 1, &mut results);
            assert!(matches!(refused, Err(StoreError::Io { .. })), "{refused:?}");
            assert_eq!(results.len(), 2);
            assert_eq!(durable.log.max(), results[1].end() as u64);
            assert_eq!(files.all().len(), 1, "the file being written is the last");
        }
        drop(appender.preallocator.take_spare(4096)); // there is room again: a new file has its blocks
        appender.append_many(&[message], 1, &mut results).expect("append");
        assert_eq!(results[2].physical_offset, 4096);
    }
}

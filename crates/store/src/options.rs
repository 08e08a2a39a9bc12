//! Layout of a store, and its limits and intervals for writing. Defaults are RocketMQ's.

use crate::consume_queue::UNIT_LEN;
use crate::error::{Result, StoreError};

/// Condition for an append to count as durable: none, or that `fdatasync` has passed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flush {
    Async,
    Sync,
}

#[derive(Clone, Debug)]
pub struct Options {
    pub commit_log_file_size: u64,
    /// Rounded up to whole 20-byte units.
    pub consume_queue_file_size: u64,
    pub index_enabled: bool,
    pub index_slots: u32,
    pub index_entries: u32,
    pub flush: Flush,
    pub flush_interval_ms: u64,
    /// Async flush leaves fewer dirty pages than this unwritten, except once per thorough interval.
    pub flush_least_pages: u64,
    pub flush_thorough_interval_ms: u64,
    pub queue_flush_interval_ms: u64,
    pub queue_flush_least_pages: u64,
    /// Interval at which all queues and the index are flushed and the checkpoint is written.
    pub checkpoint_interval_ms: u64,
    pub max_body_bytes: u64,
    pub check_crc_on_recover: bool,
    /// Delays of level 1, 2, …; the deliver time of a scheduled message follows from its delay level.
    pub delay_levels_ms: Vec<i64>,
    /// Number of bytes ahead of the writer that are reserved on disk and made resident.
    pub populate_ahead_bytes: u64,
}

impl Default for Options {
    fn default() -> Self {
        const S: i64 = 1000;
        const M: i64 = 60 * S;
        const H: i64 = 60 * M;
        Options {
            commit_log_file_size: 1 << 30,
            consume_queue_file_size: 300_000 * UNIT_LEN,
            index_enabled: true,
            index_slots: 5_000_000,
            index_entries: 20_000_000,
            flush: Flush::Async,
            flush_interval_ms: 500,
            flush_least_pages: 4,
            flush_thorough_interval_ms: 10_000,
            queue_flush_interval_ms: 1000,
            queue_flush_least_pages: 2,
            checkpoint_interval_ms: 60_000,
            max_body_bytes: 4 << 20,
            check_crc_on_recover: true,
            delay_levels_ms: vec![
                S,
                5 * S,
                10 * S,
                30 * S,
                M,
                2 * M,
                3 * M,
                4 * M,
                5 * M,
                6 * M,
                7 * M,
                8 * M,
                9 * M,
                10 * M,
                20 * M,
                30 * M,
                H,
                2 * H,
            ],
            populate_ahead_bytes: 16 << 20,
        }
    }
}

impl Options {
    /// Rejects sizes with which no store could work, and rounds the queue file size to whole units.
    pub(crate) fn checked(mut self) -> Result<Options> {
        let refuse = |reason: String| Err(StoreError::InvalidOptions { reason });
        if self.commit_log_file_size < 4096 || self.commit_log_file_size > i32::MAX as u64 {
            return refuse(format!(
                "commit_log_file_size must lie between 4096 and {}, not {}",
                i32::MAX,
                self.commit_log_file_size
            ));
        }
        if self.consume_queue_file_size < UNIT_LEN || self.consume_queue_file_size > i32::MAX as u64 - UNIT_LEN {
            return refuse(format!(
                "consume_queue_file_size must lie between {UNIT_LEN} and 2 GiB, not {}",
                self.consume_queue_file_size
            ));
        }
        self.consume_queue_file_size = self.consume_queue_file_size.div_ceil(UNIT_LEN) * UNIT_LEN;
        if self.index_slots == 0 || self.index_entries < 2 {
            return refuse("index_slots must be at least 1 and index_entries at least 2".into());
        }
        if crate::index_file::file_len(self.index_slots, self.index_entries) > i32::MAX as u64 {
            return refuse("an index file of these slots and entries would exceed 2 GiB".into());
        }
        if self.delay_levels_ms.iter().any(|&delay| delay < 0) {
            return refuse("delay_levels_ms must not be negative".into());
        }
        Ok(self)
    }
}

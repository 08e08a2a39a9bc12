//! Adds messages that recovery found in the log to their queues and to the index again.
//!
//! The checksum of a record does not cover its queue offset, so the queue offset is checked. Messages are in the log in
//! the order of their queue offsets, and each message takes room there. A queue offset that is further from the
//! previous one than the log between both records has room for is damage, and the message is left out.
//!
//! A queue offset of 0 behind the end of a queue means that the topic was deleted and created again, so the earlier
//! units are dropped; Java keeps the deleted messages, adds the first new one and leaves out the others. If the next
//! message continues the old queue, however, the 0 is damage, too. So a message with queue offset 0 is held back until
//! the next message of its queue is read, or the end of the log is reached.

use std::collections::HashMap;
use std::sync::Arc;

use wire::Record;

use crate::consume_queue::{ConsumeQueue, Rebuilt, Unit};
use crate::error::Result;
use crate::flush::Durable;
use crate::message::{Routing, is_indexed, is_queued};
use crate::options::Options;
use crate::recovery::Recovery;

pub(crate) struct Rebuild<'a> {
    durable: &'a Durable,
    options: &'a Options,
    /// Queues that seem to have started again, by address, with the unit they would start with.
    beginning: HashMap<*const ConsumeQueue, (Arc<ConsumeQueue>, Unit)>,
}

impl<'a> Rebuild<'a> {
    pub fn new(durable: &'a Durable, options: &'a Options) -> Rebuild<'a> {
        Rebuild { durable, options, beginning: HashMap::new() }
    }

    /// Adds a message unless its queue and the index already have it.
    pub fn add(&mut self, record: &Record<'_>, size: usize, recovery: &mut Recovery) -> Result<()> {
        let routing = Routing::of(record.properties);
        if is_queued(record.sys_flag) {
            let unit = Unit {
                physical_offset: record.physical_offset,
                size: size as i32,
                tags_code: routing.tags_code(record.topic, record.store_timestamp, &self.options.delay_levels_ms),
            };
            match self.durable.queues.get_or_add(record.topic, record.queue_id) {
                Ok(queue) => self.add_to_queue(queue, unit, record.queue_offset, recovery)?,
                Err(error) => {
                    recovery.notes.push(format!("the message at {} has no queue: {error}", record.physical_offset))
                }
            }
        }
        match &self.durable.index {
            Some(index) if is_indexed(record.sys_flag) => {
                index.rebuild(record.topic, routing.keys, record.physical_offset, record.store_timestamp)
            }
            _ => Ok(()),
        }
    }

    fn add_to_queue(
        &mut self,
        queue: Arc<ConsumeQueue>,
        unit: Unit,
        queue_offset: i64,
        recovery: &mut Recovery,
    ) -> Result<()> {
        if let Some((_, first)) = self.beginning.remove(&Arc::as_ptr(&queue)) {
            if queue_offset <= queue.max() {
                begin_again(&queue, first, recovery)?;
            } else {
                recovery.notes.push(left_out(&queue, &first, 0));
            }
        }
        if queue_offset == 0 && queue.max() > 0 && unit.physical_offset >= queue.max_physical() {
            self.beginning.insert(Arc::as_ptr(&queue), (queue, unit));
            return Ok(());
        }
        match queue.rebuild(unit, queue_offset)? {
            Rebuilt::Added => recovery.rebuilt += 1,
            Rebuilt::Known => {}
            Rebuilt::Impossible => recovery.notes.push(left_out(&queue, &unit, queue_offset)),
        }
        Ok(())
    }

    /// Decides on the messages still held back; call it at the end of the log.
    pub fn finish(self, recovery: &mut Recovery) -> Result<()> {
        for (queue, first) in self.beginning.into_values() {
            begin_again(&queue, first, recovery)?;
        }
        Ok(())
    }
}

fn begin_again(queue: &ConsumeQueue, first: Unit, recovery: &mut Recovery) -> Result<()> {
    queue.set_end(0, -1)?;
    queue.rebuild(first, 0)?;
    recovery.rebuilt += 1;
    Ok(())
}

fn left_out(queue: &ConsumeQueue, unit: &Unit, queue_offset: i64) -> String {
    format!(
        "the message at {} cannot have offset {queue_offset} in queue {} of {}; left out of it",
        unit.physical_offset, queue.queue_id, queue.topic
    )
}

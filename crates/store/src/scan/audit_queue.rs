//! Check of consume queues: every unit must lead to its message.

use wire::{Record, properties};

use super::audit::{Audit, Finding, Findings, Kind};
use super::queue_files::QueueFiles;
use super::window::Window;
use crate::consume_queue::Unit;
use crate::error::{Result, StoreError};

impl Audit {
    /// Checks the units with queue offsets in `[from, to)` of a queue. A queue that was deleted since the snapshot has
    /// no findings.
    pub fn check_queue(&self, topic: &str, queue_id: i32, from: u64, to: u64) -> Result<Findings> {
        let is_it = |queue: &&QueueFiles| queue.topic == topic && queue.queue_id == queue_id;
        let Some(queue) = self.snapshot.queues.iter().find(is_it) else { return Ok(Findings::default()) };
        let mut findings = Findings::default();
        let mut window = None;
        let mut expected = from;
        // Units before a queue's first message in its first file are blank by design.
        let mut begun = from > queue.first();
        let mut last_physical = -1;
        queue.walk::<StoreError>(from, to, |offset, unit| {
            let mut report = |kind, detail: String| {
                findings.add(Finding {
                    kind,
                    topic: queue.topic.clone(),
                    queue_id: queue.queue_id,
                    queue_offset: offset as i64,
                    physical_offset: unit.physical_offset,
                    detail,
                });
            };
            if offset > expected {
                report(Kind::QueueGap, format!("a queue file is missing: nothing for {expected} to {offset}"));
            }
            expected = offset + 1;
            if unit.is_pre_blank() || !unit.is_valid() {
                if begun || !unit.is_pre_blank() {
                    report(Kind::QueueGap, "the unit is empty although units follow".into());
                }
            } else if unit.physical_offset >= self.snapshot.log_start as i64 {
                begun = true;
                if unit.physical_offset <= last_physical {
                    report(Kind::StrayUnit, format!("points before its predecessor's message at {last_physical}"));
                } else if let Some(problem) = self.unit_problem(queue, offset, &unit, &mut window)? {
                    report(Kind::StrayUnit, problem);
                } else {
                    last_physical = unit.physical_offset;
                }
            } else {
                begun = true;
            }
            findings.checked += 1;
            Ok(())
        })?;
        if expected < to {
            findings.add(Finding {
                kind: Kind::QueueGap,
                topic: queue.topic.clone(),
                queue_id: queue.queue_id,
                queue_offset: expected as i64,
                physical_offset: -1,
                detail: format!("the queue's file ends before unit {to}"),
            });
        }
        Ok(findings)
    }

    fn unit_problem(
        &self,
        queue: &QueueFiles,
        offset: u64,
        unit: &Unit,
        window: &mut Option<Window>,
    ) -> Result<Option<String>> {
        let problem = self.with_record(window, unit.physical_offset, |record, size| {
            if size != unit.size as usize {
                return Some(format!("says {} bytes where the message has {size}", unit.size));
            }
            if stands_for(record, queue, offset) {
                return None;
            }
            Some(format!(
                "leads to the message with offset {} of queue {} of topic {}",
                record.queue_offset, record.queue_id, record.topic
            ))
        })?;
        Ok(problem.unwrap_or_else(|| Some(format!("no readable message begins at {}", unit.physical_offset))))
    }
}

/// True if a unit at `offset` of `queue` may point to this message: it is the message's own unit, or the message was
/// dispatched to several queues.
fn stands_for(record: &Record<'_>, queue: &QueueFiles, offset: u64) -> bool {
    let own = record.topic == queue.topic && record.queue_id == queue.queue_id;
    if own && record.queue_offset == offset as i64 {
        return true;
    }
    let [names, offsets] =
        properties::get_many(record.properties, ["INNER_MULTI_DISPATCH", "INNER_MULTI_QUEUE_OFFSET"]);
    let pairs = names.unwrap_or("").split(',').zip(offsets.unwrap_or("").split(','));
    pairs.into_iter().any(|(name, at)| name == queue.topic && at.parse() == Ok(offset))
}

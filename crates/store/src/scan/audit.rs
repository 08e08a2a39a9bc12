//! Comparison of log, queues and index.
//!
//! Three passes, each in pieces that can run in parallel:
//!
//! ```text
//! log      every record: whole? its unit in place? its keys in the index?                  finds missing units and entries
//! queues   every unit: leads to its message?                                               finds wrong units
//! index    every entry: leads to a message with that key? chains unbroken?                 finds wrong entries
//! ```
//! Messages that expired from the log are skipped, and so are messages written after the snapshot. A record that was in
//! no queue at that moment is not reported as missing: a running Java broker fills its queues and its index a little
//! later.

use std::collections::{BTreeMap, HashMap};

use wire::hash::index_hash;
use wire::{Crc, Record};

use super::damage::{DamageKind, ScanReport};
use super::index_view::IndexView;
use super::log_files::holding;
use super::log_ranges::LogRange;
use super::range_scan::{RangeScan, Seen};
use super::snapshot::Snapshot;
use super::window::Window;
use crate::consume_queue::{UNIT_LEN, Unit};
use crate::error::{Result, StoreError};
use crate::message::{Routing, SCHEDULE_TOPIC, is_indexed, is_queued};

/// Maximum number of findings of one piece that are listed; the rest is only counted.
const NAMED: usize = 1000;
const NO_UNIT: Unit = Unit { physical_offset: 0, size: 0, tags_code: 0 };

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    LogGap,
    DamagedRecord,
    MissingUnit,
    WrongUnit,
    StrayUnit,
    QueueGap,
    MissingIndexEntry,
    WrongIndexEntry,
    BrokenIndexChain,
    UnreadableIndex,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::LogGap => "log-gap",
            Kind::DamagedRecord => "damaged-record",
            Kind::MissingUnit => "missing-unit",
            Kind::WrongUnit => "wrong-unit",
            Kind::StrayUnit => "stray-unit",
            Kind::QueueGap => "queue-gap",
            Kind::MissingIndexEntry => "missing-index-entry",
            Kind::WrongIndexEntry => "wrong-index-entry",
            Kind::BrokenIndexChain => "broken-index-chain",
            Kind::UnreadableIndex => "unreadable-index",
        }
    }
}

/// Single inconsistency. Fields that do not apply are −1 or empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub kind: Kind,
    pub topic: String,
    pub queue_id: i32,
    pub queue_offset: i64,
    pub physical_offset: i64,
    pub detail: String,
}

/// Findings: all are counted, the first ones are listed.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    pub counts: BTreeMap<Kind, u64>,
    pub named: Vec<Finding>,
    /// Number of records, units or entries checked.
    pub checked: u64,
}

impl Findings {
    pub(crate) fn add(&mut self, finding: Finding) {
        *self.counts.entry(finding.kind).or_default() += 1;
        if self.named.len() < NAMED {
            self.named.push(finding);
        }
    }
}

/// Size of one topic in the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TopicSize {
    pub messages: u64,
    pub bytes: u64,
    pub body_bytes: u64,
    pub first_ms: i64,
    pub last_ms: i64,
}

#[derive(Clone, Debug, Default)]
pub struct LogAudit {
    pub findings: Findings,
    pub scan: ScanReport,
    pub topics: BTreeMap<String, TopicSize>,
}

#[derive(Debug)]
pub struct Audit {
    pub snapshot: Snapshot,
    pub(crate) index: Vec<IndexView>,
    unreadable: Vec<StoreError>,
}

impl Audit {
    pub fn new(snapshot: Snapshot) -> Result<Audit> {
        let (index, unreadable) = IndexView::of_store(&snapshot.root)?;
        Ok(Audit { snapshot, index, unreadable })
    }

    /// Checks the directory itself: missing log files, inconsistent index files.
    pub fn check_directory(&self) -> Findings {
        let mut findings = Findings::default();
        let mut add = |kind, physical_offset, detail| {
            let (topic, queue_id, queue_offset) = (String::new(), -1, -1);
            findings.add(Finding { kind, topic, queue_id, queue_offset, physical_offset, detail });
        };
        for &(start, end) in &self.snapshot.gaps {
            add(Kind::LogGap, start as i64, format!("the log has no file for {start} to {end}"));
        }
        for error in &self.unreadable {
            add(Kind::UnreadableIndex, -1, error.to_string());
        }
        findings
    }

    /// Checks the records that begin in `ranges`, their units and their keys.
    pub fn check_log(&self, ranges: Vec<LogRange>) -> Result<LogAudit> {
        let mut result = LogAudit::default();
        let mut scan = RangeScan::new(self.snapshot.log_files.clone(), self.snapshot.log_end, ranges, Crc::Verify);
        let mut units = UnitReader::new(self);
        scan.run::<StoreError>(|visit| {
            tally(&mut result.topics, visit.record, visit.size);
            result.findings.checked += 1;
            if visit.record.physical_offset < self.snapshot.dispatched_end.unwrap_or(0) as i64 {
                self.check_unit(visit.record, visit.size, &mut units, &mut result.findings)?;
                self.check_keys(visit.record, &mut result.findings)?;
            }
            Ok(Seen::Next)
        })?;
        result.scan = scan.report().clone();
        // Missing files are reported by `check_directory`.
        for damage in result.scan.damages.iter().filter(|damage| damage.kind == DamageKind::Record) {
            let (topic, queue_id, queue_offset) = damage.place.clone().unwrap_or((String::new(), -1, -1));
            let physical_offset = damage.physical_offset as i64;
            let detail = format!("{} bytes: {}", damage.len, damage.reason);
            let kind = Kind::DamagedRecord;
            result.findings.named.push(Finding { kind, topic, queue_id, queue_offset, physical_offset, detail });
        }
        let damaged = result.scan.damaged - result.scan.absent;
        if damaged > 0 {
            result.findings.counts.insert(Kind::DamagedRecord, damaged);
        }
        Ok(result)
    }

    fn check_unit(
        &self,
        record: &Record<'_>,
        size: usize,
        units: &mut UnitReader<'_>,
        findings: &mut Findings,
    ) -> Result<()> {
        if !is_queued(record.sys_flag) {
            return Ok(());
        }
        let unit = units.unit(record.topic, record.queue_id, record.queue_offset)?.unwrap_or(NO_UNIT);
        if unit == NO_UNIT || unit.is_pre_blank() {
            let detail = format!("its queue has nothing for the message of {size} bytes");
            findings.add(about(Kind::MissingUnit, record, detail));
        } else if unit.physical_offset != record.physical_offset || unit.size as usize != size {
            let detail = format!(
                "the unit says {} bytes at {}, the message has {size} bytes at {}",
                unit.size, unit.physical_offset, record.physical_offset
            );
            findings.add(about(Kind::WrongUnit, record, detail));
        } else if !tags_code_fits(&unit, record) {
            let detail = format!("the unit's tags code {} is not that of the message's tags", unit.tags_code);
            findings.add(about(Kind::WrongUnit, record, detail));
        }
        Ok(())
    }

    fn check_keys(&self, record: &Record<'_>, findings: &mut Findings) -> Result<()> {
        let (Some(oldest), Some(newest)) = (self.index.first(), self.index.last()) else { return Ok(()) };
        let covered = oldest.begin_physical..=newest.end_physical;
        if !is_indexed(record.sys_flag) || !covered.contains(&record.physical_offset) {
            return Ok(());
        }
        for key in Routing::of(record.properties).keys.iter() {
            let hash = index_hash(record.topic, key);
            let mut found = false;
            for view in self.index.iter().rev() {
                if found || record.physical_offset < view.begin_physical || record.physical_offset > view.end_physical {
                    continue;
                }
                view.chain(hash, |_, entry| {
                    found = entry.hash == hash && entry.physical_offset == record.physical_offset;
                    !found
                })?;
            }
            if !found {
                findings.add(about(Kind::MissingIndexEntry, record, format!("key {key:?} does not lead here")));
            }
        }
        Ok(())
    }

    /// Calls `look` with the record at `offset` of the log; `None` if the record has expired, is damaged or does not
    /// exist.
    pub(crate) fn with_record<T>(
        &self,
        window: &mut Option<Window>,
        offset: i64,
        look: impl FnOnce(&Record<'_>, usize) -> T,
    ) -> Result<Option<T>> {
        let position = offset as u64;
        let holds = |w: &Window| w.log_file.start <= position && position < w.log_file.end();
        if !window.as_ref().is_some_and(holds) {
            let Some(file) = holding(&self.snapshot.log_files, position) else { return Ok(None) };
            *window = Some(Window::with_piece(file, self.snapshot.log_end, 64 << 10)?);
        }
        let window = window.as_mut().expect("just set");
        if position >= window.limit() {
            return Ok(None);
        }
        Ok(match Record::decode(window.record_bytes(position)?, Crc::Trust) {
            Ok((record, size)) if record.physical_offset == offset => Some(look(&record, size)),
            _ => None,
        })
    }
}

/// Reader of the units of many queues, requested in log order: each queue is read a little ahead.
struct UnitReader<'a> {
    audit: &'a Audit,
    windows: HashMap<&'a str, HashMap<i32, Option<Window>>>,
    places: HashMap<(&'a str, i32), usize>,
}

impl<'a> UnitReader<'a> {
    fn new(audit: &'a Audit) -> UnitReader<'a> {
        let queues = audit.snapshot.queues.iter().enumerate();
        let places = queues.map(|(at, queue)| ((queue.topic.as_str(), queue.queue_id), at)).collect();
        UnitReader { audit, windows: HashMap::new(), places }
    }

    fn unit(&mut self, topic: &str, queue_id: i32, queue_offset: i64) -> Result<Option<Unit>> {
        let Some(&at) = self.places.get(&(topic, queue_id)) else { return Ok(None) };
        let queue = &self.audit.snapshot.queues[at];
        let byte = queue_offset.max(0) as u64 * UNIT_LEN;
        let window = self.windows.entry(&queue.topic).or_default().entry(queue_id).or_default();
        let holds = |w: &Window| w.log_file.start <= byte && byte < w.log_file.end();
        if !window.as_ref().is_some_and(holds) {
            let Some(file) = holding(&queue.files, byte) else { return Ok(None) };
            *window = Some(Window::with_piece(file, file.end(), 8 << 10)?);
        }
        let bytes = window.as_mut().expect("just set").bytes(byte, UNIT_LEN as usize)?;
        Ok(bytes.get(..UNIT_LEN as usize).map(Unit::decode))
    }
}

fn about(kind: Kind, record: &Record<'_>, detail: String) -> Finding {
    Finding {
        kind,
        topic: record.topic.to_string(),
        queue_id: record.queue_id,
        queue_offset: record.queue_offset,
        physical_offset: record.physical_offset,
        detail,
    }
}

fn tags_code_fits(unit: &Unit, record: &Record<'_>) -> bool {
    // Delay levels are a setting, so every deliver time from the store time on is valid.
    let due = record.topic == SCHEDULE_TOPIC && unit.tags_code >= record.store_timestamp;
    due || unit.is_extended()
        || unit.tags_code == Routing::of(record.properties).tags_code(record.topic, record.store_timestamp, &[])
}

fn tally(topics: &mut BTreeMap<String, TopicSize>, record: &Record<'_>, size: usize) {
    if !topics.contains_key(record.topic) {
        let empty = TopicSize { first_ms: i64::MAX, last_ms: i64::MIN, ..TopicSize::default() };
        topics.insert(record.topic.to_string(), empty);
    }
    let topic = topics.get_mut(record.topic).expect("just made sure");
    topic.messages += 1;
    topic.bytes += size as u64;
    topic.body_bytes += record.body.len() as u64;
    topic.first_ms = topic.first_ms.min(record.store_timestamp);
    topic.last_ms = topic.last_ms.max(record.store_timestamp);
}

//! Parts of the log that a scan cannot read: damaged parts, and parts that are in no file, or no longer.

use super::log_files::LogFile;
use crate::error::StoreError;

/// Maximum number of damages that a report names; the maximum per call where all are requested.
pub(crate) const NAMED: usize = 100;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DamageKind {
    /// Bytes that cannot be read as a message.
    Record,
    /// Missing bytes between two files: a file is missing, or was cut short.
    Gap,
    /// The file existed when the scan was planned, and was deleted since, with all files before it.
    Expired,
}

impl DamageKind {
    pub fn name(self) -> &'static str {
        match self {
            DamageKind::Record => "damage",
            DamageKind::Gap => "gap",
            DamageKind::Expired => "expired",
        }
    }
}

/// Part of the log that lacks the messages it should have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    pub kind: DamageKind,
    pub physical_offset: u64,
    pub len: u64,
    pub reason: String,
    /// Topic, queue and queue offset, if the record still shows them.
    pub place: Option<(String, i32, i64)>,
}

impl Damage {
    pub(crate) fn gap(start: u64, end: u64) -> Damage {
        let reason = format!("the log has no file for {start} to {end}");
        Damage { kind: DamageKind::Gap, physical_offset: start, len: end - start, reason, place: None }
    }

    /// Returns the damage for the part of a file from `start` to `end` that was deleted meanwhile.
    pub(crate) fn deleted(files: &[LogFile], start: u64, end: u64) -> Damage {
        let is_there = |file: &LogFile| file.start <= start && file.path.exists();
        let (kind, reason) = match files.iter().any(is_there) {
            false => (DamageKind::Expired, "expired while it was read: retention deleted its file"),
            true => (DamageKind::Gap, "its file was deleted while it was read, and older ones were not"),
        };
        Damage { kind, physical_offset: start, len: end - start, reason: reason.into(), place: None }
    }

    /// True if `next` continues the same missing file.
    fn goes_on_in(&self, next: &Damage) -> bool {
        let is_absence = self.kind != DamageKind::Record && self.kind == next.kind;
        is_absence && self.physical_offset + self.len == next.physical_offset && self.reason == next.reason
    }

    /// Returns the damage as an error that names its file, for callers that stop at damage.
    pub(crate) fn error(&self, files: &[LogFile]) -> StoreError {
        let offset = self.physical_offset;
        // File that has the damage, or the one before a gap.
        let path =
            files.iter().rfind(|file| file.start <= offset).map_or_else(Default::default, |file| file.path.clone());
        match self.kind {
            DamageKind::Gap => StoreError::LogGap { path, start: offset, end: offset + self.len },
            DamageKind::Expired => StoreError::FileExpired { path, start: offset, end: offset + self.len },
            DamageKind::Record => {
                let whose = match &self.place {
                    Some((topic, queue_id, queue_offset)) => {
                        format!(" (message {queue_offset} of queue {queue_id} of topic {topic})")
                    }
                    None => String::new(),
                };
                StoreError::Corrupt { path, offset, reason: format!("{}{whose}", self.reason) }
            }
        }
    }
}

#[derive(Clone, Debug, Default)]
pub struct ScanReport {
    /// Number of whole records read, and of their bytes.
    pub records: u64,
    pub bytes: u64,
    /// Number of damaged parts of all kinds, and of their bytes.
    pub damaged: u64,
    pub damaged_bytes: u64,
    /// Number of those parts that are in no file.
    pub absent: u64,
    /// First damages, or those not requested yet.
    pub damages: Vec<Damage>,
    pub(crate) names_all: bool,
}

impl ScanReport {
    pub(crate) fn note(&mut self, damage: Damage) {
        self.damaged += 1;
        self.damaged_bytes += damage.len;
        self.absent += u64::from(damage.kind != DamageKind::Record);
        if self.names_all || self.damages.len() < NAMED {
            self.damages.push(damage);
        }
    }

    pub(crate) fn note_record(
        &mut self,
        physical_offset: u64,
        len: u64,
        reason: String,
        place: Option<(String, i32, i64)>,
    ) {
        self.note(Damage { kind: DamageKind::Record, physical_offset, len, reason, place });
    }

    /// Adds the report of the ranges behind those of this report. A file that was deleted while several ranges read it
    /// counts once.
    pub fn add(&mut self, behind: ScanReport) {
        self.records += behind.records;
        self.bytes += behind.bytes;
        self.damaged += behind.damaged;
        self.damaged_bytes += behind.damaged_bytes;
        self.absent += behind.absent;
        for damage in behind.damages {
            if let Some(last) = self.damages.last_mut().filter(|last| last.goes_on_in(&damage)) {
                last.len += damage.len;
                self.damaged -= 1;
                self.absent -= 1;
            } else if self.damages.len() < NAMED {
                self.damages.push(damage);
            }
        }
    }
}

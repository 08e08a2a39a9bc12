//! What a scan cannot give: stretches of the log that are damaged, and such that no file holds, or not any more.

use super::log_files::LogFile;
use crate::error::StoreError;

/// So many damages are named one by one; of those who ask for all, so many at once.
pub(crate) const NAMED: usize = 100;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DamageKind {
    /// Bytes that cannot be read as a message.
    Record,
    /// Nothing between two files: one is missing, or was cut short.
    Gap,
    /// The file was there when the scan was planned, and is gone with all before it.
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

/// A stretch of the log without the messages it should have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    pub kind: DamageKind,
    pub physical_offset: u64,
    pub len: u64,
    pub reason: String,
    /// Topic, queue and queue offset, when the record can still say.
    pub place: Option<(String, i32, i64)>,
}

impl Damage {
    pub(crate) fn gap(start: u64, end: u64) -> Damage {
        let reason = format!("the log has no file for {start} to {end}");
        Damage { kind: DamageKind::Gap, physical_offset: start, len: end - start, reason, place: None }
    }

    /// What a file had from `start` to `end` before somebody deleted it.
    pub(crate) fn deleted(files: &[LogFile], start: u64, end: u64) -> Damage {
        let is_there = |file: &LogFile| file.start <= start && file.path.exists();
        let (kind, reason) = match files.iter().any(is_there) {
            false => (DamageKind::Expired, "expired while it was read: retention deleted its file"),
            true => (DamageKind::Gap, "its file was deleted while it was read, and older ones were not"),
        };
        Damage { kind, physical_offset: start, len: end - start, reason: reason.into(), place: None }
    }

    /// Whether `next` is more of the same missing file.
    fn goes_on_in(&self, next: &Damage) -> bool {
        let is_absence = self.kind != DamageKind::Record && self.kind == next.kind;
        is_absence && self.physical_offset + self.len == next.physical_offset && self.reason == next.reason
    }

    /// The damage as an error that names its file, for those who do not want to go on.
    pub(crate) fn error(&self, files: &[LogFile]) -> StoreError {
        let offset = self.physical_offset;
        // The file that has it, or the one before a gap.
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
    /// Whole records met, and their bytes.
    pub records: u64,
    pub bytes: u64,
    /// Stretches of all kinds, and their bytes.
    pub damaged: u64,
    pub damaged_bytes: u64,
    /// Those of them that no file holds.
    pub absent: u64,
    /// The first of them, or those that were not asked for yet.
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

    /// Adds what was met in the ranges behind those of this report. A file that went while several of them read it went once.
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

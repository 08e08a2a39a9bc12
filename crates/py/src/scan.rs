//! Scan by one thread: reads the records of byte ranges and returns batches of the selected columns.

use std::sync::Arc;

use arrow_array::RecordBatch;
use columns::{Bounds, Column, RecordColumns};
use store::StoreError;
use store::scan::{Damage, LogFile, LogRange, RangeScan, ScanReport, Seen, Selection};
use wire::Crc;

/// Settings common to all pieces of a scan.
pub(crate) struct Wishes {
    pub files: Arc<[LogFile]>,
    pub log_end: u64,
    pub selection: Selection,
    pub columns: Vec<Column>,
    pub broker_name: Option<String>,
    pub bounds: Bounds,
    pub crc: Crc,
    pub fail_on_damage: bool,
}

impl Wishes {
    pub fn builder(&self) -> RecordColumns {
        RecordColumns::new(&self.columns, self.broker_name.as_deref(), self.bounds)
    }
}

/// Counts and damages of a scan.
#[derive(Clone, Default)]
pub(crate) struct Tally {
    pub report: ScanReport,
    /// Number of selected records.
    pub matched: u64,
}

impl Tally {
    pub fn add(&mut self, behind: Tally) {
        self.report.add(behind.report);
        self.matched += behind.matched;
    }
}

pub(crate) struct Scan {
    wishes: Arc<Wishes>,
    ranges: RangeScan,
    columns: RecordColumns,
    matched: u64,
}

impl Scan {
    pub fn new(wishes: Arc<Wishes>, ranges: Vec<LogRange>) -> Scan {
        let ranges = range_scan(&wishes, ranges);
        Scan { columns: wishes.builder(), wishes, ranges, matched: 0 }
    }

    /// Starts again with other ranges. Memory for columns stays; rows that an error has left in it do not.
    pub fn restart(&mut self, ranges: Vec<LogRange>) {
        if self.columns.rows() > 0 {
            drop(self.columns.finish());
        }
        self.ranges = range_scan(&self.wishes, ranges);
        self.matched = 0;
    }

    /// Returns the next batch, `None` at the end.
    pub fn next(&mut self) -> Result<Option<RecordBatch>, StoreError> {
        let Scan { ranges, wishes, columns, matched } = self;
        let outcome = ranges.run::<StoreError>(|visit| {
            if !wishes.selection.wants(visit.record) {
                return Ok(Seen::Next);
            }
            if let Err(error) = columns.push(visit.record) {
                return Ok(Seen::Damaged(error.to_string()));
            }
            *matched += 1;
            Ok(if columns.is_full() { Seen::Pause } else { Seen::Next })
        });
        if self.wishes.fail_on_damage {
            if let Some(error) = self.ranges.first_damage() {
                return Err(error);
            }
        }
        match outcome {
            Err(error) => Err(error),
            Ok(_) if self.columns.rows() == 0 => Ok(None),
            Ok(_) => Ok(Some(self.columns.finish())),
        }
    }

    /// Returns the next damages, none at the end; the rows in between are dropped.
    pub fn next_damages(&mut self) -> Result<Vec<Damage>, StoreError> {
        let Scan { ranges, wishes, columns, .. } = self;
        ranges.next_damages::<StoreError>(|visit| {
            if columns.is_full() {
                drop(columns.finish());
            }
            let wanted = wishes.selection.wants(visit.record);
            let pushed = if wanted { columns.push(visit.record) } else { Ok(()) };
            Ok(pushed.map_or_else(|error| Seen::Damaged(error.to_string()), |()| Seen::Next))
        })
    }

    pub fn tally(&self) -> Tally {
        Tally { report: self.ranges.report().clone(), matched: self.matched }
    }
}

fn range_scan(wishes: &Wishes, ranges: Vec<LogRange>) -> RangeScan {
    RangeScan::new(wishes.files.clone(), wishes.log_end, ranges, wishes.crc)
}

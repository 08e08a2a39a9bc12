//! Check of index files: every entry must lead to a message with its key, every chain must hold all entries of its
//! slot.

use std::path::Path;

use wire::Record;
use wire::hash::index_hash;

use super::audit::{Audit, Finding, Findings, Kind};
use super::index_view::IndexView;
use crate::error::Result;
use crate::index_file::Entry;
use crate::message::Routing;

impl Audit {
    /// Returns the index files and their numbers of entries.
    pub fn index_files(&self) -> Vec<(String, u64)> {
        self.index.iter().map(|view| (view.path.display().to_string(), view.next_entry - 1)).collect()
    }

    fn view(&self, path: &str) -> Option<&IndexView> {
        self.index.iter().find(|view| view.path == Path::new(path))
    }

    /// Checks entries `[from, to)` of one of the `index_files`; the first entry is 1. A file that has expired since has
    /// no findings.
    pub fn check_index(&self, path: &str, from: u64, to: u64) -> Result<Findings> {
        let Some(view) = self.view(path) else { return Ok(Findings::default()) };
        let mut findings = Findings::default();
        let mut window = None;
        view.walk(from.max(1), to.min(view.next_entry), |number, entry| {
            findings.checked += 1;
            if entry.physical_offset < self.snapshot.log_start as i64 && entry.physical_offset >= 0 {
                return Ok(());
            }
            // Entries added after the snapshot cannot be compared with it.
            if entry.physical_offset >= self.snapshot.log_end as i64 && number + 1 == view.next_entry {
                return Ok(());
            }
            let problem = self.with_record(&mut window, entry.physical_offset, |record, _| {
                entry_problem(view, number, entry, record)
            })?;
            if let Some(detail) = problem.unwrap_or_else(|| Some("no readable message begins there".into())) {
                findings.add(finding(Kind::WrongIndexEntry, view, number, entry.physical_offset, &detail));
            }
            Ok(())
        })?;
        Ok(findings)
    }

    /// Checks that following each slot of an index file meets exactly the entries that belong to it.
    pub fn check_chains(&self, path: &str) -> Result<Findings> {
        let Some(view) = self.view(path) else { return Ok(Findings::default()) };
        let mut findings = Findings::default();
        let mut newest = vec![0u32; view.slots as usize];
        view.walk(1, view.next_entry, |number, entry| {
            findings.checked += 1;
            let last = &mut newest[entry.hash.max(0) as usize % view.slots as usize];
            if entry.previous as u32 != *last {
                let detail = format!("says entry {} came before it in its slot, that was {last}", entry.previous);
                findings.add(finding(Kind::BrokenIndexChain, view, number, entry.physical_offset, &detail));
            }
            *last = number as u32;
            Ok(())
        })?;
        for (slot, (found, expected)) in view.all_slots()?.into_iter().zip(newest).enumerate() {
            // A running broker has added entries; these lead back to the earlier ones.
            let grown = u64::from(found) >= view.next_entry;
            if found != expected && !grown {
                let detail = format!("slot {slot} leads to entry {found}, its newest is {expected}");
                findings.add(finding(Kind::BrokenIndexChain, view, u64::from(expected), -1, &detail));
            }
        }
        Ok(findings)
    }
}

fn entry_problem(view: &IndexView, number: u64, entry: &Entry, record: &Record<'_>) -> Option<String> {
    let keys = Routing::of(record.properties).keys;
    if !keys.iter().any(|key| index_hash(record.topic, key) == entry.hash) {
        return Some(format!("the message there (topic {}) has no key of hash {}", record.topic, entry.hash));
    }
    // The time of a file's first entry counts from the end time of the file before it.
    let seconds = (record.store_timestamp.saturating_sub(view.begin_ms) / 1000).clamp(0, i64::from(i32::MAX));
    if number > 1 && i64::from(entry.seconds) != seconds {
        return Some(format!("says {} s after the file's first message, it was {seconds} s", entry.seconds));
    }
    None
}

fn finding(kind: Kind, view: &IndexView, number: u64, physical_offset: i64, detail: &str) -> Finding {
    Finding {
        kind,
        topic: String::new(),
        queue_id: -1,
        queue_offset: -1,
        physical_offset,
        detail: format!("{} entry {number}: {detail}", view.path.display()),
    }
}

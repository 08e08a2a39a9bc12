//! Index file, read only.
//!
//! The number of slots of a file is a setting of the broker that wrote it and is not stored in the file. It is derived:
//! entry 1 lies right behind the slots and an empty entry 0. It must point to the first message named in the header,
//! and the last entry must point to the last message. The layout is drawn in `index_file`.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::error::{Result, StoreError};
use crate::index_file::Entry;

const HEADER_LEN: u64 = 40;
const ENTRY_LEN: u64 = 20;
const NEXT_ENTRY_AT: u64 = 36;
/// Default number of slots; by default this project and Java use four times as many entries.
const DEFAULT_SLOTS: u64 = 5_000_000;
/// Number of entries read at once when a file is walked.
const WALK_ENTRIES: usize = 3200;

#[derive(Debug)]
pub(crate) struct IndexView {
    pub path: PathBuf,
    file: File,
    pub slots: u64,
    pub begin_ms: i64,
    pub begin_physical: i64,
    pub end_physical: i64,
    /// Number of the entry that will be written next; entries 1 up to but not including this are used.
    pub next_entry: u64,
}

impl IndexView {
    /// Returns the index files of a store, oldest first, and the errors of inconsistent ones. Files without an entry
    /// are left out.
    pub fn of_store(root: &Path) -> Result<(Vec<IndexView>, Vec<StoreError>)> {
        let dir = root.join("index");
        let failed = |e| StoreError::io("listing", &dir, 0, e);
        let entries = match fs::read_dir(&dir) {
            Ok(entries) => entries,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok((Vec::new(), Vec::new())),
            Err(e) => return Err(failed(e)),
        };
        let mut paths = Vec::new();
        for entry in entries {
            let path = entry.map_err(failed)?.path();
            if path.file_name().and_then(|n| n.to_str()).is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit())) {
                paths.push(path);
            }
        }
        paths.sort();
        let (mut views, mut unreadable) = (Vec::new(), Vec::new());
        for path in paths {
            match IndexView::open(path) {
                Ok(view) => views.extend(view),
                Err(error @ StoreError::Corrupt { .. }) => unreadable.push(error),
                Err(error) => return Err(error),
            }
        }
        Ok((views, unreadable))
    }

    fn open(path: PathBuf) -> Result<Option<IndexView>> {
        let failed = |e| StoreError::io("opening", &path, 0, e);
        let file = match File::open(&path) {
            Ok(file) => file,
            // Expired since the directory was listed.
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(failed(e)),
        };
        let len = file.metadata().map_err(failed)?.len();
        let mut view =
            IndexView { path, file, slots: 0, begin_ms: 0, begin_physical: 0, end_physical: 0, next_entry: 0 };
        let mut header = [0u8; HEADER_LEN as usize];
        if len < HEADER_LEN + ENTRY_LEN {
            return Ok(None);
        }
        view.read(0, &mut header)?;
        let i64_at = |at: usize| i64::from_be_bytes(header[at..at + 8].try_into().expect("8 bytes"));
        view.begin_ms = i64_at(0);
        view.begin_physical = i64_at(16);
        view.end_physical = i64_at(24);
        view.next_entry = i32::from_be_bytes(header[36..40].try_into().expect("4 bytes")).max(1) as u64;
        if view.next_entry <= 1 {
            return Ok(None);
        }
        match view.find_slots(len)? {
            Some(slots) => view.slots = slots,
            None => {
                let reason = "its entries do not begin anywhere; the header or the first entry is damaged".into();
                return Err(StoreError::Corrupt { path: view.path, offset: 0, reason });
            }
        }
        Ok(Some(view))
    }

    fn find_slots(&mut self, len: u64) -> Result<Option<u64>> {
        for likely in [DEFAULT_SLOTS, (len - HEADER_LEN) / 84] {
            self.slots = likely;
            if self.fits(len)? {
                return Ok(Some(likely));
            }
        }
        for slots in self.possible_slots(len)? {
            self.slots = slots;
            if self.fits(len)? {
                return Ok(Some(slots));
            }
        }
        Ok(None)
    }

    /// Returns the numbers of slots with which the first entry would match the header. One pass over the file finds
    /// them: trying each number separately takes two reads for every five slots.
    fn possible_slots(&self, len: u64) -> Result<Vec<u64>> {
        // Entries are whole, so candidates are five slots apart.
        let room = (len - HEADER_LEN) / 4;
        let mut slots = if room % 5 == 0 { 5 } else { room % 5 };
        let mut possible = Vec::new();
        let mut buffer = vec![0u8; WALK_ENTRIES * ENTRY_LEN as usize];
        while slots < room {
            let at = HEADER_LEN + slots * 4 + ENTRY_LEN;
            let wanted = (buffer.len() as u64).min(len.saturating_sub(at)) / ENTRY_LEN * ENTRY_LEN;
            if wanted == 0 {
                break;
            }
            let chunk = &mut buffer[..wanted as usize];
            self.read(at, chunk)?;
            for bytes in chunk.chunks_exact(ENTRY_LEN as usize) {
                // Slots that were never used are not an entry, whatever message the file begins with.
                if bytes.iter().any(|byte| *byte != 0) && self.may_be_first(&Entry::decode(bytes)) {
                    possible.push(slots);
                }
                slots += 5;
            }
        }
        Ok(possible)
    }

    fn may_be_first(&self, entry: &Entry) -> bool {
        entry.physical_offset == self.begin_physical && entry.hash >= 0 && entry.previous == 0
    }

    /// True if the file is consistent with this number of slots.
    fn fits(&self, len: u64) -> Result<bool> {
        if self.slots == 0 || self.entry_at(self.next_entry) > len {
            return Ok(false);
        }
        if !self.may_be_first(&self.entry(1)?) {
            return Ok(false);
        }
        let last = self.entry(self.next_entry - 1)?;
        Ok(last.physical_offset == self.end_physical && self.slot(last.hash)? == self.next_entry - 1)
    }

    fn entry_at(&self, number: u64) -> u64 {
        HEADER_LEN + self.slots * 4 + number * ENTRY_LEN
    }

    fn read(&self, at: u64, bytes: &mut [u8]) -> Result<()> {
        self.file.read_exact_at(bytes, at).map_err(|e| StoreError::io("reading", &self.path, at, e))
    }

    /// Returns the number of the newest entry in the slot of `hash`, 0 if the slot is empty.
    pub fn slot(&self, hash: i32) -> Result<u64> {
        let mut bytes = [0u8; 4];
        self.read(HEADER_LEN + hash.max(0) as u64 % self.slots * 4, &mut bytes)?;
        Ok(i32::from_be_bytes(bytes).max(0) as u64)
    }

    fn next_entry_now(&self) -> Result<u64> {
        let mut bytes = [0u8; 4];
        self.read(NEXT_ENTRY_AT, &mut bytes)?;
        // The slot is written before the header.
        Ok(i32::from_be_bytes(bytes).max(1) as u64 + 1)
    }

    pub fn entry(&self, number: u64) -> Result<Entry> {
        let mut bytes = [0u8; ENTRY_LEN as usize];
        self.read(self.entry_at(number), &mut bytes)?;
        Ok(Entry::decode(&bytes))
    }

    /// Calls `visit` with the entries of the slot of `hash`, newest first, until it returns false.
    pub fn chain(&self, hash: i32, mut visit: impl FnMut(u64, &Entry) -> bool) -> Result<()> {
        let mut number = self.slot(hash)?;
        // A running broker may have added entries since the header was read. A slot that points beyond those is a
        // leftover.
        if number >= self.next_entry && number >= self.next_entry_now()? {
            return Ok(());
        }
        while number > 0 {
            let entry = self.entry(number)?;
            if !visit(number, &entry) || entry.previous as u64 >= number {
                break;
            }
            number = entry.previous.max(0) as u64;
        }
        Ok(())
    }

    /// Calls `visit` with entries `[from, to)` and their numbers.
    pub fn walk(&self, from: u64, to: u64, mut visit: impl FnMut(u64, &Entry) -> Result<()>) -> Result<()> {
        let mut buffer = vec![0u8; WALK_ENTRIES * ENTRY_LEN as usize];
        let mut number = from;
        while number < to {
            let count = (to - number).min(WALK_ENTRIES as u64);
            let bytes = &mut buffer[..(count * ENTRY_LEN) as usize];
            self.read(self.entry_at(number), bytes)?;
            for bytes in bytes.chunks_exact(ENTRY_LEN as usize) {
                visit(number, &Entry::decode(bytes))?;
                number += 1;
            }
        }
        Ok(())
    }

    /// Returns all slots, for comparison with the entries.
    pub fn all_slots(&self) -> Result<Vec<u32>> {
        let mut bytes = vec![0u8; self.slots as usize * 4];
        self.read(HEADER_LEN, &mut bytes)?;
        Ok(bytes.chunks_exact(4).map(|slot| u32::from_be_bytes(slot.try_into().expect("4 bytes"))).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOTS: u64 = 1_000_004;
    const ENTRIES: u64 = 1_000;

    /// Writes a file with unusual numbers of slots and entries and one entry, which points to the beginning of the log.
    fn written(path: &Path) -> File {
        let file = File::create_new(path).expect("create");
        file.set_len(HEADER_LEN + SLOTS * 4 + ENTRIES * ENTRY_LEN).expect("size");
        let hash = 7i32;
        file.write_all_at(&hash.to_be_bytes(), HEADER_LEN + SLOTS * 4 + ENTRY_LEN).expect("write");
        file.write_all_at(&1i32.to_be_bytes(), HEADER_LEN + hash as u64 * 4).expect("write");
        file.write_all_at(&2i32.to_be_bytes(), NEXT_ENTRY_AT).expect("write");
        file
    }

    #[test]
    fn one_pass_finds_an_unusual_number_of_slots() {
        let place = tempfile::tempdir().expect("directory");
        let path = place.path().join("20260101000000000");
        let file = written(&path);
        let view = IndexView::open(path).expect("open").expect("a view");
        assert_eq!(view.slots, SLOTS);
        let len = file.metadata().expect("metadata").len();
        let possible = view.possible_slots(len).expect("read");
        assert!(possible.contains(&SLOTS) && possible.len() < 5, "{possible:?}");
    }

    #[test]
    fn a_header_that_leads_nowhere_leaves_nothing_to_try() {
        let place = tempfile::tempdir().expect("directory");
        let path = place.path().join("20260101000000000");
        let file = written(&path);
        file.write_all_at(&12_345i64.to_be_bytes(), 16).expect("damage");
        let len = file.metadata().expect("metadata").len();
        let (begin_ms, end_physical) = (0, 0);
        let view = IndexView {
            path: path.clone(),
            file,
            slots: 0,
            begin_ms,
            begin_physical: 12_345,
            end_physical,
            next_entry: 2,
        };
        assert_eq!(view.possible_slots(len).expect("read"), [0u64; 0]);
        assert!(matches!(IndexView::open(path), Err(StoreError::Corrupt { .. })));
    }
}

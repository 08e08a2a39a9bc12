//! File of a sequence: fixed size, sparse, named by the offset of its first byte, memory mapped on first use.
//!
//! Sharing. One writer (the holder of the store's append lock) writes at or beyond the published position of its
//! sequence; readers read only below it. The position is published with release order after the bytes, so writer and
//! readers never touch the same byte.
//!
//! Full disks. A store to a page of a sparse mapping with no block behind it ends the process with SIGBUS. So the
//! writer calls `reserve` before it writes: blocks are allocated in strides ahead of it, and a full disk is an ordinary
//! error.
//!
//! Bad disks. A page that cannot be read, or that was cut off the file, is an error for the reader (`page_guard`).
//!
//! No descriptor stays open: a store with thousands of queues must stay within the usual limit of 1024. Mappings
//! outlive their descriptor.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};

use memmap2::{Advice, MmapRaw, UncheckedAdvice};
use rustix::fs::{FallocateFlags, fallocate};

use crate::error::{Result, StoreError};
use crate::locks::Whole;
use crate::new_file;
use crate::page_guard::PageGuard;

pub(crate) const PAGE: u64 = 4096;

#[derive(Debug)]
pub(crate) struct MappedFile {
    pub path: PathBuf,
    /// Offset of the first byte within its sequence.
    pub start: u64,
    pub size: u64,
    /// Declared before the mapping that it guards, so that it is dropped first.
    guard: OnceLock<PageGuard>,
    map: OnceLock<MmapRaw>,
    /// Number of bytes from the beginning of the file known to have blocks on disk.
    reserved: AtomicU64,
    /// Held while blocks are allocated: the writer and the populating thread may both need more.
    reserving: Mutex<()>,
}

impl MappedFile {
    /// Creates the file, sparse and zero, or opens the existing one.
    pub fn create(path: PathBuf, start: u64, size: u64) -> Result<MappedFile> {
        let created = new_file::create(&path, size).map_err(|e| StoreError::io("creating", &path, start, e))?;
        let mapped = MappedFile::unmapped(path, start, size);
        match created {
            Some(file) => mapped.map_with(&file)?,
            // Two threads created it at once: there must be one file only.
            None => mapped.map()?,
        };
        Ok(mapped)
    }

    /// Returns a file found on disk; it must have exactly the configured size.
    pub fn found(path: PathBuf, start: u64, size: u64) -> Result<MappedFile> {
        let actual = std::fs::metadata(&path).map_err(|e| StoreError::io("inspecting", &path, start, e))?.len();
        if actual != size {
            return Err(StoreError::WrongFileSize { path, expected: size, actual });
        }
        Ok(MappedFile::unmapped(path, start, size))
    }

    fn unmapped(path: PathBuf, start: u64, size: u64) -> MappedFile {
        MappedFile {
            path,
            start,
            size,
            guard: OnceLock::new(),
            map: OnceLock::new(),
            reserved: AtomicU64::new(0),
            reserving: Mutex::new(()),
        }
    }

    pub fn end(&self) -> u64 {
        self.start + self.size
    }

    fn open_rw(&self) -> Result<File> {
        OpenOptions::new()
            .read(true)
            .write(true)
            .open(&self.path)
            .map_err(|e| StoreError::io("opening", &self.path, self.start, e))
    }

    fn map_with(&self, file: &File) -> Result<&MmapRaw> {
        let map = MmapRaw::map_raw(file).map_err(|e| StoreError::io("mapping", &self.path, self.start, e))?;
        if map.len() as u64 != self.size {
            let (path, actual) = (self.path.clone(), map.len() as u64);
            return Err(StoreError::WrongFileSize { path, expected: self.size, actual });
        }
        let map = self.map.get_or_init(|| map);
        self.guard.get_or_init(|| PageGuard::new(map.as_ptr(), map.len(), &self.path));
        Ok(map)
    }

    #[inline]
    fn map(&self) -> Result<&MmapRaw> {
        match self.map.get() {
            Some(map) if self.guard.get().is_some() => Ok(map),
            _ => self.map_with(&self.open_rw()?),
        }
    }

    /// Returns an error if the range passes the end of the file: positions are read from the disk, which may be
    /// damaged.
    #[inline]
    fn check_bounds(&self, pos: u64, len: u64) -> Result<()> {
        if pos <= self.size && len <= self.size - pos { Ok(()) } else { Err(self.past_the_end(pos, len)) }
    }

    #[cold]
    fn past_the_end(&self, pos: u64, len: u64) -> StoreError {
        let reason = format!("something points to {len} bytes past the end of the file");
        StoreError::Corrupt { path: self.path.clone(), offset: self.start.saturating_add(pos), reason }
    }

    /// Returns `len` bytes at `pos` (relative to this file), or an error if they cannot be read. Callers stay below the
    /// published position, or hold the append lock. Each page is read here, so callers request no more than they need.
    #[inline]
    pub fn bytes(&self, pos: u64, len: usize) -> Result<&[u8]> {
        let bytes = self.unchecked_bytes(pos, len)?;
        touch(bytes);
        self.check_readable(pos, len as u64)?;
        Ok(bytes)
    }

    /// Like `bytes`, for callers that read some of the bytes and call `check_readable` afterwards: unreadable bytes are
    /// zeros.
    #[inline]
    pub fn unchecked_bytes(&self, pos: u64, len: usize) -> Result<&[u8]> {
        let map = self.map()?;
        self.check_bounds(pos, len as u64)?;
        // SAFETY: inside the mapping (just checked), which lives as long as self; the writer does not touch published bytes.
        Ok(unsafe { std::slice::from_raw_parts(map.as_ptr().add(pos as usize), len) })
    }

    /// Returns the number of readable bytes from `pos` on, at most `len`.
    #[inline]
    pub fn readable_len(&self, pos: u64, len: u64) -> u64 {
        self.guard.get().and_then(|guard| guard.first_lost(pos, len)).map_or(len, |lost| lost - pos)
    }

    /// Returns an error if a part of `[pos, pos + len)` was found unreadable.
    #[inline]
    pub fn check_readable(&self, pos: u64, len: u64) -> Result<()> {
        match self.guard.get().and_then(|guard| guard.first_lost(pos, len)) {
            None => Ok(()),
            Some(lost) => Err(self.unreadable(lost)),
        }
    }

    #[cold]
    fn unreadable(&self, pos: u64) -> StoreError {
        let reason = "the disk cannot read the page, or the file was cut short; check the disk, and restore the file from a backup or a replica";
        StoreError::Corrupt { path: self.path.clone(), offset: self.start + pos, reason: reason.into() }
    }

    /// Returns the bytes that the writer is about to fill.
    ///
    /// # Safety
    /// The caller is the only writer of this sequence, and no reader knows of these bytes yet.
    #[inline]
    #[allow(clippy::mut_from_ref)]
    pub unsafe fn bytes_mut(&self, pos: u64, len: usize) -> Result<&mut [u8]> {
        let map = self.map()?;
        self.check_bounds(pos, len as u64)?;
        // SAFETY: inside the mapping (just checked); exclusive as the caller guarantees.
        Ok(unsafe { std::slice::from_raw_parts_mut(map.as_mut_ptr().add(pos as usize), len) })
    }

    /// Returns the raw address of `pos`, for the index, whose slots are changed in place while readers use them.
    #[inline]
    pub fn address(&self, pos: u64, len: u64) -> Result<*mut u8> {
        let map = self.map()?;
        self.check_bounds(pos, len)?;
        // SAFETY: inside the mapping, just checked.
        Ok(unsafe { map.as_mut_ptr().add(pos as usize) })
    }

    /// Reads without mapping, so that reads of a thousand queues do not make them resident.
    pub fn read_at(&self, file: &File, pos: u64, buffer: &mut [u8]) -> Result<()> {
        file.read_exact_at(buffer, pos).map_err(|e| StoreError::io("reading", &self.path, self.start + pos, e))
    }

    pub fn open_for_reading(&self) -> Result<File> {
        File::open(&self.path).map_err(|e| StoreError::io("opening", &self.path, self.start, e))
    }

    #[inline]
    pub fn reserved(&self) -> u64 {
        self.reserved.load(Ordering::Acquire)
    }

    /// Makes sure that the file has blocks on disk up to `upto`; allocates `stride` more bytes than requested so that
    /// allocations are rare.
    #[inline]
    pub fn reserve(&self, upto: u64, stride: u64) -> Result<()> {
        if upto <= self.reserved() { Ok(()) } else { self.reserve_slowly(upto, stride) }
    }

    #[cold]
    fn reserve_slowly(&self, upto: u64, stride: u64) -> Result<()> {
        let _guard = self.reserving.lock().whole();
        let from = self.reserved();
        if upto <= from {
            return Ok(());
        }
        let to = (upto + stride).next_multiple_of(PAGE).min(self.size);
        let file = self.open_rw()?;
        match fallocate(&file, FallocateFlags::KEEP_SIZE, from, to - from) {
            Ok(()) => {}
            // A file system without fallocate: its holes are filled by writing, which is allowed only in the unwritten
            // part.
            Err(rustix::io::Errno::OPNOTSUPP) => fill_holes(&file, from, to)
                .map_err(|e| StoreError::io("reserving", &self.path, self.start + from, e))?,
            Err(e) => return Err(StoreError::io("reserving", &self.path, self.start + from, e.into())),
        }
        self.reserved.fetch_max(to, Ordering::AcqRel);
        Ok(())
    }

    /// Makes `[from, to)` resident and writable ahead of the writer; has no effect where the kernel does not support
    /// it.
    pub fn populate(&self, from: u64, to: u64) -> Result<()> {
        let (from, to) = (from / PAGE * PAGE, to.min(self.size));
        if from < to {
            let _ = self.map()?.advise_range(Advice::PopulateWrite, from as usize, (to - from) as usize);
        }
        Ok(())
    }

    /// Returns the number of bytes from `pos` on, at most `len`, that can be read without waiting for the disk. One
    /// system call checks up to 256 KiB.
    pub fn resident_len(&self, pos: u64, len: u64) -> Result<u64> {
        let first = pos / PAGE * PAGE;
        let mut present = [0u8; 64];
        let pages = (pos + len).min(self.size).saturating_sub(first).div_ceil(PAGE).min(present.len() as u64) as usize;
        let address = self.address(first, 0)?;
        // SAFETY: a page-aligned range inside the mapping, and room for one byte per page of it.
        let answer = unsafe { libc::mincore(address.cast(), pages * PAGE as usize, present.as_mut_ptr()) };
        let resident = if answer == 0 { present[..pages].iter().take_while(|page| *page & 1 == 1).count() } else { 0 };
        Ok((first + resident as u64 * PAGE).saturating_sub(pos).min(len))
    }

    /// Unmaps the resident pages of a flushed file, so that they are only in the page cache; the next reader maps them
    /// again.
    pub fn release_pages(&self) {
        if let Some(map) = self.map.get() {
            // SAFETY: a shared file mapping keeps its data in the page cache; DontNeed only drops the page-table entries.
            let _ = unsafe { map.unchecked_advise(UncheckedAdvice::DontNeed) };
        }
    }

    /// Writes `[from, to)` to the disk and waits until they are on it.
    pub fn flush(&self, from: u64, to: u64) -> Result<()> {
        if from >= to || self.map.get().is_none() {
            return Ok(());
        }
        self.map()?
            .flush_range(from as usize, (to - from) as usize)
            .map_err(|e| StoreError::io("flushing", &self.path, self.start + from, e))
    }

    /// Zeroes `[from, end)`: bytes behind a recovered position must not look like data to the next reader.
    pub fn erase_from(&self, from: u64) -> Result<()> {
        let file = self.open_rw()?;
        let failed = |e: io::Error| StoreError::io("truncating", &self.path, self.start + from, e);
        self.reserved.store(0, Ordering::Release);
        match fallocate(&file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, from, self.size - from) {
            Ok(()) => Ok(()),
            // Shortening and extending the file leaves a hole, too; a mapping follows the file.
            Err(_) => file.set_len(from).and_then(|()| file.set_len(self.size)).map_err(failed),
        }
    }

    pub fn delete(&self) -> Result<()> {
        match std::fs::remove_file(&self.path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(StoreError::io("deleting", &self.path, self.start, e)),
            _ => Ok(()),
        }
    }

    pub fn modified_ms(&self) -> Result<i64> {
        let modified = std::fs::metadata(&self.path)
            .and_then(|m| m.modified())
            .map_err(|e| StoreError::io("inspecting", &self.path, self.start, e))?;
        Ok(modified.duration_since(std::time::UNIX_EPOCH).map_or(0, |d| d.as_millis() as i64))
    }
}

/// Reads one byte of each page.
#[inline]
fn touch(bytes: &[u8]) {
    let mut page = 0;
    while page < bytes.len() {
        // SAFETY: inside the slice. Volatile, so that the compiler keeps the read.
        unsafe { bytes.as_ptr().add(page).read_volatile() };
        page += PAGE as usize;
    }
    if let Some(last) = bytes.last() {
        // SAFETY: as above.
        unsafe { std::ptr::from_ref(last).read_volatile() };
    }
}

fn fill_holes(file: &File, from: u64, to: u64) -> io::Result<()> {
    let mut page = [0u8; PAGE as usize];
    let mut pos = from;
    while pos < to {
        // Writing the bytes of a page back to it allocates its block and changes nothing.
        let len = (to - pos).min(PAGE) as usize;
        file.read_exact_at(&mut page[..len], pos)?;
        file.write_all_at(&page[..len], pos)?;
        pos += len as u64;
    }
    Ok(())
}

/// Returns every path in a directory.
pub(crate) fn entries(dir: &Path) -> Result<Vec<PathBuf>> {
    let failed = |e| StoreError::io("listing", dir, 0, e);
    std::fs::read_dir(dir).map_err(failed)?.map(|entry| Ok(entry.map_err(failed)?.path())).collect()
}

/// Makes the creation or removal of entries in `dir` durable.
pub(crate) fn sync_dir(dir: &Path) -> Result<()> {
    File::open(dir).and_then(|d| d.sync_all()).map_err(|e| StoreError::io("syncing", dir, 0, e))
}

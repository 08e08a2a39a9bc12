//! Detection of other users of the directory, and of an unclean exit of the last one.
//!
//! `lock`: a POSIX record lock on its first byte, the same one Java's `tryLock(0, 1, false)` takes, so the two brokers
//! exclude each other; its content is the four bytes `lock`. Record locks belong to a process and vanish with any close
//! of the file. So a set of the directories held by *this* process prevents a second store in it.
//!
//! `abort`: an empty file that exists while the store is open. If it is there at opening, the last user did not close
//! the store.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex};

use crate::error::{Result, StoreError};
use crate::locks::Whole;
use crate::mapped_file::sync_dir;

static HELD: LazyLock<Mutex<HashSet<PathBuf>>> = LazyLock::new(Mutex::default);

#[derive(Debug)]
pub(crate) struct DirectoryLock {
    root: PathBuf,
    _file: File,
}

impl DirectoryLock {
    pub fn take(root: &Path) -> Result<DirectoryLock> {
        let path = root.join("lock");
        let root = root.canonicalize().map_err(|e| StoreError::io("resolving", root, 0, e))?;
        let mut held = HELD.lock().whole();
        if held.contains(&root) {
            return Err(StoreError::Locked { path, holder: Some(std::process::id() as i32) });
        }
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(|e| StoreError::io("opening", &path, 0, e))?;
        let mut region = first_byte_for_writing();
        // SAFETY: a valid descriptor and a valid struct, as fcntl(2) requires.
        if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLK, &region) } != 0 {
            let error = io::Error::last_os_error();
            if !matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) {
                return Err(StoreError::io("locking", &path, 0, error));
            }
            // SAFETY: as above; F_GETLK fills in the holder of the region.
            let known = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETLK, &mut region) } == 0
                && region.l_type != libc::F_UNLCK as libc::c_short;
            return Err(StoreError::Locked { path, holder: known.then_some(region.l_pid) });
        }
        file.write_all_at(b"lock", 0)
            .and_then(|()| file.sync_all())
            .map_err(|e| StoreError::io("writing", &path, 0, e))?;
        held.insert(root.clone());
        Ok(DirectoryLock { root, _file: file })
    }
}

impl Drop for DirectoryLock {
    fn drop(&mut self) {
        HELD.lock().whole().remove(&self.root);
    }
}

/// True if a process on this machine has the directory open; the check does not take the lock.
pub(crate) fn is_in_use(root: &Path) -> bool {
    // Held until the end: if this process took the lock meanwhile, closing the file here would release it again.
    let held = HELD.lock().whole();
    if root.canonicalize().is_ok_and(|root| held.contains(&root)) {
        return true;
    }
    let Ok(file) = File::open(root.join("lock")) else { return false };
    let mut region = first_byte_for_writing();
    // SAFETY: a valid descriptor and a valid struct, as fcntl(2) requires.
    let asked = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETLK, &mut region) } == 0;
    asked && region.l_type != libc::F_UNLCK as libc::c_short
}

fn first_byte_for_writing() -> libc::flock {
    // SAFETY: plain integers, for which all zeros is a value.
    let mut region: libc::flock = unsafe { std::mem::zeroed() };
    region.l_type = libc::F_WRLCK as libc::c_short;
    region.l_whence = libc::SEEK_SET as libc::c_short;
    region.l_len = 1;
    region
}

fn abort_path(root: &Path) -> PathBuf {
    root.join("abort")
}

pub(crate) fn last_exit_was_clean(root: &Path) -> bool {
    !abort_path(root).exists()
}

pub(crate) fn mark_running(root: &Path) -> Result<()> {
    let path = abort_path(root);
    File::create(&path).map_err(|e| StoreError::io("creating", &path, 0, e))?;
    sync_dir(root)
}

pub(crate) fn mark_clean_exit(root: &Path) -> Result<()> {
    let path = abort_path(root);
    fs::remove_file(&path).map_err(|e| StoreError::io("deleting", &path, 0, e))?;
    sync_dir(root)
}

//! Creation of files that have their final size from the moment they have their name.
//!
//! A store, Java's included, does not open when one of its files has another size, and a process can be killed at any
//! moment. So the file is created without a name in its directory (`O_TMPFILE`), gets its size, and is then linked to
//! its name. If the process dies before the link, nothing is left of the file. It is created in the directory itself
//! because the directory may be a file system of its own.
//!
//! Some file systems (NFS) do not support files without a name. There the file gets a temporary name next to the
//! directory. Java reads every name in the directory as a number and does not start if one is not a number. The
//! temporary name is inside the directory only if the directory is a file system of its own. The next opening of the
//! store deletes the files that a killed process left in either place.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, CWD, RenameFlags, linkat, renameat_with};
use rustix::io::Errno;

use crate::error::{Result, StoreError};

/// Part of the temporary name of a file under creation; such a file that is found at opening was never used.
pub(crate) const UNFINISHED: &str = ".creating-";

/// Creates `path` as a sparse file of `size` bytes. Returns `None` if the name is taken.
pub(crate) fn create(path: &Path, size: u64) -> io::Result<Option<File>> {
    match create_without_name(path, size)? {
        Some(outcome) => Ok(outcome),
        None => create_with_name(path, size),
    }
}

/// Creates the file without a name first. The outer `None` means that this file system does not support it.
#[allow(clippy::option_option)]
fn create_without_name(path: &Path, size: u64) -> io::Result<Option<Option<File>>> {
    let dir = path.parent().expect("a file in a directory");
    let Ok(file) = OpenOptions::new().read(true).write(true).mode(0o666).custom_flags(libc::O_TMPFILE).open(dir) else {
        // Any other error occurs again, and is reported, when the file is created with a temporary name.
        return Ok(None);
    };
    file.set_len(size)?;
    match linkat(CWD, format!("/proc/self/fd/{}", file.as_raw_fd()), CWD, path, AtFlags::SYMLINK_FOLLOW) {
        Ok(()) => Ok(Some(Some(file))),
        Err(Errno::EXIST) => Ok(Some(None)),
        Err(error @ (Errno::NOSPC | Errno::DQUOT)) => Err(error.into()),
        // Linking fails, for example, without /proc.
        Err(_) => Ok(None),
    }
}

fn create_with_name(path: &Path, size: u64) -> io::Result<Option<File>> {
    let [beside, inside] = temporary_paths(path);
    match create_as(&beside, path, size) {
        Err(e) if e.kind() == io::ErrorKind::CrossesDevices => create_as(&inside, path, size),
        done => done,
    }
}

/// Creates the file under a temporary name, which is removed whatever goes wrong.
fn create_as(temporary: &Path, path: &Path, size: u64) -> io::Result<Option<File>> {
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(temporary)?;
    let named = file.set_len(size).and_then(|()| give_name(temporary, path));
    if !matches!(named, Ok(true)) {
        std::fs::remove_file(temporary)?;
    }
    Ok(named?.then_some(file))
}

/// Returns the temporary paths to try: next to the directory, then inside it.
fn temporary_paths(path: &Path) -> [PathBuf; 2] {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let dir = path.parent().expect("a file in a directory");
    let mut name = dir.file_name().map(OsString::from).unwrap_or_default();
    name.push(format!("{UNFINISHED}{}", COUNT.fetch_add(1, Ordering::Relaxed)));
    [dir.with_file_name(&name), dir.join(&name)]
}

/// Renames without replacing. Returns false if the name is taken.
fn give_name(from: &Path, to: &Path) -> io::Result<bool> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(true),
        Err(Errno::EXIST) => Ok(false),
        // A file system without this kind of rename supports hard links.
        Err(Errno::INVAL | Errno::NOSYS) => match std::fs::hard_link(from, to) {
            Ok(()) => std::fs::remove_file(from).map(|()| true),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(e) => Err(e),
        },
        Err(e) => Err(e.into()),
    }
}

/// Deletes `path` if it is a file that a killed process was creating. Returns true if it was.
pub(crate) fn remove_unfinished(path: &Path) -> Result<bool> {
    let is_unfinished = path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.contains(UNFINISHED));
    if is_unfinished && path.is_file() {
        std::fs::remove_file(path).map_err(|e| StoreError::io("deleting", path, 0, e))?;
        return Ok(true);
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(dir: &Path) -> Vec<PathBuf> {
        std::fs::read_dir(dir).expect("list").map(|entry| entry.expect("entry").path()).collect()
    }

    #[test]
    fn a_name_is_given_once_with_its_size_and_nothing_else_is_left() {
        for create in [create, create_with_name] {
            let place = tempfile::tempdir().expect("directory");
            let dir = place.path().join("commitlog");
            std::fs::create_dir(&dir).expect("create");
            let path = dir.join("00000000000000000000");
            let file = create(&path, 4096).expect("create").expect("new");
            assert_eq!(file.metadata().expect("metadata").len(), 4096);
            std::fs::write(&path, b"taken").expect("write");
            assert!(create(&path, 4096).expect("create").is_none());
            assert_eq!(std::fs::read(&path).expect("read"), b"taken");
            assert!(create(&dir.join("1"), u64::MAX).is_err(), "a size that no file has");
            assert_eq!((names(place.path()), names(&dir)), (vec![dir.clone()], vec![path]));
        }
    }

    #[test]
    fn a_directory_may_be_a_link_to_another_file_system() {
        let place = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("directory");
        let Ok(elsewhere) = tempfile::tempdir_in("/dev/shm") else { return };
        let dir = place.path().join("commitlog");
        std::os::unix::fs::symlink(elsewhere.path(), &dir).expect("link");
        for (number, create) in [create, create_with_name].into_iter().enumerate() {
            create(&dir.join(format!("{number:020}")), 4096).expect("create").expect("new");
            assert_eq!((names(place.path()).len(), names(elsewhere.path()).len()), (1, number + 1));
        }
    }
}

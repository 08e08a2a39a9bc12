//! Handling of mapped pages that cannot be read from the disk: a bad sector, or a file that was cut short.
//!
//! The kernel answers a read of such a page with SIGBUS, which ends the process. The handler here maps a page of zeros
//! in its place and records the loss, and the read continues; `MappedFile::bytes` then checks the record and returns an
//! error instead of the zeros. systemd's journal and Wayland do the same: nothing is unwound, and no lock is taken. The
//! handler uses atomics, `mmap` and `writev` only, as a signal handler must. A SIGBUS anywhere else goes to the handler
//! that was installed before.
//!
//! Bytes that are written to such a page do not reach the disk. So a flush of log or queues fails when it meets such a
//! page (`check_readable`), and appends are rejected until the store is opened again. A lost page stays lost until
//! then, even if the disk recovers.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, compiler_fence, fence};
use std::sync::{Mutex, Once, OnceLock};

use crate::locks::Whole;
use crate::mapped_file::PAGE;

/// Mapping registered with the handler. Never freed, because the handler may read it at any moment, but reused.
#[derive(Debug, Default)]
struct Region {
    /// Address and length; length 0 while the region is not in use.
    base: AtomicUsize,
    len: AtomicUsize,
    faults: AtomicU32,
    /// Bit set of lost pages.
    lost: AtomicPtr<Vec<AtomicU64>>,
    path: AtomicPtr<Vec<u8>>,
    next: AtomicPtr<Region>,
}

static REGIONS: AtomicPtr<Region> = AtomicPtr::new(std::ptr::null_mut());
static FREE: Mutex<Vec<&'static Region>> = Mutex::new(Vec::new());
static PREVIOUS: OnceLock<libc::sigaction> = OnceLock::new();

/// Keeps a mapping registered with the handler.
#[derive(Debug)]
pub(crate) struct PageGuard {
    region: &'static Region,
}

impl PageGuard {
    pub fn new(base: *const u8, len: usize, path: &Path) -> PageGuard {
        install();
        let region = FREE.lock().whole().pop().unwrap_or_else(new_region);
        let words = len.div_ceil(PAGE as usize * 64);
        let lost: Vec<_> = (0..words).map(|_| AtomicU64::new(0)).collect();
        region.faults.store(0, Ordering::Relaxed);
        region.lost.store(Box::into_raw(Box::new(lost)), Ordering::Release);
        region.path.store(Box::into_raw(Box::new(path.as_os_str().as_bytes().to_vec())), Ordering::Release);
        region.base.store(base as usize, Ordering::Release);
        region.len.store(len, Ordering::Release);
        PageGuard { region }
    }

    /// Returns the first of the bytes `[pos, pos + len)` that was lost. Call it after the bytes were read.
    #[inline]
    pub fn first_lost(&self, pos: u64, len: u64) -> Option<u64> {
        // The reads must come first, for the compiler and for the processor.
        compiler_fence(Ordering::SeqCst);
        if self.region.faults.load(Ordering::Acquire) == 0 { None } else { self.search(pos, len) }
    }

    #[cold]
    fn search(&self, pos: u64, len: u64) -> Option<u64> {
        fence(Ordering::SeqCst);
        // SAFETY: set in `new` and freed only in `drop`.
        let lost = unsafe { &*self.region.lost.load(Ordering::Acquire) };
        let is_lost = |page: u64| lost[page as usize / 64].load(Ordering::Acquire) >> (page % 64) & 1 == 1;
        let pages = pos / PAGE..(pos + len).div_ceil(PAGE);
        pages.into_iter().find(|&page| is_lost(page)).map(|page| (page * PAGE).max(pos))
    }
}

impl Drop for PageGuard {
    fn drop(&mut self) {
        // No thread reads a mapping that is being dropped, so the handler is in no page of this one.
        self.region.len.store(0, Ordering::Release);
        let lost = self.region.lost.swap(std::ptr::null_mut(), Ordering::AcqRel);
        let path = self.region.path.swap(std::ptr::null_mut(), Ordering::AcqRel);
        // SAFETY: both come from `Box::into_raw` in `new`, and the swap has made this the only owner.
        unsafe { drop((Box::from_raw(lost), Box::from_raw(path))) };
        FREE.lock().whole().push(self.region);
    }
}

fn new_region() -> &'static Region {
    let region: &'static Region = Box::leak(Box::default());
    let address = std::ptr::from_ref(region).cast_mut();
    let mut first = REGIONS.load(Ordering::Acquire);
    loop {
        region.next.store(first, Ordering::Release);
        match REGIONS.compare_exchange(first, address, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return region,
            Err(now) => first = now,
        }
    }
}

fn install() {
    static INSTALL: Once = Once::new();
    INSTALL.call_once(|| {
        // SAFETY: plain structs, for which all zeros is a value, and a handler with the signature that SA_SIGINFO asks for.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            let mut previous: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handle as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
            libc::sigemptyset(&mut action.sa_mask);
            // Stored before the handler can run.
            if libc::sigaction(libc::SIGBUS, std::ptr::null(), &mut previous) == 0 {
                let _ = PREVIOUS.set(previous);
                libc::sigaction(libc::SIGBUS, &action, std::ptr::null_mut());
            }
        }
    });
}

extern "C" fn handle(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel gives a valid siginfo; errno belongs to this thread.
    let (code, address, errno) = unsafe { ((*info).si_code, (*info).si_addr() as usize, *libc::__errno_location()) };
    if code == libc::SI_TKILL {
        // A handler that was installed later (Python's faulthandler) has reported the fault and raised the signal again
        // for this handler. The instruction that met the page is repeated, and then the fault itself arrives here.
        return;
    }
    if code <= 0 || !replace_page(address) {
        pass_on(signal, info, context);
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

/// Maps zeros in place of the page at `address`, if the page belongs to a region. Returns true if it does.
fn replace_page(address: usize) -> bool {
    let mut next = REGIONS.load(Ordering::Acquire);
    // SAFETY: regions are never freed.
    while let Some(region) = unsafe { next.as_ref() } {
        let (base, len) = (region.base.load(Ordering::Acquire), region.len.load(Ordering::Acquire));
        if address >= base && address - base < len {
            return replace_in(region, base, (address - base) as u64 / PAGE);
        }
        next = region.next.load(Ordering::Acquire);
    }
    false
}

fn replace_in(region: &Region, base: usize, page: u64) -> bool {
    // SAFETY: the thread that met the fault holds the mapping, so its guard has not been dropped.
    let Some(lost) = (unsafe { region.lost.load(Ordering::Acquire).as_ref() }) else { return false };
    // Recorded before any thread can read the zeros.
    let before = lost[page as usize / 64].fetch_or(1 << (page % 64), Ordering::SeqCst);
    region.faults.fetch_add(1, Ordering::SeqCst);
    let (protection, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_FIXED | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    let at = (base + (page * PAGE) as usize) as *mut libc::c_void;
    // SAFETY: replaces one page inside a mapping of ours, which stays mapped and of the same length.
    if unsafe { libc::mmap(at, PAGE as usize, protection, flags, -1, 0) } == libc::MAP_FAILED {
        return false;
    }
    if before >> (page % 64) & 1 == 0 {
        tell(region, page * PAGE);
    }
    true
}

/// Writes a line to standard error, using only calls that are allowed in a signal handler.
fn tell(region: &Region, pos: u64) {
    // SAFETY: as in `replace_in`.
    let Some(path) = (unsafe { region.path.load(Ordering::Acquire).as_ref() }) else { return };
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    let mut left = pos;
    while at == digits.len() || left > 0 {
        at -= 1;
        digits[at] = b'0' + (left % 10) as u8;
        left /= 10;
    }
    let rest = b"; it counts as damaged until the store is opened again\n";
    let parts = [&b"orbitmq: cannot read the page of "[..], path, b" at byte ", &digits[at..], rest]
        .map(|part| libc::iovec { iov_base: part.as_ptr().cast_mut().cast(), iov_len: part.len() });
    // SAFETY: valid ranges of bytes, which are only read. A failed write does no harm.
    unsafe { libc::writev(2, parts.as_ptr(), parts.len() as libc::c_int) };
}

fn pass_on(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let previous = PREVIOUS.get();
    let handler = previous.map_or(libc::SIG_DFL, |previous| previous.sa_sigaction);
    // SAFETY: calls the handler that was installed before this one, with the arguments it was installed for.
    unsafe {
        match handler {
            libc::SIG_IGN => {}
            libc::SIG_DFL => {
                // The signal is raised again at once and ends the process.
                libc::signal(signal, libc::SIG_DFL);
                if (*info).si_code <= 0 {
                    libc::raise(signal);
                }
            }
            _ if previous.is_some_and(|previous| previous.sa_flags & libc::SA_SIGINFO != 0) => {
                let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) =
                    std::mem::transmute(handler);
                handler(signal, info, context);
            }
            _ => {
                let handler: extern "C" fn(libc::c_int) = std::mem::transmute(handler);
                handler(signal);
            }
        }
    }
}

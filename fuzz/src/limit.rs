//! Allocator that ends the run when one allocation is larger than the input can justify.
//!
//! libFuzzer's own `-malloc_limit_mb` works only under a sanitizer, which stable Rust does not have. So every target
//! installs this allocator. The limit is small on purpose: a reader that trusts a length field allocates megabytes, one
//! that counts the received bytes allocates a small multiple of them. Inputs are at most [`MAX_INPUT_LEN`] bytes; the
//! most expensive input per byte is JSON made of `{0:0,…`: a pair of values (64 bytes) for every four bytes of text,
//! doubled by a growing `Vec`.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Value that `run.sh` passes as `-max_len`.
pub const MAX_INPUT_LEN: usize = 16 * 1024;

/// Maximum allocation of a target: 32 bytes for every byte of the longest input.
pub const MAX_ALLOCATION: usize = 32 * MAX_INPUT_LEN;

/// System allocator with a limit.
pub struct Limited;

/// Number of bytes allocated now, and the maximum since `measured` began.
static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

/// Runs `work` and returns, with its result, the maximum number of bytes allocated meanwhile in addition to those
/// before.
pub fn measured<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = LIVE.load(Relaxed);
    PEAK.store(before, Relaxed);
    let result = work();
    (result, PEAK.load(Relaxed).saturating_sub(before))
}

fn took(bytes: usize) {
    let live = LIVE.fetch_add(bytes, Relaxed).wrapping_add(bytes);
    PEAK.fetch_max(live, Relaxed);
}

fn gave_back(bytes: usize) {
    LIVE.fetch_sub(bytes, Relaxed);
}

fn check(size: usize) {
    if size > MAX_ALLOCATION {
        // No formatting: it would allocate.
        eprintln_raw(b"an allocation is larger than the input can justify\n");
        std::process::abort();
    }
}

fn eprintln_raw(text: &[u8]) {
    use std::io::Write;
    let _ = std::io::stderr().write_all(text);
}

// SAFETY: every call goes to the system allocator unchanged, or ends the process.
unsafe impl GlobalAlloc for Limited {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        check(layout.size());
        took(layout.size());
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        check(layout.size());
        took(layout.size());
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        check(new_size);
        took(new_size);
        gave_back(layout.size());
        unsafe { System.realloc(pointer, layout, new_size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        gave_back(layout.size());
        unsafe { System.dealloc(pointer, layout) }
    }
}

const _: () = assert!(size_of::<wire::json::Value<'static>>() == 32, "the limit is computed from this");

/// Installs the limit in a target.
#[macro_export]
macro_rules! limit_allocations {
    () => {
        #[global_allocator]
        static ALLOCATOR: $crate::Limited = $crate::Limited;
    };
}

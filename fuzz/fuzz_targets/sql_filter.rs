//! An SQL92 expression, a zero byte, and the properties of a message: compiled and evaluated within bounds of memory
//! and steps.
//!
//! The time has no assertion of its own: steps bound it, and `-timeout` of `run.sh` ends the run if they do not.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::filter::{Filter, MAX_STEPS, Verdict};

limit::limit_allocations!();

/// Maximum number of bytes that compiling allocates per byte of the expression: the table of names is the largest part.
const BYTES_PER_BYTE: usize = 64;
/// Number of bytes that compiling may allocate for the shortest expression: buffers of first use, and the text of an
/// error.
const BYTES_AT_LEAST: usize = 32 * 1024;
/// Steps of the last part, which begins within the limit: one is charged for each 16 bytes of two values, or for a text
/// of a list.
const LAST_PART: u32 = 2 * limit::MAX_INPUT_LEN as u32;

fuzz_target!(|bytes: &[u8]| {
    let at = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let (Ok(expression), Ok(properties)) =
        (std::str::from_utf8(&bytes[..at]), std::str::from_utf8(bytes.get(at + 1..).unwrap_or_default()))
    else {
        return;
    };
    let (compiled, taken) = limit::measured(|| Filter::compile(expression));
    assert!(taken <= BYTES_PER_BYTE * expression.len() + BYTES_AT_LEAST, "{taken} bytes for {}", expression.len());
    let Ok(filter) = compiled else { return };
    let (verdict, steps) = filter.judge(properties);
    assert!(steps <= MAX_STEPS + LAST_PART, "{steps} steps");
    assert!(steps <= MAX_STEPS || verdict == Verdict::Error, "{verdict:?} after {steps} steps");
    assert_eq!(filter.judge(properties), (verdict, steps), "the same question has the same answer");
    assert_eq!(filter.matches(properties), verdict == Verdict::True);
});

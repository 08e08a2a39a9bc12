//! Any text as JSON: a parsed value is written and parsed to the same value, with bare keys unchanged and with quoted
//! ones.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::json::{self, Keys, Value};

limit::limit_allocations!();

fn written(value: &Value<'_>, keys: Keys) -> Vec<u8> {
    let mut out = Vec::new();
    json::write(value, keys, &mut out);
    out
}

fuzz_target!(|bytes: &[u8]| {
    let Ok(value) = json::parse(bytes) else { return };
    let bare = written(&value, Keys::Bare);
    let again = json::parse(&bare).expect("our own text");
    assert_eq!(again, value);
    let quoted = written(&value, Keys::Quoted);
    let again = json::parse(&quoted).expect("our own text");
    assert_eq!(written(&again, Keys::Quoted), quoted);
    let _ = (value.reference(), value.get("a"), value.as_i64());
});

//! Property strings: both lookups agree, and decoded properties are encoded and decoded to the same values.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::properties;

limit::limit_allocations!();

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let pairs: Vec<_> = properties::iter(text).collect();
    for (name, value) in pairs.iter().take(50) {
        assert!(!name.is_empty() && !value.is_empty());
        let last = pairs.iter().rev().find(|(found, _)| found == name).map(|(_, value)| *value);
        assert_eq!(properties::get(text, name), last);
        assert_eq!(properties::get_many(text, [name, "TAGS"])[0], last);
    }
    assert_eq!(properties::get(text, ""), None);
    let again = properties::encode(pairs.iter().copied());
    assert!(again.len() <= text.len());
    assert_eq!(properties::iter(&again).collect::<Vec<_>>(), pairs);
});

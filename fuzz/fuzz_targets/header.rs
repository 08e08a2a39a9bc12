//! Headers in either encoding (chosen by the first byte): a decoded header can be encoded, and decodes to the same
//! values.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::{Command, Encoding};

limit::limit_allocations!();

fuzz_target!(|bytes: &[u8]| {
    let Some((&encoding, header)) = bytes.split_first() else { return };
    let Some(encoding) = Encoding::from_byte(encoding & 1) else { return };
    let Ok(command) = Command::decode(header, encoding) else { return };
    let mut out = Vec::new();
    command.encode(encoding, &mut out).expect("decoded, so it fits");
    assert_eq!(Command::decode(&out, encoding).as_ref(), Ok(&command));
    let mut again = Vec::new();
    command.encode(encoding, &mut again).expect("as before");
    assert_eq!(out, again);
    for (name, _) in command.ext_fields.iter().flatten() {
        assert!(command.ext(name).is_some());
    }
    // JSON can hold every value that binary can; in the other direction numbers may be too large.
    let mut json = Vec::new();
    command.encode(Encoding::Json, &mut json).expect("JSON takes everything");
    assert_eq!(Command::decode(&json, Encoding::Json).as_ref(), Ok(&command));
});

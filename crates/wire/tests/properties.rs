//! What must hold for any value and for any bytes.
//!
//! Two kinds: what is written and read again is the same (round trips), and bytes nobody made on purpose give an error or a
//! value, never a panic (garbage). Garbage comes as plain noise, which tests the first checks, and as valid bytes with a few
//! changes, which gets past them.

#[path = "properties/garbage.rs"]
mod garbage;
#[path = "properties/round_trips.rs"]
mod round_trips;
#[path = "properties/values.rs"]
mod values;

//! Ids for messages made of rows.
//!
//! ```text
//! 10 bytes maker 4 bytes milliseconds of the month   2 bytes counter        as 32 upper-case hex digits: RocketMQ's layout
//! 10 bytes hash  4 bytes zero                        2 bytes hash           the same, for a scoped id
//! ```
//!
//! A *scoped* id depends on the scope (query, batch and partition of a streaming sink) and on the whole content of the
//! row. It also depends on the number of equal rows before it in the scope, but not on the position of the row. So a
//! repeated task gives every row the id it had, also when its rows arrive in another order (a shuffle keeps no order);
//! with an id made of the row's number, rows that were never stored would be suppressed. The bytes in the position of
//! the time are zero because tools search for a message from that time on.
//!
//! With the 96 bits of the hash a collision among 10⁹ rows of one scope has a probability of about 10⁻¹¹.
use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use twox_hash::XxHash3_128;

const HEX: &[u8; 16] = b"0123456789ABCDEF";

/// Source of ids.
pub enum Ids {
    /// Ids that were never used before.
    New(NewIds),
    /// Ids that are the same for the same rows.
    Scoped(ScopedIds),
}

/// Ids made of their maker, the time, and a counter.
pub struct NewIds {
    prefix: [u8; 10],
    /// Milliseconds and counter as one number, so that ids beyond 65 536 in one millisecond continue in the next.
    next: u64,
}

impl NewIds {
    /// Creates the source of ids with a `prefix` that no other maker of ids uses.
    pub fn new(prefix: [u8; 10]) -> NewIds {
        NewIds { prefix, next: 0 }
    }

    /// Sets the time: the milliseconds since the month began.
    pub fn set_time(&mut self, month_ms: u32) {
        let begin = u64::from(month_ms) << 16;
        // At the start of a month the time is far behind; if it is a few milliseconds behind, a burst has run ahead.
        if begin > self.next || self.next - begin > 60_000 << 16 {
            self.next = begin;
        }
    }

    fn next(&mut self) -> [u8; 16] {
        let mut id = [0; 16];
        id[..10].copy_from_slice(&self.prefix);
        id[10..].copy_from_slice(&self.next.to_be_bytes()[2..]);
        self.next = (self.next + 1) & 0xFFFF_FFFF_FFFF;
        id
    }
}

/// Ids made of a scope and of the content of a row.
pub struct ScopedIds {
    scope: u128,
    seen: HashMap<u128, u32, BuildHasherDefault<TakeLowHalf>>,
}

impl ScopedIds {
    /// Creates the ids of one scope, from its first row on.
    pub fn new(scope: &str) -> ScopedIds {
        ScopedIds { scope: XxHash3_128::oneshot(scope.as_bytes()), seen: HashMap::default() }
    }

    fn next(&mut self, row: &RowText<'_>) -> [u8; 16] {
        let content = row.hash();
        let count = self.seen.entry(content).or_insert(0);
        let mut text = [0; 36];
        text[..16].copy_from_slice(&self.scope.to_be_bytes());
        text[16..32].copy_from_slice(&content.to_be_bytes());
        text[32..].copy_from_slice(&count.to_be_bytes());
        *count += 1;
        let hash = XxHash3_128::oneshot(&text).to_be_bytes();
        let mut id = [0; 16];
        id[..10].copy_from_slice(&hash[..10]);
        id[14..].copy_from_slice(&hash[10..12]);
        id
    }
}

/// Whole content of a row, on which the id depends.
pub(super) struct RowText<'a> {
    pub(super) topic: &'a str,
    pub(super) place: &'a str,
    pub(super) properties: &'a str,
    pub(super) body: &'a [u8],
}

impl RowText<'_> {
    fn hash(&self) -> u128 {
        let mut text = Vec::with_capacity(96 + self.properties.len());
        text.extend_from_slice(&XxHash3_128::oneshot(self.body).to_be_bytes());
        text.extend_from_slice(&XxHash3_128::oneshot(self.properties.as_bytes()).to_be_bytes());
        text.extend_from_slice(&XxHash3_128::oneshot(self.place.as_bytes()).to_be_bytes());
        text.extend_from_slice(self.topic.as_bytes());
        XxHash3_128::oneshot(&text)
    }
}

impl Ids {
    pub(super) fn next(&mut self, row: &RowText<'_>) -> [u8; 32] {
        let id = match self {
            Ids::New(ids) => ids.next(),
            Ids::Scoped(ids) => ids.next(row),
        };
        let mut text = [0; 32];
        for (two, byte) in text.chunks_exact_mut(2).zip(id) {
            two.copy_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
        }
        text
    }
}

/// Hasher that takes the key as it is: the keys are hashes already.
#[derive(Default)]
pub struct TakeLowHalf(u64);

impl std::hash::Hasher for TakeLowHalf {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }

    fn write_u128(&mut self, value: u128) {
        self.0 = value as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(body: &[u8]) -> RowText<'_> {
        RowText { topic: "orders", place: "", properties: "TAGS\u{1}a", body }
    }

    #[test]
    fn a_scope_gives_the_same_rows_the_same_ids_in_any_order() {
        let ids = |rows: &[&[u8]]| {
            let mut ids = Ids::Scoped(ScopedIds::new("query/7/0"));
            let mut made: Vec<_> = rows.iter().map(|body| ids.next(&row(body))).collect();
            made.sort_unstable();
            made
        };
        let first = ids(&[b"a", b"b", b"a", b"c"]);
        assert_eq!(first, ids(&[b"c", b"a", b"a", b"b"]));
        assert_eq!(first.iter().collect::<std::collections::HashSet<_>>().len(), 4, "equal rows are two messages");
        assert!(first.iter().all(|id| &id[20..28] == b"00000000"), "no time in it");
    }

    #[test]
    fn every_part_of_a_row_and_its_scope_count() {
        let id = |scope: &str, row: RowText<'_>| Ids::Scoped(ScopedIds::new(scope)).next(&row);
        let base = id("q/1/0", row(b"a"));
        assert_eq!(base, id("q/1/0", row(b"a")));
        assert_ne!(base, id("q/2/0", row(b"a")));
        assert_ne!(base, id("q/1/0", row(b"b")));
        assert_ne!(base, id("q/1/0", RowText { topic: "other", ..row(b"a") }));
        assert_ne!(base, id("q/1/0", RowText { place: "b 1", ..row(b"a") }));
        assert_ne!(base, id("q/1/0", RowText { properties: "", ..row(b"a") }));
    }

    #[test]
    fn new_ids_go_on_into_the_next_millisecond() {
        let mut ids = NewIds::new(*b"0123456789");
        ids.set_time(5);
        let all: std::collections::HashSet<_> = (0..70_000).map(|_| ids.next()).collect();
        assert_eq!(all.len(), 70_000);
        ids.set_time(5);
        assert!(!all.contains(&ids.next()), "the same millisecond again");
        ids.set_time(9);
        assert_eq!(&ids.next()[10..], [0, 0, 0, 9, 0, 0]);
    }
}

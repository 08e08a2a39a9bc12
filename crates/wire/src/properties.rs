//! Properties of a message as one string.
//!
//! ```text
//! name 0x01 value 0x02 name 0x01 value …          UTF-8, at most 32767 bytes
//! ```
//!
//! Writers up to 4.9.0 also end the last entry with 0x02, newer ones do not; both are read. Rules for reading an entry
//! (the text between two 0x02): the first 0x01 splits name from value; an entry without 0x01, with an empty name or
//! with an empty value does not count; when a name occurs twice the later entry wins. The string is never converted to
//! a map here: a broker needs three or four names per message and stores the rest unchanged, in order.

use std::collections::HashMap;

use memchr::{memchr, memrchr};

/// Separator between a name and its value.
pub const NAME_VALUE_SEPARATOR: u8 = 0x01;
/// Separator between two entries.
pub const ENTRY_SEPARATOR: u8 = 0x02;
/// Maximum length of a properties string in a record, in bytes.
pub const MAX_LEN: usize = i16::MAX as usize;
/// Maximum length of a properties string that is edited. A longer one would have to lose more than half of it to fit a
/// record.
pub const MAX_EDITED_LEN: usize = 2 * MAX_LEN;
/// Number of names up to which a search is quicker than a table.
const FEW: usize = 32;

/// User keys, separated by spaces; indexed.
pub const KEYS: &str = "KEYS";
/// The tag.
pub const TAGS: &str = "TAGS";
/// Id that the producer gave the message; indexed.
pub const UNIQ_KEY: &str = "UNIQ_KEY";
/// `true` if the producer waits for flush and replication; dropped by the broker.
pub const WAIT: &str = "WAIT";
/// The delay level, decimal.
pub const DELAY: &str = "DELAY";

/// Returns the entries of `properties` that count, in order, duplicates included.
#[inline]
pub fn iter(properties: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut rest = properties;
    std::iter::from_fn(move || {
        while !rest.is_empty() {
            let entry;
            (entry, rest) = match memchr(ENTRY_SEPARATOR, rest.as_bytes()) {
                Some(at) => (&rest[..at], &rest[at + 1..]),
                None => (rest, ""),
            };
            if let Some(pair) = split(entry) {
                return Some(pair);
            }
        }
        None
    })
}

/// Returns the value of `name`: the last entry of that name that counts.
#[inline]
pub fn get<'a>(properties: &'a str, name: &str) -> Option<&'a str> {
    let mut rest = properties;
    while !rest.is_empty() {
        let entry;
        (rest, entry) = match memrchr(ENTRY_SEPARATOR, rest.as_bytes()) {
            Some(at) => (&rest[..at], &rest[at + 1..]),
            None => ("", rest),
        };
        // Cheap test first: most entries have other names.
        if entry.len() > name.len() + 1 && entry.as_bytes()[name.len()] == NAME_VALUE_SEPARATOR {
            if let Some((found, value)) = split(entry) {
                if found == name {
                    return Some(value);
                }
            }
        }
    }
    None
}

/// Returns the values of several names in one pass over `properties`.
#[inline]
pub fn get_many<'a, const N: usize>(properties: &'a str, names: [&str; N]) -> [Option<&'a str>; N] {
    let mut values = [None; N];
    for (name, value) in iter(properties) {
        for (slot, wanted) in values.iter_mut().zip(names) {
            if name == wanted {
                *slot = Some(value);
            }
        }
    }
    values
}

/// Returns the properties string of `pairs`, in their order, without a closing separator.
///
/// Names and values are not checked. Callers that take them from users first reject those that would not be read back
/// (see [`is_name`] and [`is_value`]). The pairs that [`iter`] returns are always read back.
pub fn encode<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let mut out = String::with_capacity(256);
    for (index, (name, value)) in pairs.into_iter().enumerate() {
        if index > 0 {
            out.push(char::from(ENTRY_SEPARATOR));
        }
        out.push_str(name);
        out.push(char::from(NAME_VALUE_SEPARATOR));
        out.push_str(value);
    }
    out
}

/// Returns the string after `edits`: each sets a name to a value, in its old position or at the end, or removes the
/// name if the value is `None`. Entries that no reader accepts or that a later entry overrides are left out, so the
/// result equals the string of a map of the entries.
///
/// A string longer than [`MAX_EDITED_LEN`] is returned unchanged, to be rejected by the log: a header has room for
/// megabytes, and clients must not keep a broker busy with them.
pub fn edited(properties: &str, edits: &[(&str, Option<&str>)]) -> String {
    if properties.len() > MAX_EDITED_LEN {
        return properties.to_owned();
    }
    let mut pairs: Vec<(&str, &str)> = Vec::with_capacity(16);
    let mut places: Option<HashMap<&str, usize>> = None;
    for (found, old) in iter(properties) {
        let earlier = match &places {
            Some(places) => places.get(found).copied(),
            None => pairs.iter().position(|(name, _)| *name == found),
        };
        if let Some(at) = earlier {
            pairs[at].1 = old;
            continue;
        }
        pairs.push((found, old));
        if let Some(places) = &mut places {
            places.insert(found, pairs.len() - 1);
        } else if pairs.len() > FEW {
            places = Some(pairs.iter().enumerate().map(|(at, (name, _))| (*name, at)).collect());
        }
    }
    for &(name, value) in edits {
        match (value, pairs.iter().position(|(found, _)| *found == name)) {
            (Some(value), Some(at)) => pairs[at].1 = value,
            (Some(value), None) => pairs.push((name, value)),
            (None, Some(at)) => drop(pairs.remove(at)),
            (None, None) => {}
        }
    }
    encode(pairs)
}

/// True if `text` can be a name that is read back unchanged: not empty and free of both separators.
#[inline]
pub fn is_name(text: &str) -> bool {
    !text.is_empty() && memchr::memchr2(NAME_VALUE_SEPARATOR, ENTRY_SEPARATOR, text.as_bytes()).is_none()
}

/// True if `text` can be a value that is read back unchanged: not empty and free of [`ENTRY_SEPARATOR`]. A value may
/// contain [`NAME_VALUE_SEPARATOR`], because only the first one in an entry splits the entry; Java's clients send such
/// values.
#[inline]
pub fn is_value(text: &str) -> bool {
    !text.is_empty() && memchr(ENTRY_SEPARATOR, text.as_bytes()).is_none()
}

#[inline]
fn split(entry: &str) -> Option<(&str, &str)> {
    let at = memchr(NAME_VALUE_SEPARATOR, entry.as_bytes())?;
    let (name, value) = (&entry[..at], &entry[at + 1..]);
    (!name.is_empty() && !value.is_empty()).then_some((name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn editing_keeps_order_and_leaves_out_what_does_not_count() {
        let text = "a\u{1}1\u{2}b\u{1}2\u{2}a\u{1}3\u{2}empty\u{1}\u{2}";
        assert_eq!(edited(text, &[("b", Some("9"))]), "a\u{1}3\u{2}b\u{1}9");
        assert_eq!(edited(text, &[("c", Some("9"))]), "a\u{1}3\u{2}b\u{1}2\u{2}c\u{1}9");
        assert_eq!(edited(text, &[("a", None)]), "b\u{1}2");
        assert_eq!(edited(text, &[("c", Some("9")), ("a", None)]), "b\u{1}2\u{2}c\u{1}9");
        assert_eq!(edited("", &[("a", None)]), "");
    }

    #[test]
    fn editing_many_entries_is_like_editing_few() {
        let names: Vec<_> = (0..3 * FEW).map(|i| format!("n{i}")).collect();
        let twice = names.iter().map(|name| (&**name, "1")).chain(names.iter().rev().map(|name| (&**name, "2")));
        let expected = names[1..].iter().map(|name| (&**name, "2")).chain([("new", "3")]);
        assert_eq!(edited(&encode(twice), &[("n0", None), ("new", Some("3"))]), encode(expected));
    }

    #[test]
    fn what_is_too_long_for_any_record_is_not_edited() {
        let text = |len| format!("a\u{1}{}\u{2}a\u{1}2", "x".repeat(len));
        let (longest, longer) = (text(MAX_EDITED_LEN - 6), text(MAX_EDITED_LEN - 5));
        assert_eq!(edited(&longest, &[("b", Some("3"))]), "a\u{1}2\u{2}b\u{1}3");
        assert_eq!(edited(&longer, &[("b", Some("3"))]), longer);
    }

    fn pairs(properties: &str) -> Vec<(&str, &str)> {
        iter(properties).collect()
    }

    #[test]
    fn order_and_text_survive() {
        let given = [("TAGS", "TagA"), ("KEYS", "k1 k2"), ("名", "值 😀")];
        let text = encode(given);
        assert_eq!(text, "TAGS\u{1}TagA\u{2}KEYS\u{1}k1 k2\u{2}名\u{1}值 😀");
        assert_eq!(pairs(&text), given);
    }

    #[test]
    fn closing_separator_is_accepted() {
        assert_eq!(pairs("a\u{1}b\u{2}"), [("a", "b")]);
        assert_eq!(get("a\u{1}b\u{2}", "a"), Some("b"));
    }

    #[test]
    fn entries_that_do_not_count() {
        assert_eq!(pairs(""), []);
        assert_eq!(pairs("\u{2}\u{2}"), []);
        assert_eq!(pairs("ab\u{2}\u{1}v\u{2}n\u{1}\u{2}x\u{1}y"), [("x", "y")]);
        assert_eq!(get("n\u{1}\u{2}ab", "n"), None);
        assert_eq!(get("n\u{1}v\u{2}n\u{1}", "n"), Some("v"), "an empty value does not override");
    }

    #[test]
    fn first_separator_splits() {
        assert_eq!(pairs("n\u{1}v\u{1}w"), [("n", "v\u{1}w")]);
        assert_eq!(get("n\u{1}v\u{1}w", "n"), Some("v\u{1}w"));
        assert_eq!(get("n\u{1}v\u{1}w", "n\u{1}v"), None);
    }

    #[test]
    fn later_duplicate_wins() {
        let text = "k\u{1}1\u{2}other\u{1}x\u{2}k\u{1}2";
        assert_eq!(get(text, "k"), Some("2"));
        assert_eq!(get_many(text, ["k", "none", "other"]), [Some("2"), None, Some("x")]);
    }

    #[test]
    fn a_name_is_not_found_as_a_prefix_or_suffix() {
        assert_eq!(get("KEYS2\u{1}a\u{2}XKEYS\u{1}b", "KEYS"), None);
        assert_eq!(get("a\u{1}b", ""), None);
    }

    #[test]
    fn a_value_may_hold_the_separator_of_names_and_a_name_may_not() {
        assert!(is_name("x y") && is_value("x y"));
        assert!(!is_name("") && !is_name("a\u{1}") && !is_name("\u{2}"));
        assert!(!is_value("") && is_value("a\u{1}b\u{1}") && !is_value("\u{2}"));
    }

    #[test]
    fn what_is_read_can_be_written_again() {
        let text = "n\u{1}v\u{1}w\u{2}\u{1}\u{2}x\u{2}m\u{1}\u{1}";
        assert!(pairs(text).iter().all(|(name, value)| is_name(name) && is_value(value)));
        assert_eq!(encode(iter(text)), "n\u{1}v\u{1}w\u{2}m\u{1}\u{1}");
        assert_eq!(edited(text, &[("a", Some("b"))]), "n\u{1}v\u{1}w\u{2}m\u{1}\u{1}\u{2}a\u{1}b");
    }
}

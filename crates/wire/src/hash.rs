//! Java's `String.hashCode` and the hashes that RocketMQ derives from it.
//!
//! `h = 31·h + unit` over UTF-16 code units, 32-bit wrap-around. Tag filters compare this number (in the consume queue,
//! before the message is read), and index files find keys by it. So it must equal Java's for every string. A character
//! outside the basic plane counts as two units.

/// Returns `String.hashCode` of `text`.
#[inline]
pub fn java_hash(text: &str) -> i32 {
    extend(0, text)
}

/// Returns the consume queue's tags code of a message: 0 without tags, else the sign-extended hash of the whole TAGS
/// property.
#[inline]
pub fn tags_code(tags: &str) -> i64 {
    // The hash of the empty string is 0 already.
    i64::from(java_hash(tags))
}

/// Returns the hash of `key` of `topic` in index files: the absolute value of the hash of `topic#key`, with the one
/// value without a positive counterpart mapped to 0.
#[inline]
pub fn index_hash(topic: &str, key: &str) -> i32 {
    let hash = extend(extend(extend(0, topic), "#"), key);
    hash.checked_abs().unwrap_or(0)
}

/// Continues a hash over more text: `extend(java_hash(a), b) == java_hash(a + b)`.
#[inline]
fn extend(hash: i32, text: &str) -> i32 {
    if text.is_ascii() {
        extend_ascii(hash, text.as_bytes())
    } else {
        text.encode_utf16().fold(hash, |hash, unit| step(hash, i32::from(unit)))
    }
}

#[inline]
fn step(hash: i32, unit: i32) -> i32 {
    hash.wrapping_mul(31).wrapping_add(unit)
}

/// Hashes four bytes at a time: one multiplication in the dependency chain instead of four.
fn extend_ascii(mut hash: i32, bytes: &[u8]) -> i32 {
    const P2: i32 = 31 * 31;
    const P3: i32 = P2 * 31;
    const P4: i32 = P3 * 31;
    let mut fours = bytes.chunks_exact(4);
    for four in &mut fours {
        let [a, b, c, d] = [four[0], four[1], four[2], four[3]].map(i32::from);
        // The sum of four 7-bit units with these weights stays far below i32::MAX.
        hash = hash.wrapping_mul(P4).wrapping_add(a * P3 + b * P2 + c * 31 + d);
    }
    fours.remainder().iter().fold(hash, |hash, &unit| step(hash, i32::from(unit)))
}

#[cfg(test)]
mod tests {
    use super::{index_hash, java_hash, tags_code};

    #[test]
    fn agrees_with_java() {
        assert_eq!(java_hash(""), 0);
        assert_eq!(java_hash("Aa"), 2112);
        assert_eq!(java_hash("BB"), 2112);
        assert_eq!(java_hash("TagA"), 2_598_919);
        assert_eq!(java_hash("中文"), 646_394);
        assert_eq!(java_hash("😀"), 1_772_899, "two UTF-16 units");
    }

    #[test]
    fn every_length_agrees_with_the_definition() {
        let text: String = ('!'..='~').cycle().take(200).collect();
        for end in 0..text.len() {
            let expected = text[..end].bytes().fold(0i32, |h, b| h.wrapping_mul(31).wrapping_add(i32::from(b)));
            assert_eq!(java_hash(&text[..end]), expected, "length {end}");
        }
    }

    #[test]
    fn tag_code_is_sign_extended() {
        assert_eq!(tags_code(""), 0);
        assert_eq!(tags_code("TagA"), 2_598_919);
        // The best-known string whose hash is i32::MIN.
        assert_eq!(tags_code("polygenelubricants"), -2_147_483_648);
    }

    #[test]
    fn index_hash_joins_topic_and_key() {
        assert_eq!(index_hash("T1", "UK1"), 0x6DE5_3ACB);
        assert_eq!(index_hash("T1", "k1"), 0x04B6_8D0C);
        assert_eq!(index_hash("SCHEDULE_TOPIC_XXXX", "UK1"), 0x41C2_AF30);
    }

    #[test]
    fn index_hash_is_never_negative() {
        assert_eq!(java_hash("orders#key-bupndoh"), i32::MIN, "has no absolute value");
        assert_eq!(index_hash("orders", "key-bupndoh"), 0);
        for n in 0..2000 {
            assert!(index_hash("orders", &format!("key-{n}")) >= 0);
        }
    }
}

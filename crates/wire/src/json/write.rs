//! Writes JSON as fastjson does, byte for byte: compact, and with the same choice of escapes.
//!
//! fastjson escapes `" \`, the control characters (`\b \t \n \f \r`, otherwise `\u00XX` with upper-case digits, also
//! for 0x7F–0x9F) and U+2028/2029, and leaves everything else as UTF-8. The header writer must do the same so that our
//! headers equal Java's.

use super::Value;

/// Format of keys that are not strings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    /// Bare: `{0:"a"}`. Java clients and brokers send this form.
    Bare,
    /// As strings with their JSON text (with bare keys in it): `{"0":"a"}`. Any JSON reader accepts this form.
    Quoted,
}

/// Appends `value` to `out`.
pub fn write(value: &Value<'_>, keys: Keys, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Int(number) => out.extend_from_slice(number.to_string().as_bytes()),
        Value::Number(text) => out.extend_from_slice(text.as_bytes()),
        Value::Text(text) => write_string(text, out),
        Value::List(items) => {
            out.push(b'[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write(item, keys, out);
            }
            out.push(b']');
        }
        Value::Map(pairs) => {
            out.push(b'{');
            for (index, (key, value)) in pairs.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write_key(key, keys, out);
                out.push(b':');
                write(value, keys, out);
            }
            out.push(b'}');
        }
    }
}

fn write_key(key: &Value<'_>, keys: Keys, out: &mut Vec<u8>) {
    if keys == Keys::Bare || matches!(key, Value::Text(_)) {
        return write(key, keys, out);
    }
    // Keys inside the key stay bare, as in fastjson: quoting them, too, would escape escapes, doubling the length with
    // every level.
    let mut text = Vec::new();
    write(key, Keys::Bare, &mut text);
    // Values with UTF-8 texts are written as UTF-8.
    write_string(&String::from_utf8_lossy(&text), out);
}

/// Appends a quoted, escaped string.
pub(crate) fn write_string(text: &str, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let bytes = text.as_bytes();
    out.push(b'"');
    let mut done = 0;
    let mut at = 0;
    while at < bytes.len() {
        // (length of the character in bytes, code point) of characters that must be escaped; all others are skipped.
        let (len, unit) = match bytes[at] {
            c @ (0..=0x1F | b'"' | b'\\' | 0x7F) => (1, u16::from(c)),
            0xC2 if bytes[at + 1] <= 0x9F => (2, u16::from(bytes[at + 1])),
            0xE2 if bytes[at + 1] == 0x80 && matches!(bytes[at + 2], 0xA8 | 0xA9) => {
                (3, 0x2000 | u16::from(bytes[at + 2] & 0x3F))
            }
            _ => {
                at += 1;
                continue;
            }
        };
        out.extend_from_slice(&bytes[done..at]);
        match unit {
            0x08 => out.extend_from_slice(b"\\b"),
            0x09 => out.extend_from_slice(b"\\t"),
            0x0A => out.extend_from_slice(b"\\n"),
            0x0C => out.extend_from_slice(b"\\f"),
            0x0D => out.extend_from_slice(b"\\r"),
            0x22 => out.extend_from_slice(b"\\\""),
            0x5C => out.extend_from_slice(b"\\\\"),
            _ => {
                let digit = |shift: u16| DIGITS[usize::from(unit >> shift & 0xF)];
                out.extend_from_slice(&[b'\\', b'u', digit(12), digit(8), digit(4), digit(0)]);
            }
        }
        at += len;
        done = at;
    }
    out.extend_from_slice(&bytes[done..]);
    out.push(b'"');
}

/// Appends a decimal number without allocating.
pub(crate) fn write_i32(number: i32, out: &mut Vec<u8>) {
    let mut digits = [0u8; 11];
    let mut at = digits.len();
    let mut rest = number.unsigned_abs();
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if number < 0 {
        at -= 1;
        digits[at] = b'-';
    }
    out.extend_from_slice(&digits[at..]);
}

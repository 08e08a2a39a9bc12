//! Reads the tokens of a JSON text, one at a time: strings, numbers and commas, but no trees.

use std::borrow::Cow;

use memchr::memchr2;

use super::{JsonError, Value};

/// Position in a text.
pub(crate) struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

/// True if a bare word can begin with `c`.
pub(super) fn starts_word(c: u8) -> bool {
    c.is_ascii_alphabetic() || c == b'_' || c == b'$'
}

impl<'a> Scanner<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Result<Scanner<'a>, JsonError> {
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Scanner { text, at: 0 }),
            Err(error) => Err(JsonError { what: "not UTF-8", at: error.valid_up_to() }),
        }
    }

    pub(crate) fn error(&self, what: &'static str) -> JsonError {
        JsonError { what, at: self.at }
    }

    /// Returns the next byte that is not white space, without consuming it.
    #[inline]
    pub(crate) fn peek(&mut self) -> Option<u8> {
        let bytes = self.text.as_bytes();
        while let Some(&c) = bytes.get(self.at) {
            if !matches!(c, b' ' | b'\t' | b'\n' | b'\r') {
                return Some(c);
            }
            self.at += 1;
        }
        None
    }

    /// Consumes the byte `wanted`, which must come next.
    #[inline]
    pub(crate) fn expect(&mut self, wanted: u8) -> Result<(), JsonError> {
        if self.peek() == Some(wanted) {
            self.at += 1;
            return Ok(());
        }
        Err(self.error(match wanted {
            b':' => "':' missing",
            b'{' => "'{' missing",
            _ => "'[' missing",
        }))
    }

    /// Skips the commas between two elements; at least one is required unless this is the `first` element. Returns true
    /// if the closing bracket follows, and consumes it.
    #[inline]
    pub(crate) fn closes(&mut self, bracket: u8, first: bool) -> Result<bool, JsonError> {
        let mut separated = first;
        while let Some(c) = self.peek() {
            if c == bracket {
                self.at += 1;
                return Ok(true);
            }
            if c != b',' {
                return if separated { Ok(false) } else { Err(self.error("',' missing")) };
            }
            separated = true;
            self.at += 1;
        }
        Err(self.error("closing bracket missing"))
    }

    /// Returns an error if anything but white space follows.
    pub(crate) fn finish(&mut self) -> Result<(), JsonError> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.error("text after the value")),
        }
    }

    /// Reads a bare word: `null`, `true`, or a key without quotes.
    pub(crate) fn word(&mut self) -> Result<&'a str, JsonError> {
        let rest = &self.text[self.at..];
        let end = rest.bytes().position(|c| !(starts_word(c) || c.is_ascii_digit())).unwrap_or(rest.len());
        if end == 0 {
            return Err(self.error("unexpected character"));
        }
        self.at += end;
        Ok(&rest[..end])
    }

    /// Reads a key that is a string or a bare word.
    #[inline]
    pub(crate) fn key(&mut self) -> Result<Cow<'a, str>, JsonError> {
        match self.peek() {
            Some(b'"' | b'\'') => self.string(),
            _ => self.word().map(Cow::Borrowed),
        }
    }

    /// Returns the position of the next token.
    pub(crate) fn position(&mut self) -> usize {
        self.peek();
        self.at
    }

    /// Returns the text between a [`Scanner::position`] and the current position.
    pub(crate) fn since(&self, start: usize) -> &'a str {
        &self.text[start..self.at]
    }

    /// Returns the number of bytes not read yet.
    pub(crate) fn left(&self) -> usize {
        self.text.len() - self.at
    }

    /// Reads a number. Integers that fit become integers, all others keep their text.
    pub(crate) fn number(&mut self) -> Result<Value<'a>, JsonError> {
        let rest = &self.text[self.at..];
        let end = rest.bytes().position(|c| !matches!(c, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E'));
        let token = &rest[..end.unwrap_or(rest.len())];
        if let Ok(number) = token.parse::<i64>() {
            self.at += token.len();
            return Ok(Value::Int(number));
        }
        if !is_number(token) {
            return Err(self.error("malformed number"));
        }
        self.at += token.len();
        Ok(Value::Number(Cow::Borrowed(token)))
    }

    /// Reads a string with its quotes.
    #[inline]
    pub(crate) fn string(&mut self) -> Result<Cow<'a, str>, JsonError> {
        let text = self.text;
        let bytes = text.as_bytes();
        let quote = bytes[self.at];
        let start = self.at + 1;
        // The end is found before the text is unescaped: unescaping never makes text longer, so the required capacity
        // is known.
        let mut end = start;
        let mut escaped = false;
        loop {
            match find(quote, &bytes[end..]) {
                Some(found) if bytes[end + found] == quote => {
                    end += found;
                    break;
                }
                Some(found) if end + found + 2 <= bytes.len() => {
                    escaped = true;
                    end += found + 2;
                }
                _ => return Err(self.error("string not closed")),
            }
        }
        self.at = end + 1;
        match escaped {
            // A backslash may be followed by any character, so `end` may have been inside one for a moment; the quote
            // found after it is ASCII all the same, and so both slice ends are character boundaries.
            false => Ok(Cow::Borrowed(&text[start..end])),
            true => unescape(&text[start..end])
                .map(Cow::Owned)
                .map_err(|at| JsonError { what: "bad escape", at: start + at }),
        }
    }
}

/// Returns the position of the next quote or backslash. Most strings of a header are a few bytes long, too short for
/// memchr to be faster.
#[inline]
fn find(quote: u8, bytes: &[u8]) -> Option<usize> {
    const NEAR: usize = 16;
    let near = bytes.iter().take(NEAR).position(|&c| c == quote || c == b'\\');
    near.or_else(|| Some(NEAR + memchr2(quote, b'\\', bytes.get(NEAR..)?)?))
}

/// True for an optional sign, digits, then optionally a point with digits and an exponent with digits.
fn is_number(token: &str) -> bool {
    fn digits(text: &str) -> (usize, &str) {
        let count = text.bytes().take_while(u8::is_ascii_digit).count();
        (count, &text[count..])
    }
    let (whole, mut rest) = digits(token.strip_prefix(['-', '+']).unwrap_or(token));
    if let Some(fraction) = rest.strip_prefix('.') {
        rest = digits(fraction).1;
    }
    if let Some(exponent) = rest.strip_prefix(['e', 'E']) {
        let (count, after) = digits(exponent.strip_prefix(['-', '+']).unwrap_or(exponent));
        if count == 0 {
            return false;
        }
        rest = after;
    }
    whole > 0 && rest.is_empty()
}

/// Returns `raw` with its escapes replaced, or the position of the first invalid one.
fn unescape(raw: &str) -> Result<String, usize> {
    let mut out = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(found) = memchr::memchr(b'\\', rest.as_bytes()) {
        let bad = raw.len() - rest.len() + found;
        out.push_str(&rest[..found]);
        let mut after = rest[found + 1..].chars();
        let literal = match after.next().ok_or(bad)? {
            c @ ('"' | '\\' | '/' | '\'') => c,
            'b' => '\u{8}',
            'f' => '\u{C}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\u{B}',
            '0' => '\0',
            'x' => char::from(hex(&mut after, 2).ok_or(bad)? as u8),
            'u' => utf16(&mut after).ok_or(bad)?,
            _ => return Err(bad),
        };
        out.push(literal);
        rest = after.as_str();
    }
    out.push_str(rest);
    Ok(out)
}

fn hex(chars: &mut std::str::Chars<'_>, digits: usize) -> Option<u16> {
    (0..digits).try_fold(0u16, |value, _| Some(value << 4 | chars.next()?.to_digit(16)? as u16))
}

/// Reads one `\u` escape, or two that form a surrogate pair. A lone half becomes `?`.
fn utf16(chars: &mut std::str::Chars<'_>) -> Option<char> {
    let first = hex(chars, 4)?;
    if let Some(c) = char::from_u32(u32::from(first)) {
        return Some(c);
    }
    let mut ahead = chars.clone();
    if (ahead.next(), ahead.next()) == (Some('\\'), Some('u')) {
        if let Some(Ok(c)) = hex(&mut ahead, 4).and_then(|second| char::decode_utf16([first, second]).next()) {
            *chars = ahead;
            return Some(c);
        }
    }
    Some('?')
}

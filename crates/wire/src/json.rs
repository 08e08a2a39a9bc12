//! JSON as fastjson writes it.
//!
//! Java's RocketMQ writes its JSON with fastjson, which writes the keys of a map as they are: numbers without quotes
//! (`{0:"a"}`), whole objects as keys (`{{"brokerName":"b","queueId":0,"topic":"T"}:5}`), and `{"$ref":"$.x"}` in place
//! of an object that was written before. Standard readers reject the first two. This reader accepts a superset:
//!
//! * keys: any value, or a bare word (`{a:1}`); an object that came as a *string* stays a string;
//! * strings in double or single quotes, control characters allowed inside; escapes `\" \\ \/ \' \b \f \n \r \t \v \0 \xHH \uHHHH`;
//!   half of a surrogate pair reads as `?`, which is what Java makes of it when it writes the text as UTF-8;
//! * numbers with a plus sign or leading zeros; integers of any size (those beyond i64 and all decimals keep their text);
//! * more commas than needed.
//!
//! Not supported, because no peer writes them: comments, `NaN`, typed literals (`1L`, `Set[…]`, `new Date(…)`).
//!
//! A map is a list of pairs in the order of the text, so nothing is lost: object keys, duplicates, order. `$ref` objects are
//! left in place ([`Value::reference`]).
//!
//! **Memory.** The tree of a hostile text is larger than the text (`[0,0,0…`), so it is bounded in three ways
//! ([`Limits`]): nesting, entries of one list or map (bounded so that their storage stays within the frame limit), and
//! bytes of the whole tree. Strings without escapes borrow from the input.

mod scanner;
mod write;

use std::borrow::Cow;

use thiserror::Error;

use crate::frame::MAX_FRAME_LEN;
pub(crate) use scanner::Scanner;
pub use write::{Keys, write};
pub(crate) use write::{write_i32, write_string};

/// JSON value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    /// `null`
    Null,
    /// `true`, `false`
    Bool(bool),
    /// An integer that fits 64 bits.
    Int(i64),
    /// Any other number, as its text.
    Number(Cow<'a, str>),
    /// A string, or a bare word used as a key.
    Text(Cow<'a, str>),
    /// `[…]`
    List(Vec<Value<'a>>),
    /// `{…}`, in the order of the text, duplicates kept.
    Map(Vec<(Value<'a>, Value<'a>)>),
}

/// Limits of the tree made of one text.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Maximum nesting of lists and maps.
    pub depth: usize,
    /// Maximum bytes for the entries of one list or map.
    pub container_bytes: usize,
    /// Maximum bytes for all entries of the tree together.
    pub tree_bytes: usize,
}

impl Limits {
    /// 64 levels; one container up to the frame limit; the tree up to four times that.
    pub const DEFAULT: Limits = Limits { depth: 64, container_bytes: MAX_FRAME_LEN, tree_bytes: 4 * MAX_FRAME_LEN };
}

/// Reason why a text is not JSON, and its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{what} at byte {at}")]
pub struct JsonError {
    /// Reason.
    pub what: &'static str,
    /// Byte position in the text.
    pub at: usize,
}

/// Reads one value and nothing after it but white space.
pub fn parse(bytes: &[u8]) -> Result<Value<'_>, JsonError> {
    parse_with(bytes, Limits::DEFAULT)
}

/// Like [`parse`], with the given limits.
pub fn parse_with(bytes: &[u8], limits: Limits) -> Result<Value<'_>, JsonError> {
    let mut scanner = Scanner::new(bytes)?;
    let value = parse_value(&mut scanner, limits)?;
    scanner.finish()?;
    Ok(value)
}

/// Reads the next value.
pub(crate) fn parse_value<'a>(scanner: &mut Scanner<'a>, limits: Limits) -> Result<Value<'a>, JsonError> {
    Tree { limits, bytes_left: limits.tree_bytes }.value(scanner, limits.depth)
}

struct Tree {
    limits: Limits,
    bytes_left: usize,
}

impl Tree {
    fn value<'a>(&mut self, scanner: &mut Scanner<'a>, depth: usize) -> Result<Value<'a>, JsonError> {
        match scanner.peek() {
            Some(b'"' | b'\'') => scanner.string().map(Value::Text),
            Some(b'{') => self.map(scanner, self.deeper(scanner, depth)?),
            Some(b'[') => self.list(scanner, self.deeper(scanner, depth)?),
            Some(b'0'..=b'9' | b'-' | b'+') => scanner.number(),
            Some(_) => match word(scanner.word()?) {
                Value::Text(_) => Err(scanner.error("unknown word")),
                value => Ok(value),
            },
            None => Err(scanner.error("value missing")),
        }
    }

    fn deeper(&self, scanner: &Scanner<'_>, depth: usize) -> Result<usize, JsonError> {
        depth.checked_sub(1).ok_or_else(|| scanner.error("nested too deep"))
    }

    fn list<'a>(&mut self, scanner: &mut Scanner<'a>, depth: usize) -> Result<Value<'a>, JsonError> {
        let mut items = Vec::new();
        scanner.expect(b'[')?;
        while !scanner.closes(b']', items.is_empty())? {
            self.charge(scanner, &items)?;
            items.push(self.value(scanner, depth)?);
        }
        Ok(Value::List(items))
    }

    fn map<'a>(&mut self, scanner: &mut Scanner<'a>, depth: usize) -> Result<Value<'a>, JsonError> {
        let mut pairs = Vec::new();
        scanner.expect(b'{')?;
        while !scanner.closes(b'}', pairs.is_empty())? {
            self.charge(scanner, &pairs)?;
            let key = match scanner.peek() {
                Some(c) if scanner::starts_word(c) => word(scanner.word()?),
                _ => self.value(scanner, depth)?,
            };
            scanner.expect(b':')?;
            pairs.push((key, self.value(scanner, depth)?));
        }
        Ok(Value::Map(pairs))
    }

    /// Charges one more entry of `entries` to the limits before it is created.
    fn charge<T>(&mut self, scanner: &Scanner<'_>, entries: &Vec<T>) -> Result<(), JsonError> {
        if entries.len() < entries.capacity() {
            return Ok(()); // charged when the capacity was reserved
        }
        // Vec decides how much it grows: at most to the double, from at least four entries.
        let grown = (entries.len() * 2).max(4) * size_of::<T>();
        let added = grown - entries.len() * size_of::<T>();
        if grown > self.limits.container_bytes || added > self.bytes_left {
            return Err(scanner.error("too many entries"));
        }
        self.bytes_left -= added;
        Ok(())
    }
}

/// Returns the value of a word without quotes.
fn word(word: &str) -> Value<'_> {
    match word {
        "null" => Value::Null,
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        _ => Value::Text(Cow::Borrowed(word)),
    }
}

impl<'a> Value<'a> {
    /// Returns the value of the last entry whose key is the text `name`.
    pub fn get(&self, name: &str) -> Option<&Value<'a>> {
        match self {
            Value::Map(pairs) => pairs.iter().rev().find(|(key, _)| key.as_str() == Some(name)).map(|(_, value)| value),
            _ => None,
        }
    }

    /// Returns the text of a string.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns an integer, also one given as a string: `{0:…}` and `{"0":…}` have the same key.
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Value::Int(number) => Some(*number),
            Value::Text(text) => text.parse().ok(),
            _ => None,
        }
    }

    /// Returns the path of a `{"$ref": path}` object.
    pub fn reference(&self) -> Option<&str> {
        match self {
            Value::Map(pairs) if pairs.len() == 1 => self.get("$ref")?.as_str(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;

//! The JSON encoding of a header.
//!
//! ```json
//! {"code":310,"extFields":{"a":"P1","b":"T1"},"flag":0,"language":"JAVA","opaque":7,"serializeTypeCurrentRPC":"JSON","version":407}
//! ```
//!
//! Written as in Java: compact, names in alphabetical order, nulls left out, every ext value a string. Read as in Java:
//! any order, missing names have defaults (JAVA, 0), unknown ones are skipped, `serializeTypeCurrentRPC` is ignored
//! (the frame contains the encoding), and numbers may be strings. Ext values may be numbers, booleans or even objects,
//! which become their text, and null ones count as missing. The language may be a name or a number.

use std::borrow::Cow;

use super::{Command, ExtFields, HeaderError, Language, MAX_EXT_FIELDS};
use crate::json::{JsonError, Limits, Scanner, Value, parse_value, write_i32, write_string};

pub(super) fn decode(header: &[u8]) -> Result<Command<'_>, HeaderError> {
    let mut command = Command::default();
    let mut scanner = Scanner::new(header)?;
    scanner.expect(b'{')?;
    let mut first = true;
    while !scanner.closes(b'}', first)? {
        first = false;
        let key = scanner.key()?;
        scanner.expect(b':')?;
        match key.as_ref() {
            "code" => command.code = integer(&mut scanner, "code")?,
            "version" => command.version = integer(&mut scanner, "version")?,
            "opaque" => command.opaque = integer(&mut scanner, "opaque")?,
            "flag" => command.flag = integer(&mut scanner, "flag")?,
            "language" => command.language = language(&mut scanner)?,
            "remark" => command.remark = text(&mut scanner)?,
            "extFields" => command.ext_fields = ext_fields(&mut scanner)?,
            _ => drop(parse_value(&mut scanner, Limits::DEFAULT)?),
        }
    }
    scanner.finish()?;
    Ok(command)
}

fn integer(scanner: &mut Scanner<'_>, field: &'static str) -> Result<i32, HeaderError> {
    let number = match parse_value(scanner, Limits::DEFAULT)? {
        Value::Int(number) => Some(number),
        Value::Null => Some(0),
        Value::Text(text) if text.is_empty() => Some(0),
        Value::Text(text) => text.parse().ok(),
        // 1.0 and 1e2 are integers in Java; a number too large for i32 saturates out of range here.
        Value::Number(text) => text.parse::<f64>().ok().map(|number| number as i64),
        _ => None,
    };
    number.and_then(|number| i32::try_from(number).ok()).ok_or(HeaderError::DoesNotFit { field })
}

fn language(scanner: &mut Scanner<'_>) -> Result<Language, JsonError> {
    Ok(match parse_value(scanner, Limits::DEFAULT)? {
        Value::Text(name) => Language::from_name(&name),
        Value::Int(number) => Language::from_number(number),
        _ => Language::Other,
    })
}

fn ext_fields<'a>(scanner: &mut Scanner<'a>) -> Result<Option<ExtFields<'a>>, HeaderError> {
    if scanner.peek() == Some(b'n') {
        return match scanner.word()? {
            "null" => Ok(None),
            _ => Err(scanner.error("unknown word").into()),
        };
    }
    scanner.expect(b'{')?;
    let mut fields = ExtFields::new();
    let mut first = true;
    while !scanner.closes(b'}', first)? {
        first = false;
        let name = scanner.key()?;
        scanner.expect(b':')?;
        if let Some(value) = text(scanner)? {
            if fields.capacity() == 0 {
                fields.reserve(scanner.left().div_ceil(6).clamp(1, 16)); // `"a":1,` is the shortest field
            }
            if fields.len() >= MAX_EXT_FIELDS {
                return Err(HeaderError::TooManyExtFields);
            }
            fields.push((name, value));
        }
    }
    Ok(Some(fields))
}

/// Returns any value as text: strings as they are, null as `None`, all others as their JSON text.
fn text<'a>(scanner: &mut Scanner<'a>) -> Result<Option<Cow<'a, str>>, JsonError> {
    if matches!(scanner.peek(), Some(b'"' | b'\'')) {
        return scanner.string().map(Some);
    }
    let start = scanner.position();
    Ok(match parse_value(scanner, Limits::DEFAULT)? {
        Value::Null => None,
        Value::Int(number) => Some(Cow::Owned(number.to_string())),
        _ => Some(Cow::Borrowed(scanner.since(start))),
    })
}

pub(super) fn encode(command: &Command<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"code\":");
    write_i32(command.code, out);
    if let Some(fields) = &command.ext_fields {
        out.extend_from_slice(b",\"extFields\":{");
        for (index, (name, value)) in fields.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            write_string(name, out);
            out.push(b':');
            write_string(value, out);
        }
        out.push(b'}');
    }
    out.extend_from_slice(b",\"flag\":");
    write_i32(command.flag, out);
    out.extend_from_slice(b",\"language\":\"");
    out.extend_from_slice(command.language.name().as_bytes());
    out.extend_from_slice(b"\",\"opaque\":");
    write_i32(command.opaque, out);
    if let Some(remark) = &command.remark {
        out.extend_from_slice(b",\"remark\":");
        write_string(remark, out);
    }
    out.extend_from_slice(b",\"serializeTypeCurrentRPC\":\"JSON\",\"version\":");
    write_i32(command.version, out);
    out.push(b'}');
}

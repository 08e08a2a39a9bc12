//! The binary encoding of a header ("ROCKETMQ").
//!
//! ```text
//! i16 code   i8 language   i16 version   i32 opaque   i32 flag
//! i32 remark length, remark
//! i32 length of all ext fields in bytes, then for each: i16 name length, name, i32 value length, value
//! ```
//!
//! An empty string is null here: it reads as no remark, and an ext field with an empty name or value reads as missing;
//! without any ext field there is no map. Nevertheless a field with an empty value is written, as in Java. Bytes after
//! the ext fields are ignored, as in Java.

use std::borrow::Cow;

use super::{Command, ExtFields, HeaderError, Language, MAX_EXT_FIELDS};

/// Length of the shortest ext field: two lengths and a character each.
const MIN_FIELD_LEN: usize = 2 + 1 + 4 + 1;

pub(super) fn decode(header: &[u8]) -> Result<Command<'_>, HeaderError> {
    let Some((fixed, rest)) = header.split_first_chunk::<13>() else {
        return Err(HeaderError::Short { field: "fixed part" });
    };
    let &[c1, c0, language, v1, v0, o3, o2, o1, o0, f3, f2, f1, f0] = fixed;
    let (remark, rest) = sized(rest, "remark")?;
    let (fields, _) = sized(rest, "ext fields")?;
    Ok(Command {
        code: i16::from_be_bytes([c1, c0]).into(),
        language: Language::from_number(language.into()),
        version: i16::from_be_bytes([v1, v0]).into(),
        opaque: i32::from_be_bytes([o3, o2, o1, o0]),
        flag: i32::from_be_bytes([f3, f2, f1, f0]),
        remark: text(remark, "remark")?,
        ext_fields: Some(decode_fields(fields)?).filter(|fields| !fields.is_empty()),
    })
}

fn decode_fields(mut bytes: &[u8]) -> Result<ExtFields<'_>, HeaderError> {
    let mut fields = ExtFields::new();
    while !bytes.is_empty() {
        let short = || HeaderError::Short { field: "ext field" };
        let (&name_len, rest) = bytes.split_first_chunk::<2>().ok_or_else(short)?;
        let name_len = usize::try_from(i16::from_be_bytes(name_len)).map_err(|_| short())?;
        let (name, rest) = rest.split_at_checked(name_len).ok_or_else(short)?;
        let (value, rest) = sized(rest, "ext field")?;
        if let (Some(name), Some(value)) = (text(name, "ext field")?, text(value, "ext field")?) {
            if fields.capacity() == 0 {
                // An estimate that the bytes allow; most commands have about this many.
                fields.reserve((bytes.len() / MIN_FIELD_LEN).clamp(1, 16));
            }
            if fields.len() >= MAX_EXT_FIELDS {
                return Err(HeaderError::TooManyExtFields);
            }
            fields.push((name, value));
        }
        bytes = rest;
    }
    Ok(fields)
}

/// Reads a block with its i32 length; also returns the bytes after it.
fn sized<'a>(bytes: &'a [u8], field: &'static str) -> Result<(&'a [u8], &'a [u8]), HeaderError> {
    let short = || HeaderError::Short { field };
    let (&len, rest) = bytes.split_first_chunk::<4>().ok_or_else(short)?;
    let len = usize::try_from(i32::from_be_bytes(len)).map_err(|_| short())?;
    rest.split_at_checked(len).ok_or_else(short)
}

fn text<'a>(bytes: &'a [u8], field: &'static str) -> Result<Option<Cow<'a, str>>, HeaderError> {
    match std::str::from_utf8(bytes) {
        Ok("") => Ok(None),
        Ok(text) => Ok(Some(Cow::Borrowed(text))),
        Err(_) => Err(HeaderError::NotUtf8 { field }),
    }
}

pub(super) fn encode(command: &Command<'_>, out: &mut Vec<u8>) -> Result<(), HeaderError> {
    fn short(number: i32, field: &'static str) -> Result<[u8; 2], HeaderError> {
        i16::try_from(number).map(i16::to_be_bytes).map_err(|_| HeaderError::DoesNotFit { field })
    }
    fn len(len: usize, field: &'static str) -> Result<[u8; 4], HeaderError> {
        i32::try_from(len).map(i32::to_be_bytes).map_err(|_| HeaderError::DoesNotFit { field })
    }
    out.extend_from_slice(&short(command.code, "code")?);
    out.push(command.language as u8);
    out.extend_from_slice(&short(command.version, "version")?);
    out.extend_from_slice(&command.opaque.to_be_bytes());
    out.extend_from_slice(&command.flag.to_be_bytes());
    let remark = command.remark.as_deref().unwrap_or("");
    out.extend_from_slice(&len(remark.len(), "remark")?);
    out.extend_from_slice(remark.as_bytes());

    let fields = command.ext_fields.as_deref().unwrap_or(&[]);
    let bytes = fields.iter().map(|(name, value)| 2 + name.len() + 4 + value.len()).sum();
    out.extend_from_slice(&len(bytes, "ext fields")?);
    out.reserve(bytes);
    for (name, value) in fields {
        let name_len = i16::try_from(name.len()).map_err(|_| HeaderError::DoesNotFit { field: "ext field name" })?;
        out.extend_from_slice(&name_len.to_be_bytes());
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(&len(value.len(), "ext field")?);
        out.extend_from_slice(value.as_bytes());
    }
    Ok(())
}

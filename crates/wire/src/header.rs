//! Commands: the header of every frame, requests and responses alike.
//!
//! A command is a code, a request id (`opaque`) that the response repeats, flag bits (response, one-way), who speaks (`language`,
//! `version`), a `remark` for people, and `extFields`: string to string, the arguments of the request or the results of the
//! response. Two encodings carry the same values: `header::json` and `header::binary`.
//!
//! Ext fields are kept as pairs in the order of the bytes. Java keeps a hash map, so a name that occurs twice has its last value;
//! [`Command::ext`] follows that. `None` and no pairs differ in JSON only (`extFields` missing, or `{}`), and Java clients do
//! look into the map of a successful send without asking whether it is there.
//!
//! One deviation: a language nobody has a name for reads as [`Language::Other`], where Java reads null (or, for a number out of
//! range in JSON, drops the connection).

mod binary;
mod json;

use std::borrow::Cow;

use thiserror::Error;

use crate::json::JsonError;

/// `flag` bit: this is a response.
pub const FLAG_RESPONSE: i32 = 1;
/// `flag` bit: the sender does not expect a response.
pub const FLAG_ONEWAY: i32 = 2;
/// The version number of RocketMQ 4.9.7.
pub const VERSION_4_9_7: i32 = 407;

/// Most ext fields a header may have, so that their storage stays far below the frame limit whatever the bytes say; real
/// commands have about a dozen.
pub const MAX_EXT_FIELDS: usize = 65_536;

/// How a header is encoded; also the frame's encoding byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// 0
    Json,
    /// 1, "ROCKETMQ"
    Binary,
}

impl Encoding {
    /// The encoding a frame's fifth byte names.
    #[inline]
    pub const fn from_byte(byte: u8) -> Option<Encoding> {
        match byte {
            0 => Some(Encoding::Json),
            1 => Some(Encoding::Binary),
            _ => None,
        }
    }

    /// The frame's fifth byte.
    #[inline]
    pub const fn byte(self) -> u8 {
        self as u8
    }
}

/// The language a peer is written in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
#[repr(u8)]
pub enum Language {
    #[default]
    Java,
    Cpp,
    Dotnet,
    Python,
    Delphi,
    Erlang,
    Ruby,
    Other,
    Http,
    Go,
    Php,
    Oms,
    Rust,
}

impl Language {
    const NAMED: [(Language, &'static str); 13] = [
        (Language::Java, "JAVA"),
        (Language::Cpp, "CPP"),
        (Language::Dotnet, "DOTNET"),
        (Language::Python, "PYTHON"),
        (Language::Delphi, "DELPHI"),
        (Language::Erlang, "ERLANG"),
        (Language::Ruby, "RUBY"),
        (Language::Other, "OTHER"),
        (Language::Http, "HTTP"),
        (Language::Go, "GO"),
        (Language::Php, "PHP"),
        (Language::Oms, "OMS"),
        (Language::Rust, "RUST"),
    ];

    /// The name used in JSON.
    pub const fn name(self) -> &'static str {
        Language::NAMED[self as usize].1
    }

    /// The language of that name, in any case.
    pub fn from_name(name: &str) -> Language {
        let found = Language::NAMED.iter().find(|(_, known)| name.eq_ignore_ascii_case(known));
        found.map_or(Language::Other, |(language, _)| *language)
    }

    /// The language of that number.
    pub fn from_number(number: i64) -> Language {
        let found = usize::try_from(number).ok().and_then(|index| Language::NAMED.get(index));
        found.map_or(Language::Other, |(language, _)| *language)
    }
}

/// Names and values of a command, in the order of the bytes.
pub type ExtFields<'a> = Vec<(Cow<'a, str>, Cow<'a, str>)>;

/// A header's values. Text borrows from the frame where it can.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Command<'a> {
    /// What is asked (request) or how it went (response).
    pub code: i32,
    /// Who speaks.
    pub language: Language,
    /// The speaker's version number.
    pub version: i32,
    /// The request's id, repeated by its response.
    pub opaque: i32,
    /// [`FLAG_RESPONSE`] and [`FLAG_ONEWAY`].
    pub flag: i32,
    /// A word to the human reader.
    pub remark: Option<Cow<'a, str>>,
    /// Arguments or results.
    pub ext_fields: Option<ExtFields<'a>>,
}

/// Why bytes are not a header, or values cannot become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum HeaderError {
    /// A binary header ends before its fields do.
    #[error("binary header cut short in its {field}")]
    Short {
        /// The field that does not fit.
        field: &'static str,
    },
    /// Text that is not UTF-8.
    #[error("{field} of a binary header is not UTF-8")]
    NotUtf8 {
        /// The field it is in.
        field: &'static str,
    },
    /// A JSON header that is not JSON.
    #[error("JSON header: {0}")]
    Json(#[from] JsonError),
    /// More than [`MAX_EXT_FIELDS`].
    #[error("too many ext fields")]
    TooManyExtFields,
    /// A number or text that the field's type in the encoding cannot hold.
    #[error("{field} does not fit its field")]
    DoesNotFit {
        /// The field.
        field: &'static str,
    },
}

impl<'a> Command<'a> {
    /// Reads a header.
    #[inline]
    pub fn decode(header: &'a [u8], encoding: Encoding) -> Result<Command<'a>, HeaderError> {
        match encoding {
            Encoding::Json => json::decode(header),
            Encoding::Binary => binary::decode(header),
        }
    }

    /// Appends the header to `out`, which may hold part of it after an error.
    #[inline]
    pub fn encode(&self, encoding: Encoding, out: &mut Vec<u8>) -> Result<(), HeaderError> {
        match encoding {
            Encoding::Json => {
                json::encode(self, out);
                Ok(())
            }
            Encoding::Binary => binary::encode(self, out),
        }
    }

    /// The value of an ext field: the last of that name.
    #[inline]
    pub fn ext(&self, name: &str) -> Option<&str> {
        let pairs = self.ext_fields.as_deref()?;
        pairs.iter().rev().find(|(found, _)| found == name).map(|(_, value)| value.as_ref())
    }

    /// Adds an ext field after those there are.
    pub fn push_ext(&mut self, name: impl Into<Cow<'a, str>>, value: impl Into<Cow<'a, str>>) {
        self.ext_fields.get_or_insert_default().push((name.into(), value.into()));
    }

    /// Whether this is a response.
    #[inline]
    pub fn is_response(&self) -> bool {
        self.flag & FLAG_RESPONSE != 0
    }

    /// Whether no response is wanted.
    #[inline]
    pub fn is_oneway(&self) -> bool {
        self.flag & FLAG_ONEWAY != 0
    }

    /// The same values, borrowing nothing.
    pub fn into_owned(self) -> Command<'static> {
        let own = |text: Cow<'_, str>| Cow::Owned(text.into_owned());
        let own_pair = |(name, value)| (own(name), own(value));
        Command {
            remark: self.remark.map(own),
            ext_fields: self.ext_fields.map(|pairs| pairs.into_iter().map(own_pair).collect()),
            ..Command { remark: None, ext_fields: None, ..self }
        }
    }
}

#[cfg(test)]
mod tests;

//! Commands: the header of every frame, for requests and responses.
//!
//! A command has a code, a request id (`opaque`) that the response repeats, and flag bits (response, one-way). It also
//! has the `language` and `version` of its sender, a `remark` for people, and `extFields`: string to string, the
//! arguments of the request or the results of the response. Two encodings have the same values: `header::json` and
//! `header::binary`.
//!
//! Ext fields are kept as pairs in the order of the bytes. Java keeps a hash map, so the last value of a repeated name
//! counts; [`Command::ext`] does the same. `None` and no pairs differ in JSON only (`extFields` missing, or `{}`). The
//! difference matters: Java clients read the map of a successful send without checking that it exists.
//!
//! One deviation: an unknown language reads as [`Language::Other`], where Java reads null (or, for a number out of
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

/// Maximum number of ext fields of a header, so that their storage stays far below the frame limit for any input; real
/// commands have about a dozen.
pub const MAX_EXT_FIELDS: usize = 65_536;

/// Encoding of a header; also the frame's encoding byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// 0
    Json,
    /// 1, "ROCKETMQ"
    Binary,
}

impl Encoding {
    /// Returns the encoding for a frame's fifth byte.
    #[inline]
    pub const fn from_byte(byte: u8) -> Option<Encoding> {
        match byte {
            0 => Some(Encoding::Json),
            1 => Some(Encoding::Binary),
            _ => None,
        }
    }

    /// Returns the frame's fifth byte.
    #[inline]
    pub const fn byte(self) -> u8 {
        self as u8
    }
}

/// Programming language of a peer.
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

    /// Returns the name used in JSON.
    pub const fn name(self) -> &'static str {
        Language::NAMED[self as usize].1
    }

    /// Returns the language of that name, in any case.
    pub fn from_name(name: &str) -> Language {
        let found = Language::NAMED.iter().find(|(_, known)| name.eq_ignore_ascii_case(known));
        found.map_or(Language::Other, |(language, _)| *language)
    }

    /// Returns the language of that number.
    pub fn from_number(number: i64) -> Language {
        let found = usize::try_from(number).ok().and_then(|index| Language::NAMED.get(index));
        found.map_or(Language::Other, |(language, _)| *language)
    }
}

/// Names and values of a command, in the order of the bytes.
pub type ExtFields<'a> = Vec<(Cow<'a, str>, Cow<'a, str>)>;

/// Values of a header. Text borrows from the frame where possible.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Command<'a> {
    /// Operation (request) or result (response).
    pub code: i32,
    /// Language of the sender.
    pub language: Language,
    /// Version number of the sender.
    pub version: i32,
    /// Id of the request, repeated by its response.
    pub opaque: i32,
    /// [`FLAG_RESPONSE`] and [`FLAG_ONEWAY`].
    pub flag: i32,
    /// Text for a human reader.
    pub remark: Option<Cow<'a, str>>,
    /// Arguments or results.
    pub ext_fields: Option<ExtFields<'a>>,
}

/// Reason why bytes are not a header, or values cannot become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum HeaderError {
    /// A binary header ends before its fields do.
    #[error("binary header cut short in its {field}")]
    Short {
        /// Field that does not fit.
        field: &'static str,
    },
    /// Text that is not UTF-8.
    #[error("{field} of a binary header is not UTF-8")]
    NotUtf8 {
        /// Field with the text.
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
        /// Field.
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

    /// Returns the value of an ext field: the last of that name.
    #[inline]
    pub fn ext(&self, name: &str) -> Option<&str> {
        let pairs = self.ext_fields.as_deref()?;
        pairs.iter().rev().find(|(found, _)| found == name).map(|(_, value)| value.as_ref())
    }

    /// Adds an ext field at the end.
    pub fn push_ext(&mut self, name: impl Into<Cow<'a, str>>, value: impl Into<Cow<'a, str>>) {
        self.ext_fields.get_or_insert_default().push((name.into(), value.into()));
    }

    /// True if this is a response.
    #[inline]
    pub fn is_response(&self) -> bool {
        self.flag & FLAG_RESPONSE != 0
    }

    /// True if the sender expects no response.
    #[inline]
    pub fn is_oneway(&self) -> bool {
        self.flag & FLAG_ONEWAY != 0
    }

    /// Returns the same values, borrowing nothing.
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

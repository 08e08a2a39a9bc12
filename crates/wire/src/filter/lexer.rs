//! Tokens of a selector, read when the parser needs them: text that the parser never reaches may be invalid.

use super::FilterError;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Token<'a> {
    Not,
    And,
    Or,
    Between,
    In,
    True,
    False,
    Null,
    Is,
    /// Digits, without the `L` that may follow them.
    Decimal(&'a str),
    Float(&'a str),
    /// Text between the quotes; quotes inside are still doubled.
    Text(&'a str),
    Name(&'a str),
    Equal,
    NotEqual,
    Greater,
    GreaterEqual,
    Less,
    LessEqual,
    Open,
    Close,
    Comma,
    Plus,
    Minus,
    End,
}

/// Token and its position.
#[derive(Clone, Copy, Debug)]
pub struct Placed<'a> {
    pub token: Token<'a>,
    pub text: &'a str,
    pub at: usize,
}

const KEYWORDS: [(&str, Token<'static>); 9] = [
    ("NOT", Token::Not),
    ("AND", Token::And),
    ("OR", Token::Or),
    ("BETWEEN", Token::Between),
    ("IN", Token::In),
    ("TRUE", Token::True),
    ("FALSE", Token::False),
    ("NULL", Token::Null),
    ("IS", Token::Is),
];

/// Longer symbols come first: the longest match wins.
const SYMBOLS: [(&str, Token<'static>); 11] = [
    ("<>", Token::NotEqual),
    (">=", Token::GreaterEqual),
    ("<=", Token::LessEqual),
    ("=", Token::Equal),
    (">", Token::Greater),
    ("<", Token::Less),
    ("(", Token::Open),
    (")", Token::Close),
    (",", Token::Comma),
    ("+", Token::Plus),
    ("-", Token::Minus),
];

/// Returns the token at `from`, after skipping blanks and comments.
pub fn token_at(source: &str, from: usize) -> Result<Placed<'_>, FilterError> {
    let at = from + skipped(&source[from..]);
    let rest = &source[at..];
    let Some(first) = rest.chars().next() else {
        return Ok(Placed { token: Token::End, text: "", at });
    };
    let placed = |token, len| Placed { token, text: &rest[..len], at };
    if is_name_start(first) {
        let len = rest.find(|c: char| !is_name_start(c) && !c.is_ascii_digit()).unwrap_or(rest.len());
        let word = &rest[..len];
        let keyword = KEYWORDS.iter().find(|(keyword, _)| keyword.eq_ignore_ascii_case(word));
        return Ok(placed(keyword.map_or(Token::Name(word), |(_, token)| *token), len));
    }
    if let Some(len) = float_len(rest) {
        return Ok(placed(Token::Float(&rest[..len]), len));
    }
    if first.is_ascii_digit() {
        // A number does not begin with 0: a leading 0 is a token of its own.
        let digits = if first == '0' { 1 } else { digits_len(rest) };
        let suffix = first != '0' && matches!(rest.as_bytes().get(digits), Some(b'l' | b'L'));
        return Ok(placed(Token::Decimal(&rest[..digits]), digits + usize::from(suffix)));
    }
    if first == '\'' {
        if let Some(len) = text_len(rest) {
            return Ok(placed(Token::Text(&rest[1..len - 1]), len));
        }
    }
    match SYMBOLS.iter().find(|(symbol, _)| rest.starts_with(symbol)) {
        Some((symbol, token)) => Ok(placed(*token, symbol.len())),
        None => Err(lexical_error(source, at, first)),
    }
}

/// Returns line and column of a position, both from 1.
pub fn place(source: &str, at: usize) -> (usize, usize) {
    let before = &source[..at];
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

fn lexical_error(source: &str, at: usize, found: char) -> FilterError {
    let (line, column) = place(source, at);
    let code = u32::from(found);
    FilterError::Token(format!("Lexical error at line {line}, column {column}.  Encountered: \"{found}\" ({code})"))
}

fn is_name_start(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_' || c == '$'
}

/// Returns the number of bytes of blanks and comments. A comment without an end is not a comment.
fn skipped(text: &str) -> usize {
    let mut at = 0;
    loop {
        let rest = &text[at..];
        at += match rest.as_bytes() {
            [b' ' | b'\t' | b'\n' | b'\r' | 0x0c, ..] => 1,
            [b'-', b'-', ..] => match rest.find(['\n', '\r']) {
                Some(end) => end + 1,
                None => return at,
            },
            [b'/', b'*', ..] => match rest[2..].find("*/") {
                Some(end) => end + 4,
                None => return at,
            },
            _ => return at,
        };
    }
}

fn digits_len(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_digit).count()
}

/// Returns the length of `digits . [digits] [exp]`, `. digits [exp]` or `digits exp`.
fn float_len(text: &str) -> Option<usize> {
    let whole = digits_len(text);
    let mut len = whole;
    let mut is_float = false;
    if text[len..].starts_with('.') {
        let fraction = digits_len(&text[len + 1..]);
        if whole == 0 && fraction == 0 {
            return None;
        }
        is_float = true;
        len += 1 + fraction;
    }
    if whole == 0 && !is_float {
        return None;
    }
    let exponent = exponent_len(&text[len..]);
    (is_float || exponent > 0).then_some(len + exponent)
}

fn exponent_len(text: &str) -> usize {
    let sign = match text.as_bytes() {
        [b'e' | b'E', b'+' | b'-', ..] => 2,
        [b'e' | b'E', ..] => 1,
        _ => return 0,
    };
    match digits_len(&text[sign..]) {
        0 => 0,
        digits => sign + digits,
    }
}

/// Returns the length of a text with its quotes. A text that is not closed still ends at its last doubled quote, if it
/// has one: the longest match wins.
fn text_len(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut closed_at = None;
    let mut at = 1;
    while at < bytes.len() {
        if bytes[at] != b'\'' {
            at += 1;
            continue;
        }
        closed_at = Some(at + 1);
        if bytes.get(at + 1) != Some(&b'\'') {
            break;
        }
        at += 2;
    }
    closed_at
}

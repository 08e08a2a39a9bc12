//! Recursive-descent parser of expressions; it looks one token ahead, and two only behind NOT and IS.

use std::collections::HashMap;
use std::sync::Arc;

use super::FilterError;
use super::expression::{Expression, In, Order, Property};
use super::lexer::{Placed, Token, place, token_at};
use super::numbers;

/// Maximum length of an expression, in bytes. Java has no limit except that of a request; people write some hundred
/// bytes.
pub const MAX_TEXT: usize = 64 << 10;
/// Maximum number of tokens of an expression. The tree has at most three nodes for two tokens.
pub const MAX_TOKENS: usize = 8192;
/// Maximum nesting of operands. An expression is untrusted input, and the parser is recursive.
const MAX_DEPTH: usize = 100;
/// Maximum height of the tree, which is walked by recursion: a chain like `a = b = c` makes it higher without any
/// parentheses.
const MAX_HEIGHT: usize = 1000;

/// Expression and its properties, each once.
pub struct Parsed {
    pub expression: Expression,
    pub names: Vec<Arc<str>>,
}

pub fn parse(source: &str) -> Result<Parsed, FilterError> {
    if source.len() > MAX_TEXT {
        let text = format!("the expression has {} bytes, more than {MAX_TEXT}", source.len());
        return Err(FilterError::Limit(text));
    }
    let mut parser = Parser {
        source,
        next_at: 0,
        peeked: None,
        taken: 0,
        depth: 0,
        height: 0,
        names: Vec::new(),
        places: HashMap::new(),
    };
    let expression = parser.or()?.into_boolean()?;
    parser.peek()?; // text after the expression is ignored, but must begin with a valid token
    Ok(Parsed { expression, names: parser.names })
}

struct Parser<'a> {
    source: &'a str,
    next_at: usize,
    peeked: Option<Placed<'a>>,
    taken: usize,
    depth: usize,
    /// Height of the tree that was read last.
    height: usize,
    names: Vec<Arc<str>>,
    places: HashMap<&'a str, u16>,
}

/// Tokens with which an operand may begin.
const OPERAND: [&str; 10] = [
    "\"NOT\"",
    "\"TRUE\"",
    "\"FALSE\"",
    "\"NULL\"",
    "<DECIMAL_LITERAL>",
    "<FLOATING_POINT_LITERAL>",
    "<STRING_LITERAL>",
    "<ID>",
    "\"(\"",
    "\"-\"",
];
/// Tokens that may follow an operand to compare it.
const COMPARISON: [&str; 6] = ["\"BETWEEN\"", "\"IN\"", "\">\"", "\">=\"", "\"<\"", "\"<=\""];

type Operand = Result<Expression, FilterError>;

impl<'a> Parser<'a> {
    fn peek(&mut self) -> Result<Token<'a>, FilterError> {
        if self.peeked.is_none() {
            self.peeked = Some(token_at(self.source, self.next_at)?);
        }
        Ok(self.peeked.expect("just peeked").token)
    }

    /// Returns the token behind the one that was peeked at.
    fn peek_second(&mut self) -> Result<Token<'a>, FilterError> {
        self.peek()?;
        let first = self.peeked.expect("just peeked");
        Ok(token_at(self.source, first.at + first.text.len())?.token)
    }

    fn take(&mut self) -> Result<Placed<'a>, FilterError> {
        self.peek()?;
        let taken = self.peeked.take().expect("just peeked");
        self.taken += 1;
        if self.taken > MAX_TOKENS {
            return Err(FilterError::Limit(format!("the expression has more than {MAX_TOKENS} words and signs")));
        }
        self.next_at = taken.at + taken.text.len();
        Ok(taken)
    }

    fn expect(&mut self, wanted: Token<'a>, name: &'static str) -> Result<(), FilterError> {
        let taken = self.take()?;
        if taken.token == wanted { Ok(()) } else { Err(self.unexpected(taken, &[name])) }
    }

    /// Returns an error with the words and the line breaks of the generated parser of Java's filter.
    fn unexpected(&self, found: Placed<'a>, wanted: &[&str]) -> FilterError {
        let (line, column) = place(self.source, found.at);
        let quoted = match found.token {
            Token::End => "\"<EOF>\"".to_owned(),
            Token::Decimal(_) => format!("\" <DECIMAL_LITERAL> \"{} \"\"", found.text),
            Token::Float(_) => format!("\" <FLOATING_POINT_LITERAL> \"{} \"\"", found.text),
            Token::Text(_) => format!("\" <STRING_LITERAL> \"{} \"\"", found.text),
            Token::Name(_) => format!("\" <ID> \"{} \"\"", found.text),
            _ => format!("\" \"{}\" \"{} \"\"", found.text.to_ascii_uppercase(), found.text),
        };
        let one_of = if wanted.len() > 1 { " one of" } else { "" };
        let mut text = format!("Encountered {quoted} at line {line}, column {column}.\nWas expecting{one_of}:\n    ");
        for name in wanted {
            text.push_str(name);
            text.push_str(" ...\n    ");
        }
        FilterError::Syntax(text)
    }

    fn deeper(&mut self) -> Result<(), FilterError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            let text = format!("the expression is nested more than {MAX_DEPTH} levels deep");
            return Err(FilterError::Limit(text));
        }
        Ok(())
    }

    /// Sets the height of a tree whose highest part has the height `highest`.
    fn above(&mut self, highest: usize, levels: usize) -> Result<(), FilterError> {
        self.height = highest + levels;
        if self.height > MAX_HEIGHT {
            let text = format!("the tree of the expression is more than {MAX_HEIGHT} levels high");
            return Err(FilterError::Limit(text));
        }
        Ok(())
    }

    fn or(&mut self) -> Operand {
        self.joined(&Token::Or, Self::and, Expression::Any)
    }

    fn and(&mut self) -> Operand {
        self.joined(&Token::And, Self::equality, Expression::All)
    }

    fn joined(
        &mut self,
        word: &Token<'a>,
        part: fn(&mut Self) -> Operand,
        join: fn(Box<[Expression]>) -> Expression,
    ) -> Operand {
        let first = part(self)?;
        if self.peek()? != *word {
            return Ok(first);
        }
        let mut parts = vec![first.into_boolean()?];
        let mut highest = self.height;
        while self.peek()? == *word {
            self.take()?;
            parts.push(part(self)?.into_boolean()?);
            highest = highest.max(self.height);
        }
        self.above(highest, 1)?;
        Ok(join(parts.into()))
    }

    fn equality(&mut self) -> Operand {
        let mut left = self.comparison()?;
        loop {
            let highest = self.height;
            left = match self.peek()? {
                Token::Equal => {
                    self.take()?;
                    Expression::equal(left, self.comparison()?)?
                }
                Token::NotEqual => {
                    self.take()?;
                    Expression::equal(left, self.comparison()?)?.not()
                }
                Token::Is => {
                    let is_null = self.peek_second()? == Token::Null;
                    self.take()?;
                    if is_null {
                        self.take()?;
                        left.equal_null()
                    } else {
                        self.expect(Token::Not, "\"NOT\"")?;
                        self.expect(Token::Null, "\"NULL\"")?;
                        left.equal_null().not()
                    }
                }
                _ => return Ok(left),
            };
            self.above(highest.max(self.height), 2)?;
        }
    }

    fn comparison(&mut self) -> Operand {
        let mut left = self.unary()?;
        loop {
            let highest = self.height;
            left = match self.peek()? {
                Token::Greater => self.compared(Order::Greater, left)?,
                Token::GreaterEqual => self.compared(Order::GreaterEqual, left)?,
                Token::Less => self.compared(Order::Less, left)?,
                Token::LessEqual => self.compared(Order::LessEqual, left)?,
                Token::Between => self.between(left, false)?,
                Token::In => self.in_texts(left, false)?,
                Token::Not => match self.peek_second()? {
                    Token::Between => {
                        self.take()?;
                        self.between(left, true)?
                    }
                    Token::In => {
                        self.take()?;
                        self.in_texts(left, true)?
                    }
                    _ => {
                        let not = self.take()?;
                        return Err(self.unexpected(not, &COMPARISON));
                    }
                },
                _ => return Ok(left),
            };
            self.above(highest.max(self.height), 1)?;
        }
    }

    fn compared(&mut self, order: Order, left: Expression) -> Operand {
        self.take()?;
        Expression::compare(order, left, self.unary()?)
    }

    fn between(&mut self, value: Expression, negated: bool) -> Operand {
        self.take()?;
        let low = self.unary()?;
        let highest = self.height;
        self.expect(Token::And, "\"AND\"")?;
        let high = self.unary()?;
        self.height = self.height.max(highest);
        Expression::between(value, low, high, negated)
    }

    fn in_texts(&mut self, left: Expression, negated: bool) -> Operand {
        self.take()?;
        self.expect(Token::Open, "\"(\"")?;
        let mut texts = vec![self.text()?];
        while self.peek()? == Token::Comma {
            self.take()?;
            texts.push(self.text()?);
        }
        self.expect(Token::Close, "\")\"")?;
        match left {
            Expression::Property(property) => {
                Ok(Expression::In(Box::new(In { property, texts: texts.into(), negated })))
            }
            _ => Err(FilterError::Operand(format!("Expected a property for In expression, got: {}", left.shown()))),
        }
    }

    fn text(&mut self) -> Result<Box<str>, FilterError> {
        let taken = self.take()?;
        match taken.token {
            Token::Text(text) => Ok(unquoted(text)),
            _ => Err(self.unexpected(taken, &["<STRING_LITERAL>"])),
        }
    }

    fn unary(&mut self) -> Operand {
        self.deeper()?;
        let operand = match self.peek()? {
            Token::Plus => {
                self.take()?;
                self.unary()?
            }
            Token::Minus => {
                self.take()?;
                let operand = self.unary()?;
                self.above(self.height, 1)?;
                Expression::Negated(Box::new(operand))
            }
            Token::Not => {
                self.take()?;
                let operand = self.unary()?.into_boolean()?;
                self.above(self.height, 1)?;
                operand.not()
            }
            _ => self.primary()?,
        };
        self.depth -= 1;
        Ok(operand)
    }

    fn primary(&mut self) -> Operand {
        let taken = self.take()?;
        self.height = 1;
        let expression = match taken.token {
            Token::True => Expression::Bool(true),
            Token::False => Expression::Bool(false),
            Token::Null => Expression::Null,
            Token::Decimal(digits) => numbers::decimal_literal(digits)?,
            Token::Float(text) => numbers::float_literal(text)?,
            Token::Text(text) => Expression::Text(unquoted(text)),
            Token::Name(name) => Expression::Property(self.property(name)),
            Token::Open => {
                let inner = self.or()?;
                self.expect(Token::Close, "\")\"")?;
                inner
            }
            _ => return Err(self.unexpected(taken, &OPERAND)),
        };
        Ok(expression)
    }

    fn property(&mut self, name: &'a str) -> Property {
        // There are fewer names than tokens, whose limit fits.
        let place = *self.places.entry(name).or_insert_with(|| {
            self.names.push(name.into());
            (self.names.len() - 1) as u16
        });
        Property { name: self.names[usize::from(place)].clone(), place }
    }
}

fn unquoted(text: &str) -> Box<str> {
    text.replace("''", "'").into()
}

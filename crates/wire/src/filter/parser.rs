//! From text to an expression, by descent; one token is looked ahead, a second one only behind NOT and IS.

use super::FilterError;
use super::expression::{Expression, Order};
use super::lexer::{Placed, Token, place, token_at};
use super::numbers;

/// How deep operands may stand in each other. An expression comes from outside, and is walked by recursion.
const MAX_DEPTH: usize = 100;

pub fn parse(source: &str) -> Result<Expression, FilterError> {
    let mut parser = Parser { source, next_at: 0, peeked: None, depth: 0 };
    let expression = parser.or()?.into_boolean()?;
    parser.peek()?; // what follows is ignored, but it must be a token
    Ok(expression)
}

struct Parser<'a> {
    source: &'a str,
    next_at: usize,
    peeked: Option<Placed<'a>>,
    depth: usize,
}

/// What an operand may begin with.
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
/// What may follow one to compare it.
const COMPARISON: [&str; 6] = ["\"BETWEEN\"", "\"IN\"", "\">\"", "\">=\"", "\"<\"", "\"<=\""];

type Parsed = Result<Expression, FilterError>;

impl<'a> Parser<'a> {
    fn peek(&mut self) -> Result<Token<'a>, FilterError> {
        if self.peeked.is_none() {
            self.peeked = Some(token_at(self.source, self.next_at)?);
        }
        Ok(self.peeked.expect("just peeked").token)
    }

    /// The token behind the one that was peeked at.
    fn peek_second(&mut self) -> Result<Token<'a>, FilterError> {
        self.peek()?;
        let first = self.peeked.expect("just peeked");
        Ok(token_at(self.source, first.at + first.text.len())?.token)
    }

    fn take(&mut self) -> Result<Placed<'a>, FilterError> {
        self.peek()?;
        let taken = self.peeked.take().expect("just peeked");
        self.next_at = taken.at + taken.text.len();
        Ok(taken)
    }

    fn expect(&mut self, wanted: Token<'a>, name: &'static str) -> Result<(), FilterError> {
        let taken = self.take()?;
        if taken.token == wanted { Ok(()) } else { Err(self.unexpected(taken, &[name])) }
    }

    /// In the words and the lines of the parser that Java's filter is generated with.
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

    fn deeper(&mut self, by: usize) -> Result<(), FilterError> {
        self.depth += by;
        if self.depth > MAX_DEPTH {
            let text = format!("the expression is nested more than {MAX_DEPTH} levels deep");
            return Err(FilterError::Syntax(text));
        }
        Ok(())
    }

    fn or(&mut self) -> Parsed {
        let first = self.and()?;
        if self.peek()? != Token::Or {
            return Ok(first);
        }
        let mut parts = vec![first.into_boolean()?];
        while self.peek()? == Token::Or {
            self.take()?;
            parts.push(self.and()?.into_boolean()?);
        }
        Ok(Expression::Any(parts))
    }

    fn and(&mut self) -> Parsed {
        let first = self.equality()?;
        if self.peek()? != Token::And {
            return Ok(first);
        }
        let mut parts = vec![first.into_boolean()?];
        while self.peek()? == Token::And {
            self.take()?;
            parts.push(self.equality()?.into_boolean()?);
        }
        Ok(Expression::All(parts))
    }

    fn equality(&mut self) -> Parsed {
        let depth = self.depth;
        let mut left = self.comparison()?;
        loop {
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
                _ => break,
            };
            self.deeper(1)?;
        }
        self.depth = depth;
        Ok(left)
    }

    fn comparison(&mut self) -> Parsed {
        let depth = self.depth;
        let mut left = self.unary()?;
        loop {
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
                _ => break,
            };
            self.deeper(1)?;
        }
        self.depth = depth;
        Ok(left)
    }

    fn compared(&mut self, order: Order, left: Expression) -> Parsed {
        self.take()?;
        Expression::compare(order, left, self.unary()?)
    }

    fn between(&mut self, value: Expression, negated: bool) -> Parsed {
        self.take()?;
        let low = self.unary()?;
        self.expect(Token::And, "\"AND\"")?;
        let high = self.unary()?;
        if negated { Expression::not_between(value, low, high) } else { Expression::between(value, low, high) }
    }

    fn in_texts(&mut self, left: Expression, negated: bool) -> Parsed {
        self.take()?;
        self.expect(Token::Open, "\"(\"")?;
        let mut texts = vec![self.text()?];
        while self.peek()? == Token::Comma {
            self.take()?;
            texts.push(self.text()?);
        }
        self.expect(Token::Close, "\")\"")?;
        match left {
            Expression::Property(property) => Ok(Expression::In { property, texts, negated }),
            _ => Err(FilterError::Operand(format!("Expected a property for In expression, got: {left}"))),
        }
    }

    fn text(&mut self) -> Result<Box<str>, FilterError> {
        let taken = self.take()?;
        match taken.token {
            Token::Text(text) => Ok(unquoted(text)),
            _ => Err(self.unexpected(taken, &["<STRING_LITERAL>"])),
        }
    }

    fn unary(&mut self) -> Parsed {
        self.deeper(1)?;
        let operand = match self.peek()? {
            Token::Plus => {
                self.take()?;
                self.unary()
            }
            Token::Minus => {
                self.take()?;
                self.unary().map(|operand| Expression::Negated(Box::new(operand)))
            }
            Token::Not => {
                self.take()?;
                self.unary().and_then(Expression::into_boolean).map(Expression::not)
            }
            _ => self.primary(),
        }?;
        self.depth -= 1;
        Ok(operand)
    }

    fn primary(&mut self) -> Parsed {
        let taken = self.take()?;
        let expression = match taken.token {
            Token::True => Expression::Bool(true),
            Token::False => Expression::Bool(false),
            Token::Null => Expression::Null,
            Token::Decimal(digits) => numbers::decimal_literal(digits)?,
            Token::Float(text) => numbers::float_literal(text)?,
            Token::Text(text) => Expression::Text(unquoted(text)),
            Token::Name(name) => Expression::Property(name.into()),
            Token::Open => {
                let inner = self.or()?;
                self.expect(Token::Close, "\")\"")?;
                inner
            }
            _ => return Err(self.unexpected(taken, &OPERAND)),
        };
        Ok(expression)
    }
}

fn unquoted(text: &str) -> Box<str> {
    text.replace("''", "'").into()
}

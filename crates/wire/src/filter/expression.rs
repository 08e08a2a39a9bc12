//! Expressions, and the rules for combining them: errors in the expression itself are found before any message is
//! evaluated.
//!
//! An expression has at most one part for each token of its text, and no part is copied: a text of a few hundred bytes
//! must not become a tree of megabytes. So BETWEEN is a node of its own with one operand, and not two comparisons of
//! it, as in Java.

use std::fmt;
use std::fmt::Write as _;
use std::sync::Arc;

use super::FilterError;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Greater,
    GreaterEqual,
    Less,
    LessEqual,
}

/// Property by its name, and the index of the name in the whole expression.
#[derive(Debug, PartialEq)]
pub struct Property {
    pub name: Arc<str>,
    pub place: u16,
}

/// `value [NOT] BETWEEN low AND high`.
#[derive(Debug, PartialEq)]
pub struct Between {
    pub value: Expression,
    pub low: Expression,
    pub high: Expression,
    pub negated: bool,
}

/// `property [NOT] IN (texts)`.
#[derive(Debug, PartialEq)]
pub struct In {
    pub property: Property,
    pub texts: Box<[Box<str>]>,
    pub negated: bool,
}

/// Maximum length of an operand shown in an error, in bytes: the text of a BETWEEN contains its operand twice.
const MAX_SHOWN: usize = 4096;

#[derive(Debug, PartialEq)]
pub enum Expression {
    Null,
    Bool(bool),
    Int(i32),
    Long(i64),
    Double(f64),
    Text(Box<str>),
    Property(Property),
    Negated(Box<Expression>),
    Not(Box<Expression>),
    /// A bare property in place of a boolean.
    AsBoolean(Property),
    All(Box<[Expression]>),
    Any(Box<[Expression]>),
    Equal(Box<Expression>, Box<Expression>),
    Compare(Order, Box<Expression>, Box<Expression>),
    Between(Box<Between>),
    In(Box<In>),
}

use Expression as E;

impl Expression {
    fn is_constant(&self) -> bool {
        matches!(self, E::Null | E::Bool(_) | E::Int(_) | E::Long(_) | E::Double(_) | E::Text(_))
    }

    fn is_number(&self) -> bool {
        matches!(self, E::Int(_) | E::Long(_) | E::Double(_))
    }

    fn is_boolean(&self) -> bool {
        matches!(
            self,
            E::Null
                | E::Bool(_)
                | E::Not(_)
                | E::AsBoolean(_)
                | E::All(_)
                | E::Any(_)
                | E::Equal(..)
                | E::Compare(..)
                | E::Between(_)
                | E::In(_)
        )
    }

    /// Converts the expression for a place that requires a boolean.
    pub fn into_boolean(self) -> Result<Expression, FilterError> {
        match self {
            E::Property(property) => Ok(E::AsBoolean(property)),
            _ if self.is_boolean() => Ok(self),
            _ => {
                let text = format!("Expression will not result in a boolean value: {}", self.shown());
                Err(FilterError::Syntax(text))
            }
        }
    }

    pub fn not(self) -> Expression {
        E::Not(Box::new(self))
    }

    pub fn equal(left: Expression, right: Expression) -> Result<Expression, FilterError> {
        if left == E::Null || right == E::Null {
            return Err(FilterError::Operand("'NULL' cannot be compared.".to_owned()));
        }
        if left.is_constant() && right.is_constant() && left.is_boolean() && !right.is_boolean() {
            let text = format!("'{}' cannot be compared with '{}'", left.shown(), right.shown());
            return Err(FilterError::Operand(text));
        }
        Ok(E::Equal(Box::new(left), Box::new(right)))
    }

    pub fn equal_null(self) -> Expression {
        E::Equal(Box::new(self), Box::new(E::Null))
    }

    pub fn compare(order: Order, left: Expression, right: Expression) -> Result<Expression, FilterError> {
        left.check_ordered()?;
        right.check_ordered()?;
        Ok(E::Compare(order, Box::new(left), Box::new(right)))
    }

    pub fn between(
        value: Expression,
        low: Expression,
        high: Expression,
        negated: bool,
    ) -> Result<Expression, FilterError> {
        if let (false, Some(from), Some(to)) = (negated, low.constant_number(), high.constant_number()) {
            if from > to {
                let text = format!(
                    "Illegal values of between, left value({low}) must less than or equal to right value({high})"
                );
                return Err(FilterError::Operand(text));
            }
        }
        for operand in [&value, &low, &high] {
            operand.check_ordered()?;
        }
        Ok(E::Between(Box::new(Between { value, low, high, negated })))
    }

    fn check_ordered(&self) -> Result<(), FilterError> {
        if (self.is_constant() && !self.is_number()) || self.is_boolean() {
            return Err(FilterError::Operand(format!("Value '{}' cannot be compared.", self.shown())));
        }
        Ok(())
    }

    fn constant_number(&self) -> Option<f64> {
        match self {
            E::Int(number) => Some(f64::from(*number)),
            E::Long(number) => Some(*number as f64),
            E::Double(number) => Some(*number),
            _ => None,
        }
    }

    /// Returns the text for the remark of an error, cut off at the maximum length.
    pub fn shown(&self) -> String {
        let mut text = Shown(String::new());
        // The only possible error is that of the limit, which ends the walk.
        if write!(text, "{self}").is_err() {
            text.0.push_str("...");
        }
        text.0
    }
}

/// Text with a maximum length.
struct Shown(String);

impl fmt::Write for Shown {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        if self.0.len() + more.len() > MAX_SHOWN {
            return Err(fmt::Error);
        }
        self.0.push_str(more);
        Ok(())
    }
}

/// Formats an expression as Java shows it in the remark of an error.
impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let joined = |f: &mut fmt::Formatter<'_>, parts: &[Expression], word: &str| {
            f.write_str("(")?;
            for (index, part) in parts.iter().enumerate() {
                f.write_str(if index > 0 { word } else { "" })?;
                write!(f, "{part}")?;
            }
            f.write_str(")")
        };
        match self {
            E::Null => f.write_str("NULL"),
            E::Bool(value) => f.write_str(if *value { "TRUE" } else { "FALSE" }),
            E::Int(number) => write!(f, "{number}"),
            E::Long(number) => write!(f, "{number}"),
            E::Double(number) => write!(f, "{number:?}"),
            E::Text(text) => write!(f, "'{}'", text.replace('\'', "''")),
            E::Property(property) | E::AsBoolean(property) => f.write_str(&property.name),
            E::Negated(operand) => write!(f, "(- {operand})"),
            E::Not(operand) => write!(f, "(NOT {operand})"),
            E::All(parts) => joined(f, parts, " && "),
            E::Any(parts) => joined(f, parts, " || "),
            E::Equal(left, right) => write!(f, "({left} == {right})"),
            E::Compare(order, left, right) => {
                let symbol = match order {
                    Order::Greater => ">",
                    Order::GreaterEqual => ">=",
                    Order::Less => "<",
                    Order::LessEqual => "<=",
                };
                write!(f, "({left} {symbol} {right})")
            }
            E::Between(between) => {
                let Between { value, low, high, negated } = &**between;
                if *negated {
                    write!(f, "(({value} < {low}) || ({value} > {high}))")
                } else {
                    write!(f, "(({value} >= {low}) && ({value} <= {high}))")
                }
            }
            E::In(list) => {
                let word = if list.negated { "NOT IN" } else { "IN" };
                write!(f, "{} {word} ( {} )", list.property.name, list.texts.join(", "))
            }
        }
    }
}

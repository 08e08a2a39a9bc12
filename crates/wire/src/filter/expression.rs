//! Expressions, and which of them may be combined: what is wrong in itself is found before any message is looked at.

use std::fmt;

use super::FilterError;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Greater,
    GreaterEqual,
    Less,
    LessEqual,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Expression {
    Null,
    Bool(bool),
    Int(i32),
    Long(i64),
    Double(f64),
    Text(Box<str>),
    Property(Box<str>),
    Negated(Box<Expression>),
    Not(Box<Expression>),
    /// A bare property in the place of a boolean.
    AsBoolean(Box<Expression>),
    All(Vec<Expression>),
    Any(Vec<Expression>),
    Equal(Box<Expression>, Box<Expression>),
    Compare(Order, Box<Expression>, Box<Expression>),
    In {
        property: Box<str>,
        texts: Vec<Box<str>>,
        negated: bool,
    },
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
                | E::In { .. }
        )
    }

    /// The expression in a place that wants a boolean.
    pub fn into_boolean(self) -> Result<Expression, FilterError> {
        match self {
            E::Property(_) => Ok(E::AsBoolean(Box::new(self))),
            _ if self.is_boolean() => Ok(self),
            _ => Err(FilterError::Syntax(format!("Expression will not result in a boolean value: {self}"))),
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
            return Err(FilterError::Operand(format!("'{left}' cannot be compared with '{right}'")));
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

    pub fn between(value: Expression, low: Expression, high: Expression) -> Result<Expression, FilterError> {
        if let (Some(from), Some(to)) = (low.constant_number(), high.constant_number()) {
            if from > to {
                let text = format!(
                    "Illegal values of between, left value({low}) must less than or equal to right value({high})"
                );
                return Err(FilterError::Operand(text));
            }
        }
        let above = E::compare(Order::GreaterEqual, value.clone(), low)?;
        Ok(E::All(vec![above, E::compare(Order::LessEqual, value, high)?]))
    }

    pub fn not_between(value: Expression, low: Expression, high: Expression) -> Result<Expression, FilterError> {
        let below = E::compare(Order::Less, value.clone(), low)?;
        Ok(E::Any(vec![below, E::compare(Order::Greater, value, high)?]))
    }

    fn check_ordered(&self) -> Result<(), FilterError> {
        if (self.is_constant() && !self.is_number()) || self.is_boolean() {
            return Err(FilterError::Operand(format!("Value '{self}' cannot be compared.")));
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
}

/// As Java shows it in the remark of an error.
impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let joined = |f: &mut fmt::Formatter<'_>, parts: &[Expression], word: &str| {
            let texts: Vec<String> = parts.iter().map(ToString::to_string).collect();
            write!(f, "({})", texts.join(word))
        };
        match self {
            E::Null => f.write_str("NULL"),
            E::Bool(value) => f.write_str(if *value { "TRUE" } else { "FALSE" }),
            E::Int(number) => write!(f, "{number}"),
            E::Long(number) => write!(f, "{number}"),
            E::Double(number) => write!(f, "{number:?}"),
            E::Text(text) => write!(f, "'{}'", text.replace('\'', "''")),
            E::Property(name) => f.write_str(name),
            E::Negated(operand) => write!(f, "(- {operand})"),
            E::Not(operand) => write!(f, "(NOT {operand})"),
            E::AsBoolean(operand) => write!(f, "{operand}"),
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
            E::In { property, texts, negated } => {
                let word = if *negated { "NOT IN" } else { "IN" };
                write!(f, "{property} {word} ( {} )", texts.join(", "))
            }
        }
    }
}

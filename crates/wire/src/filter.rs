//! SQL92 selectors over a message's properties, with the rules of RocketMQ 4.9.
//!
//! ```text
//! selector   := or                                       text after it is ignored, if its first token is valid
//! or         := and ( OR and )*
//! and        := equality ( AND equality )*
//! equality   := comparison ( '=' comparison | '<>' comparison | IS [NOT] NULL )*
//! comparison := unary ( ('>'|'>='|'<'|'<=') unary | [NOT] BETWEEN unary AND unary | [NOT] IN '(' text (',' text)* ')' )*
//! unary      := '+' unary | '-' unary | NOT unary | primary
//! primary    := TRUE | FALSE | NULL | number | text | property | '(' or ')'
//! ```
//!
//! An expression is parsed and checked once ([`Filter::compile`]) and then evaluated for each message
//! ([`Filter::verdict`]), on the properties string as it is stored. Logic has three values. A comparison that is not
//! possible for a message's properties (a text compared with a number) is an error, and the message does not match. In
//! every corner case the filter of 4.9.7 itself is the reference: `compat/filter`.
//!
//! Expressions come from clients without any account, so everything is bounded: the text, its tokens, the height of the
//! tree (`parser`), and the steps of one evaluation (`evaluate`). The tree grows at most in proportion to the text.

mod evaluate;
mod expression;
mod lexer;
mod numbers;
mod parser;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;

use thiserror::Error;

use crate::properties;
use evaluate::{Message, Names};
use expression::Expression;

pub use evaluate::MAX_STEPS;
pub use parser::{MAX_TEXT, MAX_TOKENS};

/// Property with the original topic of a retried message.
const RETRY_TOPIC: &str = "RETRY_TOPIC";

/// Reason why a text is not a selector, in the form in which Java's brokers send it to consumers.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FilterError {
    /// A character that begins no token.
    #[error("org.apache.rocketmq.filter.parser.TokenMgrError: {0}")]
    Token(String),
    /// A token in an invalid place, or an operand that is not a boolean.
    #[error("org.apache.rocketmq.filter.parser.ParseException: {0}")]
    Syntax(String),
    /// More bytes, tokens or levels than an expression may have here.
    #[error("org.apache.rocketmq.filter.parser.ParseException: {0}")]
    Limit(String),
    /// A number that is too large.
    #[error("java.lang.NumberFormatException: For input string: \"{0}\"")]
    Number(String),
    /// Operands that cannot be compared.
    #[error("java.lang.RuntimeException: {0}")]
    Operand(String),
}

/// Result of an expression for one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The message is selected.
    True,
    /// The message is not selected.
    False,
    /// A property that decides is missing; the message is not selected.
    Unknown,
    /// A property is not of the kind it is compared with, or the evaluation takes more than [`MAX_STEPS`]; the message
    /// is not selected.
    Error,
}

/// Compiled selector.
#[derive(Debug)]
pub struct Filter(Kind);

#[derive(Debug)]
enum Kind {
    Selector {
        expression: Expression,
        names: Names,
    },
    /// For retried messages: the selector by original topic. If a topic has none, all its messages are selected.
    Retries(HashMap<String, Arc<Filter>>),
}

impl Filter {
    /// Parses and checks a selector.
    pub fn compile(text: &str) -> Result<Filter, FilterError> {
        let parsed = parser::parse(text)?;
        Ok(Filter(Kind::Selector { expression: parsed.expression, names: Names::new(parsed.names) }))
    }

    /// Creates a filter that uses the selector of the original topic of a message.
    pub fn of_retries(by_topic: HashMap<String, Arc<Filter>>) -> Filter {
        Filter(Kind::Retries(by_topic))
    }

    /// Returns the selector's verdict on a message with this properties string, and the number of steps it took: a step
    /// is some nanoseconds.
    pub fn judge(&self, properties: &str) -> (Verdict, u32) {
        let (expression, names) = match &self.0 {
            Kind::Selector { expression, names } => (expression, names),
            Kind::Retries(by_topic) => {
                let of_topic = properties::get(properties, RETRY_TOPIC).and_then(|topic| by_topic.get(topic));
                return of_topic.map_or((Verdict::True, 1), |filter| filter.judge(properties));
            }
        };
        let mut message = Message::new(names, properties);
        let verdict = match evaluate::truth(expression, &mut message) {
            Ok(Some(true)) => Verdict::True,
            Ok(Some(false)) => Verdict::False,
            Ok(None) => Verdict::Unknown,
            Err(evaluate::NoValue) => Verdict::Error,
        };
        (verdict, message.steps())
    }

    /// Returns the selector's verdict on a message with this properties string.
    pub fn verdict(&self, properties: &str) -> Verdict {
        self.judge(properties).0
    }

    /// True if the selector matches a message with this properties string.
    pub fn matches(&self, properties: &str) -> bool {
        self.verdict(properties) == Verdict::True
    }
}

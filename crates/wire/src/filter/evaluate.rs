//! What an expression says of one message's properties. The rules for values of different kinds are Java's, oddities included:
//! a text is made a number if it is compared with one, never the other way round; nothing is equal across kinds otherwise.

use std::cmp::Ordering;

use super::expression::{Expression, Order};
use super::numbers;
use crate::properties;

/// Two values that cannot be compared. The whole expression has no value then.
#[derive(Debug)]
pub struct NotComparable;

#[derive(Clone, Copy, Debug)]
enum Value<'a> {
    Null,
    Bool(bool),
    Int(i32),
    Long(i64),
    Double(f64),
    Text(&'a str),
}

/// The value of a boolean expression; none for unknown.
pub fn truth(expression: &Expression, properties: &str) -> Result<Option<bool>, NotComparable> {
    match expression {
        Expression::Bool(value) => Ok(Some(*value)),
        Expression::Not(operand) => Ok(truth(operand, properties)?.map(|value| !value)),
        Expression::AsBoolean(operand) => Ok(match value(operand, properties)? {
            Value::Null => None,
            Value::Bool(value) => Some(value),
            _ => Some(false),
        }),
        Expression::All(parts) => folded(parts, properties, false),
        Expression::Any(parts) => folded(parts, properties, true),
        Expression::Equal(left, right) => equal(value(left, properties)?, value(right, properties)?),
        Expression::Compare(order, left, right) => {
            let left = value(left, properties)?;
            if matches!(left, Value::Null) {
                return Ok(None);
            }
            compare(*order, left, value(right, properties)?)
        }
        Expression::In { property, texts, negated } => {
            let found = properties::get(properties, property);
            Ok(found.map(|text| texts.iter().any(|wanted| **wanted == *text) != *negated))
        }
        _ => Ok(None),
    }
}

/// AND and OR: the first part with the deciding value decides, later ones are not looked at.
fn folded(parts: &[Expression], properties: &str, deciding: bool) -> Result<Option<bool>, NotComparable> {
    let mut result = Some(!deciding);
    for part in parts {
        match truth(part, properties)? {
            Some(value) if value == deciding => return Ok(Some(deciding)),
            Some(_) => {}
            None => result = None,
        }
    }
    Ok(result)
}

fn value<'a>(expression: &'a Expression, properties: &'a str) -> Result<Value<'a>, NotComparable> {
    Ok(match expression {
        Expression::Null => Value::Null,
        Expression::Int(number) => Value::Int(*number),
        Expression::Long(number) => Value::Long(*number),
        Expression::Double(number) => Value::Double(*number),
        Expression::Text(text) => Value::Text(text),
        Expression::Property(name) => properties::get(properties, name).map_or(Value::Null, Value::Text),
        Expression::Negated(operand) => match value(operand, properties)? {
            Value::Int(number) => Value::Int(number.wrapping_neg()),
            Value::Long(number) => Value::Long(number.wrapping_neg()),
            Value::Double(number) => Value::Double(-number),
            _ => Value::Null,
        },
        boolean => truth(boolean, properties)?.map_or(Value::Null, Value::Bool),
    })
}

fn equal(left: Value<'_>, right: Value<'_>) -> Result<Option<bool>, NotComparable> {
    match (left, right) {
        (Value::Null, Value::Null) => Ok(Some(true)),
        (Value::Null, _) => Ok(None),
        (_, Value::Null) => Ok(Some(false)),
        (Value::Text(left), Value::Text(right)) => Ok(Some(left == right)),
        _ => Ok(Some(ordering(left, right)? == Some(Ordering::Equal))),
    }
}

fn compare(order: Order, left: Value<'_>, right: Value<'_>) -> Result<Option<bool>, NotComparable> {
    if matches!(right, Value::Null) {
        return Ok(None);
    }
    let found = match (left, right) {
        (Value::Text(left), Value::Text(right)) => {
            let left = numbers::double(left).ok_or(NotComparable)?;
            Some(java_order(left, numbers::double(right).ok_or(NotComparable)?))
        }
        _ => ordering(left, right)?,
    };
    Ok(Some(found.is_some_and(|found| match order {
        Order::Greater => found.is_gt(),
        Order::GreaterEqual => found.is_ge(),
        Order::Less => found.is_lt(),
        Order::LessEqual => found.is_le(),
    })))
}

/// How two values that are there stand to each other; none for a boolean and a number, which never match.
fn ordering(left: Value<'_>, right: Value<'_>) -> Result<Option<Ordering>, NotComparable> {
    use Value as V;
    let int = |text| numbers::int(text).ok_or(NotComparable);
    let long = |text| numbers::long(text).ok_or(NotComparable);
    let double = |text| numbers::double(text).ok_or(NotComparable);
    Ok(Some(match (left, right) {
        (V::Int(left), V::Int(right)) => left.cmp(&right),
        (V::Int(left), V::Long(right)) => i64::from(left).cmp(&right),
        (V::Long(left), V::Int(right)) => left.cmp(&i64::from(right)),
        (V::Long(left), V::Long(right)) => left.cmp(&right),
        (V::Double(left), V::Double(right)) => java_order(left, right),
        (V::Int(left), V::Double(right)) => java_order(f64::from(left), right),
        (V::Double(left), V::Int(right)) => java_order(left, f64::from(right)),
        (V::Long(left), V::Double(right)) => java_order(left as f64, right),
        (V::Double(left), V::Long(right)) => java_order(left, right as f64),
        (V::Text(left), V::Int(right)) => int(left)?.cmp(&right),
        (V::Int(left), V::Text(right)) => left.cmp(&int(right)?),
        (V::Text(left), V::Long(right)) => long(left)?.cmp(&right),
        (V::Long(left), V::Text(right)) => left.cmp(&long(right)?),
        (V::Text(left), V::Double(right)) => java_order(double(left)?, right),
        (V::Double(left), V::Text(right)) => java_order(left, double(right)?),
        (V::Bool(left), V::Bool(right)) => left.cmp(&right),
        (V::Text(left), V::Bool(right)) => left.eq_ignore_ascii_case("true").cmp(&right),
        (V::Bool(_), V::Text(_)) => return Err(NotComparable),
        _ => return Ok(None),
    }))
}

/// `Double.compare`: NaN is equal to itself and above everything, -0.0 is below 0.0.
fn java_order(left: f64, right: f64) -> Ordering {
    match (left.is_nan(), right.is_nan()) {
        (true, true) => Ordering::Equal,
        (true, false) => Ordering::Greater,
        (false, true) => Ordering::Less,
        (false, false) => left.total_cmp(&right),
    }
}

//! Evaluation of an expression for one message's properties. The rules for values of different kinds are Java's,
//! oddities included: a text is converted to a number if it is compared with one, never the other way round; otherwise
//! values of different kinds are never equal.
//!
//! Evaluation is bounded: each part costs a step, and bytes that are compared or read as a number cost steps in
//! proportion to their number. Each property is looked up once, however often it occurs in the expression.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

use super::expression::{Between, Expression, Order, Property};
use super::numbers;
use crate::properties;

/// Maximum number of steps for one message. Expressions of some hundred parts cost some hundred steps.
pub const MAX_STEPS: u32 = 1 << 18;
/// Number of bytes processed in one step.
const BYTES_PER_STEP: usize = 16;
/// Number of names up to which a search for each name is quicker than a table of all names.
const FEW: usize = 8;

/// The expression has no value for this message: two values cannot be compared, or its evaluation takes too many steps.
#[derive(Debug)]
pub struct NoValue;

/// Names of the properties in an expression.
#[derive(Debug)]
pub struct Names {
    all: Vec<Arc<str>>,
    /// Index of each name; empty if there are few names.
    places: HashMap<Arc<str>, u16>,
}

impl Names {
    pub fn new(all: Vec<Arc<str>>) -> Names {
        let places = if all.len() > FEW {
            all.iter().enumerate().map(|(place, name)| (name.clone(), place as u16)).collect()
        } else {
            HashMap::new()
        };
        Names { all, places }
    }
}

/// Message to evaluate.
pub struct Message<'a> {
    properties: &'a str,
    /// Values that were looked up already, by the index of the name.
    few: [Option<Option<&'a str>>; FEW],
    /// All values, if there are more than a few names.
    many: Vec<Option<&'a str>>,
    steps: u32,
}

impl<'a> Message<'a> {
    pub fn new(names: &Names, properties: &'a str) -> Message<'a> {
        let mut message = Message { properties, few: [None; FEW], many: Vec::new(), steps: 0 };
        if names.all.len() > FEW {
            message.many = vec![None; names.all.len()];
            let mut entries = 0;
            for (name, value) in properties::iter(properties) {
                entries += 1;
                if let Some(place) = names.places.get(name) {
                    message.many[usize::from(*place)] = Some(value);
                }
            }
            message.steps = steps_of(properties.len()) + entries;
        }
        message
    }

    /// Number of steps that the evaluation took.
    pub fn steps(&self) -> u32 {
        self.steps
    }

    fn spend(&mut self, steps: u32) -> Result<(), NoValue> {
        self.steps = self.steps.saturating_add(steps);
        if self.steps > MAX_STEPS { Err(NoValue) } else { Ok(()) }
    }

    fn property(&mut self, property: &Property) -> Result<Option<&'a str>, NoValue> {
        let place = usize::from(property.place);
        if let Some(value) = self.many.get(place) {
            return Ok(*value);
        }
        if let Some(known) = self.few[place] {
            return Ok(known);
        }
        self.spend(steps_of(self.properties.len()))?;
        let value = properties::get(self.properties, &property.name);
        self.few[place] = Some(value);
        Ok(value)
    }
}

fn steps_of(bytes: usize) -> u32 {
    u32::try_from(bytes / BYTES_PER_STEP).unwrap_or(u32::MAX)
}

#[derive(Clone, Copy, Debug)]
enum Value<'a> {
    Null,
    Bool(bool),
    Int(i32),
    Long(i64),
    Double(f64),
    Text(&'a str),
}

impl Value<'_> {
    fn len(&self) -> usize {
        match self {
            Value::Text(text) => text.len(),
            _ => 0,
        }
    }
}

/// Returns the value of a boolean expression; `None` for unknown.
pub fn truth<'a>(expression: &'a Expression, message: &mut Message<'a>) -> Result<Option<bool>, NoValue> {
    message.spend(1)?;
    match expression {
        Expression::Bool(value) => Ok(Some(*value)),
        Expression::Not(operand) => Ok(truth(operand, message)?.map(|value| !value)),
        // The value of a property is a text, never a boolean.
        Expression::AsBoolean(property) => Ok(message.property(property)?.map(|_| false)),
        Expression::All(parts) => folded(parts, message, false),
        Expression::Any(parts) => folded(parts, message, true),
        Expression::Equal(left, right) => {
            let (left, right) = (value(left, message)?, value(right, message)?);
            equal(left, right, message)
        }
        Expression::Compare(order, left, right) => {
            let left = value(left, message)?;
            if matches!(left, Value::Null) {
                return Ok(None);
            }
            let right = value(right, message)?;
            compare(*order, left, right, message)
        }
        Expression::Between(between) => is_between(between, message),
        Expression::In(list) => {
            message.spend(u32::try_from(list.texts.len()).unwrap_or(u32::MAX))?;
            let found = message.property(&list.property)?;
            Ok(found.map(|text| list.texts.iter().any(|wanted| **wanted == *text) != list.negated))
        }
        _ => Ok(None),
    }
}

/// Evaluates AND and OR: the first part with the deciding value decides, later ones are not evaluated.
fn folded<'a>(parts: &'a [Expression], message: &mut Message<'a>, deciding: bool) -> Result<Option<bool>, NoValue> {
    let mut result = Some(!deciding);
    for part in parts {
        match truth(part, message)? {
            Some(value) if value == deciding => return Ok(Some(deciding)),
            Some(_) => {}
            None => result = None,
        }
    }
    Ok(result)
}

/// Evaluates `value >= low AND value <= high`, or `value < low OR value > high`, computing `value` once.
fn is_between<'a>(between: &'a Between, message: &mut Message<'a>) -> Result<Option<bool>, NoValue> {
    let found = value(&between.value, message)?;
    if matches!(found, Value::Null) {
        return Ok(None);
    }
    let deciding = between.negated;
    let orders = if between.negated { [Order::Less, Order::Greater] } else { [Order::GreaterEqual, Order::LessEqual] };
    let mut result = Some(!deciding);
    for (order, bound) in orders.into_iter().zip([&between.low, &between.high]) {
        let bound = value(bound, message)?;
        match compare(order, found, bound, message)? {
            Some(value) if value == deciding => return Ok(Some(deciding)),
            Some(_) => {}
            None => result = None,
        }
    }
    Ok(result)
}

fn value<'a>(expression: &'a Expression, message: &mut Message<'a>) -> Result<Value<'a>, NoValue> {
    message.spend(1)?;
    Ok(match expression {
        Expression::Null => Value::Null,
        Expression::Int(number) => Value::Int(*number),
        Expression::Long(number) => Value::Long(*number),
        Expression::Double(number) => Value::Double(*number),
        Expression::Text(text) => Value::Text(text),
        Expression::Property(property) => message.property(property)?.map_or(Value::Null, Value::Text),
        Expression::Negated(operand) => match value(operand, message)? {
            Value::Int(number) => Value::Int(number.wrapping_neg()),
            Value::Long(number) => Value::Long(number.wrapping_neg()),
            Value::Double(number) => Value::Double(-number),
            _ => Value::Null,
        },
        boolean => truth(boolean, message)?.map_or(Value::Null, Value::Bool),
    })
}

fn equal(left: Value<'_>, right: Value<'_>, message: &mut Message<'_>) -> Result<Option<bool>, NoValue> {
    message.spend(steps_of(left.len() + right.len()))?;
    match (left, right) {
        (Value::Null, Value::Null) => Ok(Some(true)),
        (Value::Null, _) => Ok(None),
        (_, Value::Null) => Ok(Some(false)),
        (Value::Text(left), Value::Text(right)) => Ok(Some(left == right)),
        _ => Ok(Some(ordering(left, right)? == Some(Ordering::Equal))),
    }
}

fn compare(
    order: Order,
    left: Value<'_>,
    right: Value<'_>,
    message: &mut Message<'_>,
) -> Result<Option<bool>, NoValue> {
    message.spend(steps_of(left.len() + right.len()))?;
    if matches!(right, Value::Null) {
        return Ok(None);
    }
    let found = match (left, right) {
        (Value::Text(left), Value::Text(right)) => {
            let left = numbers::double(left).ok_or(NoValue)?;
            Some(java_order(left, numbers::double(right).ok_or(NoValue)?))
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

/// Returns the order of two known values; `None` for a boolean and a number, which never match.
fn ordering(left: Value<'_>, right: Value<'_>) -> Result<Option<Ordering>, NoValue> {
    use Value as V;
    let int = |text| numbers::int(text).ok_or(NoValue);
    let long = |text| numbers::long(text).ok_or(NoValue);
    let double = |text| numbers::double(text).ok_or(NoValue);
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
        (V::Bool(_), V::Text(_)) => return Err(NoValue),
        _ => return Ok(None),
    }))
}

/// Implements `Double.compare`: NaN is equal to itself and above everything, -0.0 is below 0.0.
fn java_order(left: f64, right: f64) -> Ordering {
    match (left.is_nan(), right.is_nan()) {
        (true, true) => Ordering::Equal,
        (true, false) => Ordering::Greater,
        (false, true) => Ordering::Less,
        (false, false) => left.total_cmp(&right),
    }
}

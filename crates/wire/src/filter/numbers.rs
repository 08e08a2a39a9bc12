//! Numbers with the rules of Java: in selectors, and in properties that are compared with a number.

use super::FilterError;
use super::expression::Expression;

/// Returns a literal of digits: the smaller of Java's two integer types that holds it.
pub fn decimal_literal(digits: &str) -> Result<Expression, FilterError> {
    let Ok(number) = digits.parse::<i64>() else {
        return Err(FilterError::Number(digits.to_owned()));
    };
    Ok(i32::try_from(number).map_or(Expression::Long(number), Expression::Int))
}

/// Returns a literal with a point or an exponent; zero is not allowed.
pub fn float_literal(text: &str) -> Result<Expression, FilterError> {
    match text.parse::<f64>() {
        Ok(number) if number > 0.0 && number <= f64::MAX => Ok(Expression::Double(number)),
        Ok(number) if number > f64::MAX => {
            Err(FilterError::Operand(format!("{text} is greater than 1.7976931348623157E308")))
        }
        _ => Err(FilterError::Operand(format!("{text} is less than 4.9E-324"))),
    }
}

/// Implements `Integer.parseInt`: a sign and digits, nothing else.
pub fn int(text: &str) -> Option<i32> {
    text.parse().ok()
}

/// Implements `Long.parseLong`.
pub fn long(text: &str) -> Option<i64> {
    text.parse().ok()
}

/// Implements `Double.parseDouble`: surrounding blanks, a type suffix, `NaN`, `Infinity` and hexadecimal floats are
/// accepted.
pub fn double(text: &str) -> Option<f64> {
    let trimmed = text.trim_matches(|c| c <= ' ');
    let (negative, unsigned) = match trimmed.as_bytes().first()? {
        b'-' => (true, &trimmed[1..]),
        b'+' => (false, &trimmed[1..]),
        _ => (false, trimmed),
    };
    let magnitude = match unsigned {
        "NaN" => f64::NAN,
        "Infinity" => f64::INFINITY,
        _ => {
            let number = unsigned.strip_suffix(['f', 'F', 'd', 'D']).unwrap_or(unsigned);
            match unsigned.as_bytes() {
                [b'0', b'x' | b'X', ..] => hexadecimal(number, unsigned)?,
                [b'0'..=b'9' | b'.', ..] => number.parse().ok()?,
                _ => return None, // Rust accepts "inf" and "nan" in any case
            }
        }
    };
    Some(if negative { -magnitude } else { magnitude })
}

/// Parses `0x1.8p3`: the exponent is required, so that a closing `d` or `f` is a suffix only behind it.
fn hexadecimal(without_suffix: &str, whole: &str) -> Option<f64> {
    let body = &without_suffix[2..];
    let (digits, exponent) = body.split_once(['p', 'P'])?;
    if !whole.contains(['p', 'P']) {
        return None;
    }
    let (integer, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if integer.is_empty() && fraction.is_empty() {
        return None;
    }
    if !exponent.trim_start_matches(['+', '-']).bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let scale = exponent.parse::<i64>().map_or_else(
        |_| (exponent.len() > 1).then_some(if exponent.starts_with('-') { i64::MIN / 2 } else { i64::MAX / 2 }),
        Some,
    )?;
    let mut significand: u64 = 0;
    let mut shift: i64 = 0;
    for (index, digit) in integer.chars().chain(fraction.chars()).enumerate() {
        let value = u64::from(digit.to_digit(16)?);
        let behind_point = index >= integer.len();
        if significand >> 58 == 0 {
            significand = significand << 4 | value;
            shift -= if behind_point { 4 } else { 0 };
        } else {
            // These digits matter only for ties, and only by being non-zero.
            significand |= u64::from(value != 0);
            shift += if behind_point { 0 } else { 4 };
        }
    }
    Some(scaled(significand as f64, shift.saturating_add(scale)))
}

/// Returns `value · 2^exponent`, in steps that neither overflow nor underflow on the way.
fn scaled(mut value: f64, exponent: i64) -> f64 {
    let mut left = exponent.clamp(-2400, 2400) as i32;
    while left != 0 && value != 0.0 && value.is_finite() {
        let step = left.clamp(-1000, 1000);
        value *= 2f64.powi(step);
        left -= step;
    }
    value
}

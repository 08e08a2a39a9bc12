use super::{Filter, FilterError, Verdict};
use crate::properties;

fn verdict(expression: &str, given: &[(&str, &str)]) -> Verdict {
    let filter = Filter::compile(expression).unwrap_or_else(|error| panic!("{expression}: {error}"));
    filter.verdict(&properties::encode(given.iter().copied()))
}

/// Checks the verdict; `given` has the form `name=value,name=value`.
fn check(expression: &str, given: &str, expected: Verdict) {
    let pairs: Vec<(&str, &str)> = given.split(',').filter_map(|pair| pair.split_once('=')).collect();
    assert_eq!(verdict(expression, &pairs), expected, "{expression} over {given}");
}

#[test]
fn verdicts_of_java() {
    use Verdict::{Error, False, True, Unknown};
    for (expression, given, expected) in [
        ("a > 5", "a=6", True),
        ("a > 5", "a=6.0", Error),
        ("a > 5.0", "a=6", True),
        ("a > 5.0", "a=NaN", True),
        ("a > 5", "", Unknown),
        ("5 < a", "a=6", True),
        ("a > b", "a=2,b=1.0", True),
        ("a > b", "a=x,b=1", Error),
        ("a = b", "a=1,b=1.0", False),
        ("a = b", "", True),
        ("a <> b", "", False),
        ("a = 'x'", "", Unknown),
        ("a <> 'x'", "", Unknown),
        ("'x' = a", "", False),
        ("'x' <> a", "", True),
        ("a = 5", "a=5.0", Error),
        ("a = 5.0", "a=5", True),
        ("a = TRUE", "a=true", True),
        ("a = TRUE", "a=yes", False),
        ("a <> TRUE", "a=yes", True),
        ("TRUE = a", "a=true", Error),
        ("a", "a=true", False),
        ("NOT a", "a=true", True),
        ("a IS NULL", "", True),
        ("a IS NULL", "a=1", False),
        ("NOT a IS NULL", "a=1", False),
        ("NOT (a IS NULL)", "a=1", True),
        ("a IN ('x','y')", "a=x", True),
        ("a NOT IN ('x')", "", Unknown),
        ("a BETWEEN 1 AND 5 AND b = 2", "a=3,b=2", True),
        ("a NOT BETWEEN 5 AND 1", "a=3", True),
        ("a=1 and b=2 OR c=3", "c=3", True),
        ("a > 5 OR b = 'x'", "a=zz,b=x", Error),
        ("b = 'x' OR a > 5", "a=zz,b=x", True),
        ("-a = 1", "a=-5", Unknown),
        ("a = -5", "a=-5", True),
        ("a = - - 5", "a=5", True),
        ("a = +5", "a=5", True),
        ("a = 'it''s'", "a=it's", True),
        ("a is null = true", "", True),
        ("1 = TRUE", "", False),
        ("a>5", "a=+6", True),
        ("TRUE", "", True),
        ("NULL", "", Unknown),
        ("a = 1 )", "a=1", True),
        ("a = 1 -- tail", "a=1", True),
        ("a > 5 garbage", "a=6", True),
        ("a LIKE 'x%'", "a=x", False),
        ("a = 05", "a=0", True),
        ("a = 3000000000", "a=3000000000", True),
        ("a = 5L", "a=5", True),
        ("a /* is */ = -- really\n 1", "a=1", True),
    ] {
        check(expression, given, expected);
    }
}

#[test]
fn what_is_wrong_in_itself_is_refused() {
    for expression in [
        "a = NULL",
        "a BETWEEN 5 AND 1",
        "a BETWEEN '1' AND '5'",
        "a > 'x'",
        "a >= TRUE",
        "a == 1",
        "a != 1",
        "a IN (1,2)",
        "'a' IN ('a')",
        "a > 1 > 2",
        "not a > 1",
        "TRUE = 1",
        "1",
        "'x'",
        "",
        "()",
        "(a = 1",
        "a = 1 OR",
        "a.b = 1",
        "a = 1;",
        "a = 0.0",
        "a > 1e400",
        "a = 9223372036854775808",
        "-a",
        "a = 'open",
    ] {
        assert!(Filter::compile(expression).is_err(), "{expression}");
    }
}

#[test]
fn the_error_says_where() {
    let error = Filter::compile("a = 1;").unwrap_err();
    assert_eq!(
        error.to_string(),
        "org.apache.rocketmq.filter.parser.TokenMgrError: Lexical error at line 1, column 6.  Encountered: \";\" (59)"
    );
    let error = Filter::compile("a =\n = 1").unwrap_err();
    assert!(
        error
            .to_string()
            .contains("Encountered \" \"=\" \"= \"\" at line 2, column 2.\nWas expecting one of:\n    \"NOT\" ...")
    );
    let null = Filter::compile("a = NULL").unwrap_err();
    assert_eq!(null.to_string(), "java.lang.RuntimeException: 'NULL' cannot be compared.");
}

#[test]
fn text_tokens_depth_and_height_have_bounds() {
    let long = vec!["a = 1"; 2000].join(" OR ");
    check(&long, "a=1", Verdict::True);
    let refused = [
        vec!["a = 1"; 100_000].join(" OR "),
        format!("a = '{}'", "x".repeat(64 << 10)),
        vec!["a"; 8192].join(" OR "),
        format!("a IN ({})", vec!["''"; 8192].join(",")),
        "(".repeat(30_000),
        "-".repeat(30_000),
        "NOT ".repeat(5000),
        format!("a{}", " = a".repeat(2000)),
        // Each level is a chain of its own, so the tree is higher than the number of levels.
        format!("{}a{}", "(".repeat(90), format!("{})", " = a".repeat(40)).repeat(90)),
    ];
    for text in &refused {
        let shown = &text[..text.len().min(40)];
        assert!(matches!(Filter::compile(text), Err(FilterError::Limit(_))), "{shown}");
    }
}

/// Returns `-(-(a BETWEEN 1 AND 2) BETWEEN 1 AND 2)` with `levels` levels.
fn nested_between(levels: usize, word: &str) -> String {
    (0..levels).fold("a".to_owned(), |inner, _| format!("-({inner} {word} 1 AND 2)"))
}

#[test]
fn nested_between_grows_with_its_text_only() {
    // With a copy of the operand on each level the tree would have 2^49 nodes.
    for word in ["BETWEEN", "NOT BETWEEN"] {
        let filter = Filter::compile(&format!("{} IS NULL", nested_between(49, word))).unwrap();
        let (verdict, steps) = filter.judge(&properties::encode([("a", "1")]));
        assert_eq!(verdict, Verdict::True);
        assert!(steps < 500, "{steps} steps");
    }
}

#[test]
fn an_error_shows_an_operand_up_to_a_limit() {
    for text in [nested_between(49, "BETWEEN"), format!("({} = 1) > 2", nested_between(49, "NOT BETWEEN"))] {
        let error = Filter::compile(&text).unwrap_err().to_string();
        assert!(error.len() < 5000 && error.contains("..."), "{} bytes", error.len());
    }
    let error = Filter::compile("-(a NOT BETWEEN 1 AND 2)").unwrap_err().to_string();
    assert!(error.ends_with("Expression will not result in a boolean value: (- ((a < 1) || (a > 2)))"), "{error}");
}

#[test]
fn between_has_the_verdicts_of_its_two_comparisons() {
    use Verdict::{Error, False, True, Unknown};
    for (expression, given, expected) in [
        ("a BETWEEN b AND c", "a=2,b=1,c=3", True),
        ("a BETWEEN b AND c", "a=2,b=3", False),
        ("a BETWEEN b AND c", "a=2,b=1", Unknown),
        ("a BETWEEN b AND c", "a=2,c=1", False),
        ("a BETWEEN b AND c", "a=2,c=3", Unknown),
        ("a BETWEEN b AND c", "b=x", Unknown),
        ("a BETWEEN b AND c", "a=2,b=3,c=x", False),
        ("a BETWEEN b AND c", "a=2,b=1,c=x", Error),
        ("a NOT BETWEEN b AND c", "a=0,b=1,c=x", True),
        ("a NOT BETWEEN b AND c", "a=2,b=1,c=x", Error),
        ("a NOT BETWEEN b AND c", "a=2,b=1,c=3", False),
        ("a NOT BETWEEN b AND c", "a=2,b=1", Unknown),
        ("a NOT BETWEEN b AND c", "a=2,c=1", True),
        ("a NOT BETWEEN b AND c", "b=x", Unknown),
    ] {
        check(expression, given, expected);
    }
}

#[test]
fn a_message_costs_a_bounded_number_of_steps() {
    let text = vec!["a > 5.0"; 2000].join(" AND ");
    let filter = Filter::compile(&text).unwrap();
    let digits = format!("1{}", "0".repeat(30_000));
    let (verdict, steps) = filter.judge(&properties::encode([("a", digits.as_str())]));
    assert_eq!(verdict, Verdict::Error);
    assert!(steps <= super::MAX_STEPS + 4000, "{steps} steps");
    check(&text, "a=6", Verdict::True);
}

#[test]
fn each_of_many_properties_is_found() {
    let names: Vec<String> = (0..300).map(|number| format!("p{number}")).collect();
    let text = names.iter().map(|name| format!("{name} = '{name}'")).collect::<Vec<_>>().join(" AND ");
    let mut pairs: Vec<(&str, &str)> = names.iter().map(|name| (&**name, &**name)).collect();
    assert_eq!(verdict(&text, &pairs), Verdict::True);
    pairs.push(("p7", "later wins"));
    assert_eq!(verdict(&text, &pairs), Verdict::False);
    pairs.retain(|(name, _)| *name != "p7");
    assert_eq!(verdict(&text, &pairs), Verdict::Unknown);
}

#[test]
fn doubles_as_java_reads_them() {
    for (text, expected) in [
        ("6", true),
        (" 6 ", true),
        ("6d", true),
        ("6.f", true),
        ("1e3", true),
        ("0x1.8p3", true),
        ("Infinity", true),
        ("NaN", true),
        ("5", false),
        ("0x1p2d", false),
        ("-Infinity", false),
        ("-7", false),
    ] {
        let expected = if expected { Verdict::True } else { Verdict::False };
        assert_eq!(verdict("a > 5.0", &[("a", text)]), expected, "{text:?}");
    }
    for text in ["", "inf", "nan", "infinity", "6x", "0x18", "0x1.8", "1_000", "d", ".", "1e", "--6", "6dd"] {
        if !text.is_empty() {
            assert_eq!(verdict("a > 5.0", &[("a", text)]), Verdict::Error, "{text:?}");
        }
    }
}

#[test]
fn a_message_that_comes_back_is_asked_of_its_topic() {
    let of_orders = Filter::compile("a = 1").unwrap();
    let filter = Filter::of_retries([("Orders".to_owned(), of_orders.into())].into());
    let of = |topic: &str, a: &str| filter.matches(&properties::encode([("RETRY_TOPIC", topic), ("a", a)]));
    assert!(of("Orders", "1") && !of("Orders", "2") && of("Other", "2"));
    assert!(filter.matches(""));
}

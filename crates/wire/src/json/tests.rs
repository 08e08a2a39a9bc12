//! Texts that fastjson writes, texts that it also reads, and invalid ones.

use super::*;

fn text(text: &str) -> Value<'_> {
    Value::Text(Cow::Borrowed(text))
}

fn parsed(json: &str) -> Value<'_> {
    parse(json.as_bytes()).unwrap_or_else(|error| panic!("{json}: {error}"))
}

fn refused(json: &str) -> JsonError {
    parse(json.as_bytes()).expect_err(json)
}

#[test]
fn integer_keys_without_quotes() {
    let value = parsed(r#"{0:"a",-1:"b","2":"c"}"#);
    let Value::Map(pairs) = &value else { panic!("a map") };
    assert_eq!(pairs.iter().map(|(key, _)| key.as_i64().unwrap()).collect::<Vec<_>>(), [0, -1, 2]);
    assert_eq!(pairs[0].0, Value::Int(0));
    assert_eq!(pairs[2].0, text("2"));
}

#[test]
fn object_keys() {
    let json = r#"{{"brokerName":"b","queueId":0,"topic":"T"}:{"brokerOffset":5},{"queueId":1}:6}"#;
    let value = parsed(json);
    let Value::Map(pairs) = &value else { panic!("a map") };
    assert_eq!(pairs[0].0.get("topic"), Some(&text("T")));
    assert_eq!(pairs[0].1.get("brokerOffset"), Some(&Value::Int(5)));
    assert_eq!(pairs[1], (Value::Map(vec![(text("queueId"), Value::Int(1))]), Value::Int(6)));
    let mut out = Vec::new();
    write(&value, Keys::Bare, &mut out);
    assert_eq!(String::from_utf8(out).unwrap(), json);
    let mut out = Vec::new();
    write(&value, Keys::Quoted, &mut out);
    let quoted = r#"{"{\"brokerName\":\"b\",\"queueId\":0,\"topic\":\"T\"}":{"brokerOffset":5},"{\"queueId\":1}":6}"#;
    assert_eq!(String::from_utf8(out).unwrap(), quoted);
    let again = parsed(quoted);
    let Value::Map(pairs) = &again else { panic!("a map") };
    assert_eq!(pairs[1].0, text(r#"{"queueId":1}"#), "a key object that came as a string stays one");
}

#[test]
fn quoting_keys_of_keys_does_not_explode() {
    let json = format!("{}1{}", "{".repeat(60), ":1}".repeat(60));
    let mut out = Vec::new();
    write(&parsed(&json), Keys::Quoted, &mut out);
    assert_eq!(String::from_utf8(out).unwrap(), format!("{{\"{}1{}\":1}}", "{".repeat(59), ":1}".repeat(59)));
}

#[test]
fn references_are_left_in_place() {
    let value = parsed(r#"{"x":{"a":1},"y":{"$ref":"$.x"}}"#);
    assert_eq!(value.get("y").unwrap().reference(), Some("$.x"));
    assert_eq!(value.get("x").unwrap().reference(), None);
}

#[test]
fn what_fastjson_reads_beyond_json() {
    assert_eq!(parsed("{'a':'b\"'}"), Value::Map(vec![(text("a"), text("b\""))]));
    assert_eq!(parsed("{a:1,}"), Value::Map(vec![(text("a"), Value::Int(1))]));
    assert_eq!(parsed("{null:1}"), Value::Map(vec![(Value::Null, Value::Int(1))]));
    assert_eq!(parsed("[,1,,2,]"), Value::List(vec![Value::Int(1), Value::Int(2)]));
    assert_eq!(parsed("{[1]:2}"), Value::Map(vec![(Value::List(vec![Value::Int(1)]), Value::Int(2))]));
    assert_eq!(parsed("[01,+2,-0]"), Value::List(vec![Value::Int(1), Value::Int(2), Value::Int(0)]));
    assert_eq!(parsed("\"a\nb\""), text("a\nb"));
    assert_eq!(parsed(r#""\x41\'\0\v\/""#), text("A'\0\u{B}/"));
}

#[test]
fn numbers_keep_what_they_are() {
    assert_eq!(parsed("9223372036854775807"), Value::Int(i64::MAX));
    assert_eq!(parsed("-9223372036854775808"), Value::Int(i64::MIN));
    for number in ["123456789012345678901234567890", "1.0", "1.0E30", "-1.50", "5.", "1e-3"] {
        assert_eq!(parsed(number), Value::Number(Cow::Borrowed(number)));
    }
    for wrong in ["-", "+", "1e", "1.e+", "--1", "1.2.3", "1-2", ".5", "0x1F", "NaN", "1L"] {
        refused(wrong);
    }
}

#[test]
fn strings() {
    assert_eq!(parsed(r#""a\u0001b\n\"\\""#), text("a\u{1}b\n\"\\"));
    assert_eq!(parsed(r#""\uD83D\uDE00""#), text("😀"));
    assert_eq!(parsed(r#""\uD83D""#), text("?"), "Java's way with half a pair");
    assert_eq!(parsed(r#""\uD83Dx\uDE00""#), text("?x?"));
    assert_eq!(parsed(r#""\uD83D\u0041""#), text("?A"));
    assert!(matches!(parsed("\"plain 中文\""), Value::Text(Cow::Borrowed(_))), "no copy without escapes");
    for wrong in [r#"""#, r#""a"#, r#""a\"#, r#""a\""#, r#""\q""#, r#""\u12""#, r#""\uZZZZ""#, r#""\中""#] {
        refused(wrong);
    }
}

#[test]
fn malformed_texts() {
    for wrong in [
        "",
        " ",
        "{",
        "}",
        "[",
        "[1",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\" 1}",
        "[1 2]",
        "{a:1 b:2}",
        "1 2",
        "tru",
        "{1:2]",
        "\u{0}",
    ] {
        refused(wrong);
    }
    assert_eq!(parse(b"\"\xFF\"").unwrap_err(), JsonError { what: "not UTF-8", at: 1 });
}

#[test]
fn depth_is_bounded() {
    let nested = |depth| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
    parsed(&nested(64));
    assert_eq!(refused(&nested(65)).what, "nested too deep");
    assert_eq!(refused(&"{".repeat(1_000_000)).what, "nested too deep");
}

#[test]
fn the_tree_is_bounded() {
    let limits = Limits { container_bytes: 100 * size_of::<Value>(), ..Limits::DEFAULT };
    let list = |count| format!("[{}]", "0,".repeat(count));
    assert!(parse_with(list(64).as_bytes(), limits).is_ok());
    assert_eq!(parse_with(list(65).as_bytes(), limits).unwrap_err().what, "too many entries", "128 would not fit");
    let limits = Limits { tree_bytes: 100 * size_of::<Value>(), ..Limits::DEFAULT };
    let lists = |count| format!("[{}]", "[0],".repeat(count));
    assert!(parse_with(lists(16).as_bytes(), limits).is_ok(), "16 × 4 entries and 16 more");
    assert_eq!(parse_with(lists(32).as_bytes(), limits).unwrap_err().what, "too many entries");
}

#[test]
fn writes_escapes_as_fastjson_does() {
    let mut out = Vec::new();
    write_string(
        "\u{0}\u{1F}\u{7F}\u{80}\u{9F}\u{A0}\u{2027}\u{2028}\u{2029}\u{202A}\"\\/\u{8}\t\n\u{B}\u{C}\r中😀",
        &mut out,
    );
    let expected = r#""\u0000\u001F\u007F\u0080\u009FNBSP‧\u2028\u2029LRE\"\\/\b\t\n\u000B\f\r中😀""#;
    let expected = expected.replace("NBSP", "\u{A0}").replace("LRE", "\u{202A}");
    assert_eq!(String::from_utf8(out).unwrap(), expected);
}

#[test]
fn writes_integers() {
    for number in [0, 7, -1, 407, i32::MAX, i32::MIN] {
        let mut out = Vec::new();
        write_i32(number, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), number.to_string());
    }
}

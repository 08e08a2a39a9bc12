//! Published vectors of both encodings, and unusual headers that readers must accept.

use super::*;
use crate::frame;

const JSON: &str = r#"{"code":310,"extFields":{"a":"P1","b":"T1","c":"TBW102","d":"4","e":"1","f":"0","g":"1","h":"0","i":"","j":"0","k":"false","m":"false","n":"broker-a"},"flag":0,"language":"JAVA","opaque":7,"serializeTypeCurrentRPC":"JSON","version":407}"#;

fn send() -> Command<'static> {
    let mut command = Command { code: 310, version: 407, opaque: 7, ..Command::default() };
    let fields = "a=P1 b=T1 c=TBW102 d=4 e=1 f=0 g=1 h=0 i= j=0 k=false m=false n=broker-a";
    for (name, value) in fields.split(' ').filter_map(|field| field.split_once('=')) {
        command.push_ext(name, value);
    }
    command
}

fn json(text: &str) -> Result<Command<'_>, HeaderError> {
    Command::decode(text.as_bytes(), Encoding::Json)
}

#[test]
fn json_vector() {
    let mut out = Vec::new();
    frame::encode(&send(), Encoding::Json, b"hi", &mut out).unwrap();
    assert_eq!(out[..8], [0, 0, 0, 0xF2, 0, 0, 0, 0xEC]);
    assert_eq!(std::str::from_utf8(&out[8..]).unwrap(), format!("{JSON}hi"));
    assert_eq!(json(JSON), Ok(send()));
}

#[test]
fn json_response_with_remark() {
    let text = r#"{"code":17,"flag":1,"language":"JAVA","opaque":-7,"remark":"No topic","serializeTypeCurrentRPC":"JSON","version":407}"#;
    let command = json(text).unwrap();
    assert!(command.is_response() && !command.is_oneway());
    assert_eq!((command.remark.as_deref(), command.opaque, &command.ext_fields), (Some("No topic"), -7, &None));
    let mut out = Vec::new();
    command.encode(Encoding::Json, &mut out).unwrap();
    assert_eq!(std::str::from_utf8(&out).unwrap(), text);
}

#[test]
fn binary_vector() {
    let mut out = Vec::new();
    frame::encode(&send(), Encoding::Binary, b"hi", &mut out).unwrap();
    let lead = [0, 0, 0, 0x98, 1, 0, 0, 0x92, 1, 0x36, 0, 1, 0x97, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x7D];
    assert_eq!(out[..29], lead);
    assert_eq!(out[29..38], [0, 1, b'a', 0, 0, 0, 2, b'P', b'1']);
    assert!(out.ends_with(b"\x00\x01n\x00\x00\x00\x08broker-ahi"));
    assert!(out.windows(7).any(|bytes| bytes == b"\x00\x01i\x00\x00\x00\x00"), "an empty value is written");

    let mut expected = send();
    expected.ext_fields.as_mut().unwrap().retain(|(name, _)| name != "i");
    let Ok(frame::Cut::Frame { frame, .. }) = frame::cut(&out) else { panic!("a frame") };
    assert_eq!(frame.command(), Ok(expected), "and read as absent");
    assert_eq!(frame.body, b"hi");
}

#[test]
fn json_defaults_and_leniency() {
    assert_eq!(json("{}"), Ok(Command::default()));
    assert_eq!(
        json(" { \"code\" : \"310\" , \"nobody\":{\"y\":[1]},\"flag\":null,\"opaque\":\"-3\",}").unwrap().code,
        310
    );
    assert_eq!(json("{\"code\":1.0,\"version\":1e2}").map(|c| (c.code, c.version)), Ok((1, 100)));
    assert_eq!(json("{\"extFields\":{}}").unwrap().ext_fields, Some(vec![]));
    assert_eq!(json("{\"extFields\":null}").unwrap().ext_fields, None);
    let odd = json(
        r#"{"extFields":{"a":1,"b":true,"c":null,"d":1.50,"e":{"x":1},"f":[1,2],"h":12345678901234567890,"a":2}}"#,
    );
    let odd = odd.unwrap();
    let values = ["a", "b", "c", "d", "e", "f", "h"].map(|name| odd.ext(name));
    let text =
        [Some("2"), Some("true"), None, Some("1.50"), Some("{\"x\":1}"), Some("[1,2]"), Some("12345678901234567890")];
    assert_eq!(values, text);
}

#[test]
fn json_languages() {
    let language = |text: &str| json(&format!("{{\"language\":{text}}}")).unwrap().language;
    assert_eq!(
        ["9", "\"GO\"", "\"go\"", "\"RUST\""].map(language),
        [Language::Go, Language::Go, Language::Go, Language::Rust]
    );
    assert_eq!(["99", "\"XX\"", "null", "-1"].map(language), [Language::Other; 4]);
    for (number, (language, name)) in Language::NAMED.into_iter().enumerate() {
        assert_eq!(language as usize, number);
        assert_eq!((language.name(), Language::from_name(name)), (name, language));
    }
}

#[test]
fn json_that_is_refused() {
    for text in [
        "",
        "[]",
        "null",
        "{",
        "{\"code\":1",
        "{\"code\":1}x",
        "{\"code\":99999999999}",
        "{\"code\":\"x\"}",
        "{\"flag\":4294967295}",
        "{\"code\":1e99}",
        "{\"extFields\":[]}",
        "{\"extFields\":\"x\"}",
    ] {
        assert!(json(text).is_err(), "{text}");
    }
    assert!(Command::decode(b"{\"remark\":\"\xFF\"}", Encoding::Json).is_err());
}

#[test]
fn binary_shortened_anywhere_is_an_error() {
    let mut command = send();
    command.remark = Some("why".into());
    let mut out = Vec::new();
    command.encode(Encoding::Binary, &mut out).unwrap();
    for end in 0..out.len() {
        assert!(
            matches!(Command::decode(&out[..end], Encoding::Binary), Err(HeaderError::Short { .. })),
            "{end} bytes"
        );
    }
    out.push(0xFF);
    assert!(Command::decode(&out, Encoding::Binary).is_ok(), "what follows the map is not looked at");
}

#[test]
fn binary_lengths_and_text_are_checked() {
    let mut bytes = vec![0; 21];
    assert_eq!(Command::decode(&bytes, Encoding::Binary), Ok(Command::default()), "the shortest header");
    let mut empties = bytes.clone();
    empties[20] = 6;
    empties.extend([0; 6]);
    assert_eq!(Command::decode(&empties, Encoding::Binary), Ok(Command::default()), "a map of nothing but empty text");
    bytes[13] = 0x80;
    assert_eq!(Command::decode(&bytes, Encoding::Binary), Err(HeaderError::Short { field: "remark" }));
    bytes[13] = 0;
    bytes[16] = 1;
    bytes.insert(17, 0xFF);
    assert_eq!(Command::decode(&bytes, Encoding::Binary), Err(HeaderError::NotUtf8 { field: "remark" }));
    let wide = Command { version: 40_000, ..Command::default() };
    assert_eq!(wide.encode(Encoding::Binary, &mut Vec::new()), Err(HeaderError::DoesNotFit { field: "version" }));
}

#[test]
fn ext_fields_are_counted() {
    let field = b"\x00\x01a\x00\x00\x00\x01b";
    let binary = |count: usize| {
        let mut bytes = vec![0; 17];
        bytes.extend(((count * field.len()) as u32).to_be_bytes());
        bytes.extend(field.repeat(count));
        Command::decode(&bytes, Encoding::Binary).map(|command| command.ext_fields.unwrap().len())
    };
    let json_of = |count: usize| json(&format!("{{\"extFields\":{{{}}}}}", "a:1,".repeat(count))).map(|_| count);
    assert_eq!((binary(MAX_EXT_FIELDS), json_of(MAX_EXT_FIELDS)), (Ok(MAX_EXT_FIELDS), Ok(MAX_EXT_FIELDS)));
    let refused = Err(HeaderError::TooManyExtFields);
    assert_eq!((binary(MAX_EXT_FIELDS + 1), json_of(MAX_EXT_FIELDS + 1)), (refused, refused));
}

#[test]
fn owning_changes_nothing() {
    let command = json(JSON).unwrap();
    assert_eq!(command.clone().into_owned(), command);
}

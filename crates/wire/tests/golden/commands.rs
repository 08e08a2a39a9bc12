//! Frames: what Java's connections write, in both encodings.

use std::collections::HashSet;

use wire::frame::{self, Cut};
use wire::header::ExtFields;
use wire::json::Value;
use wire::{Command, Encoding, Language};

use super::files::{Entry, entries};

fn encoding(entry: &Entry) -> Encoding {
    match entry.text("encoding") {
        "JSON" => Encoding::Json,
        "ROCKETMQ" => Encoding::Binary,
        other => panic!("encoding {other}"),
    }
}

/// The ext fields in the order they stand in the frame.
fn ext_written(entry: &Entry) -> Option<ExtFields<'static>> {
    let Value::List(pairs) = entry.value("ext_written") else { return None };
    let pair = |pair: &Value<'static>| match pair {
        Value::List(pair) => (pair[0].as_str().unwrap().to_owned().into(), pair[1].as_str().unwrap().to_owned().into()),
        _ => panic!("{pair:?} is not a pair"),
    };
    Some(pairs.iter().map(pair).collect())
}

fn command(entry: &Entry) -> Command<'static> {
    Command {
        code: entry.int("code"),
        language: Language::from_name(entry.text("language")),
        version: entry.int("version"),
        opaque: entry.int("opaque"),
        flag: entry.int("flag"),
        remark: entry.optional_text("remark").map(|remark| remark.to_owned().into()),
        ext_fields: ext_written(entry),
    }
}

#[test]
fn there_are_enough_of_them() {
    let commands = entries("commands.json");
    for encoding in ["JSON", "ROCKETMQ"] {
        let names = commands.iter().filter(|entry| entry.text("encoding") == encoding).map(|entry| entry.text("name"));
        assert!(names.collect::<HashSet<_>>().len() >= 25, "{encoding}");
    }
}

#[test]
fn our_frames_are_javas() {
    for entry in entries("commands.json") {
        let mut out = Vec::new();
        frame::encode(&command(&entry), encoding(&entry), &entry.bytes("body"), &mut out).unwrap();
        let java = entry.bytes("frame");
        let (ours_text, java_text) = (String::from_utf8_lossy(&out), String::from_utf8_lossy(&java));
        assert_eq!(ours_text, java_text, "{}", entry.text("name"));
        assert_eq!(out, java, "{}", entry.text("name"));
    }
}

#[test]
fn we_read_what_java_reads() {
    for entry in entries("commands.json") {
        let name = entry.text("name");
        let bytes = entry.bytes("frame");
        let Ok(Cut::Frame { frame, len }) = frame::cut(&bytes) else { panic!("{name}: not a frame") };
        assert_eq!((len, frame.encoding), (bytes.len(), encoding(&entry)), "{name}");
        assert_eq!(frame.body, entry.bytes("body"), "{name}");
        let seen = frame.command().unwrap_or_else(|error| panic!("{name}: {error}"));

        let expected = command(&entry);
        assert_eq!(Command { ext_fields: None, ..seen.clone() }, Command { ext_fields: None, ..expected }, "{name}");
        match entry.value("ext_seen") {
            Value::Null => assert_eq!(seen.ext_fields, None, "{name}"),
            Value::Map(fields) => {
                assert!(seen.ext_fields.is_some(), "{name}");
                for (field, value) in fields {
                    let field = field.as_str().unwrap();
                    assert_eq!(seen.ext(field), value.as_str(), "{name}: {field}");
                }
                let known = |field: &str| fields.iter().any(|(known, _)| known.as_str() == Some(field));
                let ours = seen.ext_fields.iter().flatten();
                assert!(ours.into_iter().all(|(field, _)| known(field)), "{name}: a field Java does not see");
            }
            other => panic!("{name}: {other:?}"),
        }
    }
}

#[test]
fn reading_and_writing_again_changes_nothing() {
    let mut compared = 0;
    for entry in entries("commands.json") {
        let bytes = entry.bytes("frame");
        let Ok(Cut::Frame { frame, .. }) = frame::cut(&bytes) else { panic!("not a frame") };
        let has_empty = ext_written(&entry).iter().flatten().any(|(_, value)| value.is_empty());
        if frame.encoding == Encoding::Binary && has_empty {
            continue; // read as absent, so not written again
        }
        let mut out = Vec::new();
        frame::encode(&frame.command().unwrap(), frame.encoding, frame.body, &mut out).unwrap();
        assert_eq!(out, bytes, "{}", entry.text("name"));
        compared += 1;
    }
    assert!(compared > 100, "{compared}");
}

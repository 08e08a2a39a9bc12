//! fastjson's JSON and compressed bodies.

use wire::compression::{Codec, CompressionError, DEFAULT_LIMIT};
use wire::json::{self, Keys};

use super::files::entries;

#[test]
fn json_is_read_and_written_as_fastjson_writes_it() {
    for entry in entries("json.json") {
        let text = entry.text("text");
        let value = json::parse(text.as_bytes()).unwrap_or_else(|error| panic!("{}: {error}", entry.text("name")));
        let written = |keys| {
            let mut out = Vec::new();
            json::write(&value, keys, &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(written(Keys::Bare), text, "{}", entry.text("name"));
        assert_eq!(written(Keys::Quoted), entry.text("quoted"), "{}", entry.text("name"));
    }
}

#[test]
fn compressed_bodies_inflate() {
    for entry in entries("compressed.json") {
        let name = entry.text("name");
        let codec = Codec::of(entry.int("sys_flag")).unwrap().expect("compressed");
        assert_eq!(codec.flags(), entry.int("sys_flag"), "{name}");
        let compressed = entry.bytes("compressed");
        let body = codec.decompress(&compressed, DEFAULT_LIMIT).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(body.len(), entry.int("length") as usize, "{name}");
        match entry.optional_text("body") {
            Some(_) => assert_eq!(body, entry.bytes("body"), "{name}"),
            None => assert!(body.iter().all(|byte| *byte == 0), "{name}"),
        }
        if let Some(limit) = body.len().checked_sub(1) {
            assert_eq!(codec.decompress(&compressed, limit), Err(CompressionError::TooLong { limit }), "{name}");
        }
    }
}

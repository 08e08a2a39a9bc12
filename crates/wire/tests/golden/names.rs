//! Ids, hashes and property strings.

use std::collections::BTreeMap;

use wire::ids::{OffsetId, UniqueId};
use wire::json::Value;
use wire::{crc, hash, properties};

use super::files::entries;

#[test]
fn ids() {
    let mut kinds = (0, 0);
    for entry in entries("ids.json") {
        let text = entry.text("id");
        if entry.text("name") == "offset_id" {
            kinds.0 += 1;
            let id = OffsetId { store_host: entry.host("ip", "port"), physical_offset: entry.long("physical_offset") };
            assert_eq!((id.encode().as_str(), OffsetId::parse(text)), (text, Ok(id)));
        } else {
            kinds.1 += 1;
            let id = UniqueId {
                ip: entry.text("ip").parse().unwrap(),
                pid: entry.int("pid").try_into().unwrap(),
                class_loader_hash: entry.int("class_loader_hash"),
                month_ms: entry.int("month_ms"),
                counter: entry.int("counter").try_into().unwrap(),
            };
            assert_eq!((id.encode().as_str(), UniqueId::parse(text)), (text, Ok(id)));
        }
    }
    assert!(kinds.0 > 0 && kinds.1 > 0, "{kinds:?}");
}

#[test]
fn hashes() {
    for entry in entries("hashes.json") {
        let text = entry.text("text");
        assert_eq!(hash::java_hash(text), entry.int("java_hash"), "{text:?}");
        assert_eq!(hash::tags_code(text), entry.long("tags_code"), "{text:?}");
        assert_eq!(hash::index_hash("orders", text), entry.int("index_hash"), "{text:?}");
        assert_eq!(i64::from(crc::body_crc(text.as_bytes())), entry.long("body_crc"), "{text:?}");
    }
}

#[test]
fn property_strings() {
    for entry in entries("properties.json") {
        let text = entry.text("text");
        let Value::Map(seen) = entry.value("seen") else { panic!("seen is a map") };
        let seen: BTreeMap<_, _> = seen.iter().map(|(k, v)| (k.as_str().unwrap(), v.as_str().unwrap())).collect();
        let ours: BTreeMap<_, _> = properties::iter(text).collect();
        assert_eq!(ours, seen, "{text:?}");
        for (name, value) in seen {
            assert_eq!(properties::get(text, name), Some(value), "{text:?}");
        }
    }
}

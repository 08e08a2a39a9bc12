//! Strategies for the values of the protocol.

use std::net::IpAddr;

use proptest::collection::vec;
use proptest::prelude::*;
use wire::header::ExtFields;
use wire::json::Value;
use wire::{Command, Host, Language, Record};

/// A record that owns its parts.
#[derive(Clone, Debug)]
pub struct OwnedRecord {
    pub numbers: Record<'static>,
    pub body: Vec<u8>,
    pub topic: String,
    pub properties: String,
}

impl OwnedRecord {
    pub fn record(&self) -> Record<'_> {
        Record { body: &self.body, topic: &self.topic, properties: &self.properties, ..self.numbers }
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![0xEE; self.record().encoded_len()];
        self.record().encode_into(&mut out);
        out
    }
}

/// Text of every plane, control characters included.
pub fn text(max_chars: usize) -> impl Strategy<Value = String> {
    vec(
        prop_oneof![4 => any::<char>(), 4 => prop::char::range(' ', '~'), 1 => prop::char::range('\0', '\u{9F}')],
        0..max_chars,
    )
    .prop_map(|chars| chars.into_iter().collect())
}

pub fn host() -> impl Strategy<Value = Host> {
    (any::<IpAddr>(), any::<i32>()).prop_map(|(ip, port)| Host::new(ip, port))
}

pub fn record() -> impl Strategy<Value = OwnedRecord> {
    let numbers = (any::<(i32, i32, i64, i64, i32)>(), any::<(i64, i64, i32, i64)>(), host(), host());
    let numbers = numbers.prop_map(|(first, second, born_host, store_host)| {
        let (queue_id, flag, queue_offset, physical_offset, sys_flag) = first;
        let (born_timestamp, store_timestamp, reconsume_times, prepared_transaction_offset) = second;
        let bit = |host: Host, bit| if host.is_v6() { bit } else { 0 };
        let sys_flag = sys_flag & !0x30 | bit(born_host, 0x10) | bit(store_host, 0x20);
        Record {
            queue_id,
            flag,
            queue_offset,
            physical_offset,
            sys_flag,
            born_timestamp,
            born_host,
            store_timestamp,
            store_host,
            reconsume_times,
            prepared_transaction_offset,
            body: b"",
            topic: "",
            properties: "",
        }
    });
    // 31 characters have at most 124 bytes.
    (numbers, vec(any::<u8>(), 0..300), text(32), text(200))
        .prop_map(|(numbers, body, topic, properties)| OwnedRecord { numbers, body, topic, properties })
}

pub fn language() -> impl Strategy<Value = Language> {
    (0..13i64).prop_map(Language::from_number)
}

/// Commands that mean the same in both encodings: 16-bit codes, no empty text.
pub fn command() -> impl Strategy<Value = Command<'static>> {
    let filled = || text(20).prop_filter("not empty", |text| !text.is_empty());
    let fields = vec((filled(), filled()), 1..20).prop_map(|fields| {
        fields.into_iter().map(|(name, value)| (name.into(), value.into())).collect::<ExtFields<'_>>()
    });
    (any::<(i16, i16, i32, i32)>(), language(), prop::option::of(filled()), prop::option::of(fields)).prop_map(
        |((code, version, opaque, flag), language, remark, ext_fields)| Command {
            code: code.into(),
            language,
            version: version.into(),
            opaque,
            flag,
            remark: remark.map(Into::into),
            ext_fields,
        },
    )
}

/// Any JSON, with any value as a key.
pub fn json() -> impl Strategy<Value = Value<'static>> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::Int),
        "-?[1-9][0-9]{19,30}(\\.[0-9]{1,5})?(E-?[1-9][0-9]?)?".prop_map(|number| Value::Number(number.into())),
        text(20).prop_map(|text| Value::Text(text.into())),
    ];
    leaf.prop_recursive(5, 60, 6, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..6).prop_map(Value::List),
            vec((inner.clone(), inner), 0..6).prop_map(Value::Map),
        ]
    })
}

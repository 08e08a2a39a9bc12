use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type, TimestampMicrosecondType};
use arrow_array::{Array, StringArray};
use wire::compression::Codec;
use wire::{Crc, Host, Record, RecordError};

use super::*;

const PROPERTIES: &str = "KEYS\u{1}k1 k2\u{2}TAGS\u{1}红\u{2}UNIQ_KEY\u{1}U1\u{2}a\u{1}b";

fn record<'a>(queue_offset: i64, body: &'a [u8], properties: &'a str) -> Record<'a> {
    Record {
        queue_id: 3,
        flag: -7,
        queue_offset,
        physical_offset: 1000 + queue_offset,
        sys_flag: 0,
        born_timestamp: 1_700_000_000_123,
        born_host: Host::new("10.0.0.1".parse().unwrap(), 1234),
        store_timestamp: 1_700_000_000_456,
        store_host: Host::new("::1".parse().unwrap(), 10911),
        reconsume_times: 2,
        prepared_transaction_offset: 0,
        body,
        topic: "orders",
        properties,
    }
}

fn bytes(records: &[Record<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    for record in records {
        let at = out.len();
        out.resize(at + record.encoded_len(), 0);
        record.encode_into(&mut out[at..]);
    }
    out
}

fn of(columns: &[Column]) -> RecordColumns {
    RecordColumns::new(columns, Some("broker-a"), Bounds::default())
}

fn texts(batch: &RecordBatch, column: usize) -> Vec<Option<&str>> {
    batch.column(column).as_string::<i32>().iter().collect()
}

#[test]
fn every_column() {
    let mut builder = of(&Column::ALL);
    builder.push(&record(5, b"hello", PROPERTIES)).unwrap();
    builder.push(&record(6, b"", "")).unwrap();
    assert_eq!(builder.rows(), 2);
    let batch = builder.finish();
    assert_eq!((builder.rows(), builder.bytes()), (0, 0));
    assert_eq!(batch.schema(), schema(&Column::ALL));
    let ids = ["000000000000000000000000000000010000", "2A9F"].concat();
    let offset_id = |physical: i64| format!("{ids}{physical:016X}");
    assert_eq!(texts(&batch, 0), [Some("orders"); 2]);
    assert_eq!(texts(&batch, 1), [Some("broker-a"); 2]);
    assert_eq!(batch.column(2).as_primitive::<Int32Type>().values(), &[3, 3]);
    assert_eq!(batch.column(3).as_primitive::<Int64Type>().values(), &[5, 6]);
    assert_eq!(texts(&batch, 4), [Some("U1"), Some(offset_id(1006).as_str())]);
    assert_eq!(texts(&batch, 5), [Some(offset_id(1005).as_str()), Some(offset_id(1006).as_str())]);
    assert_eq!(texts(&batch, 6), [Some("红"), None]);
    let keys = batch.column(7).as_list::<i32>();
    assert_eq!(keys.value(0).as_string::<i32>(), &StringArray::from(vec!["k1", "k2"]));
    assert_eq!(keys.value(1).len(), 0);
    assert!(keys.is_valid(1), "no keys are an empty list");
    assert_eq!(batch.column(8).as_binary::<i32>().iter().collect::<Vec<_>>(), [Some(&b"hello"[..]), Some(b"")]);
    let properties = batch.column(9).as_map();
    let first = properties.value(0);
    assert_eq!(first.column(0).as_string::<i32>(), &StringArray::from(vec!["KEYS", "TAGS", "UNIQ_KEY", "a"]));
    assert_eq!(first.column(1).as_string::<i32>(), &StringArray::from(vec!["k1 k2", "红", "U1", "b"]));
    assert_eq!(properties.value(1).len(), 0);
    let times = |column: usize| batch.column(column).as_primitive::<TimestampMicrosecondType>().value(0);
    assert_eq!((times(10), times(11)), (1_700_000_000_123_000, 1_700_000_000_456_000));
    assert_eq!(texts(&batch, 12)[0], Some("10.0.0.1:1234"));
    for (column, value) in [(13, -7), (14, 0), (15, 2)] {
        assert_eq!(batch.column(column).as_primitive::<Int32Type>().value(1), value);
    }
    assert_eq!(batch.column(16).as_primitive::<Int64Type>().values(), &[1005, 1006]);
}

#[test]
fn texts_that_repeat_and_those_that_do_not() {
    let mut builder =
        RecordColumns::new(&[Column::Topic, Column::BrokerName, Column::BornHost], None, Bounds::default());
    let mut expected = Vec::new();
    for number in 0..300 {
        // Runs of all lengths from one on, also of null texts, and one that continues in the next batch.
        let run = (0..).find(|run| (run + 1) * (run + 2) / 2 > number).unwrap();
        let (topic, broker) = (["", "orders", "红"][run % 3], [None, Some("broker-a"), Some("")][run % 3]);
        let host = Host::new("10.0.0.1".parse().unwrap(), (run % 2) as i32);
        builder.set_broker_name(broker);
        builder.push(&Record { topic, born_host: host, ..record(number as i64, b"", "") }).unwrap();
        expected.push((Some(topic.to_owned()), broker.map(str::to_owned), Some(host.to_string())));
        if number % 100 == 99 {
            let batch = builder.finish();
            let owned = |column| texts(&batch, column).into_iter().map(|text| text.map(str::to_owned));
            let rows: Vec<_> =
                owned(0).zip(owned(1)).zip(owned(2)).map(|((topic, broker), host)| (topic, broker, host)).collect();
            assert_eq!(rows, std::mem::take(&mut expected));
        }
    }
}

#[test]
fn names_are_read_back() {
    for column in Column::ALL {
        assert_eq!(column.name().parse(), Ok(column));
    }
    assert!("Body".parse::<Column>().unwrap_err().contains("physicalOffset"));
}

#[test]
fn a_later_property_wins() {
    let mut builder = of(&[Column::Properties, Column::Tags]);
    builder.push(&record(0, b"", "a\u{1}1\u{2}TAGS\u{1}x\u{2}a\u{1}2")).unwrap();
    let many: Vec<String> = (0..200).map(|n| format!("n{}\u{1}{n}", n % 100)).collect();
    builder.push(&record(1, b"", &many.join("\u{2}"))).unwrap();
    let batch = builder.finish();
    let maps = batch.column(0).as_map();
    let row = maps.value(0);
    assert_eq!(row.column(0).as_string::<i32>(), &StringArray::from(vec!["a", "TAGS"]));
    assert_eq!(row.column(1).as_string::<i32>(), &StringArray::from(vec!["2", "x"]));
    let row = maps.value(1);
    assert_eq!(row.len(), 100);
    assert_eq!(row.column(1).as_string::<i32>().value(0), "100");
}

#[test]
fn compressed_bodies_come_out_whole() {
    let body = vec![7; 10_000];
    for codec in [Codec::Zlib, Codec::Lz4, Codec::Zstd] {
        let packed = codec.compress(&body, 5).unwrap();
        let packed = Record { sys_flag: codec.flags(), ..record(0, &packed, "") };
        let mut builder = of(&[Column::Body]);
        builder.append(&bytes(&[packed]), 0, Crc::Verify, &Selection::ALL).unwrap();
        assert_eq!(builder.finish().column(0).as_binary::<i32>().value(0), body);
    }
}

#[test]
fn a_body_that_does_not_decompress_adds_nothing() {
    let broken = Record { sys_flag: 1, ..record(9, b"not zlib", "") };
    let mut builder = of(&Column::ALL);
    builder.push(&record(8, b"", "")).unwrap();
    let error = builder.push(&broken).unwrap_err();
    assert!(error.to_string().starts_with("message 9 of queue 3 of topic orders (at 1009 in the log): malformed"));
    assert_eq!(builder.finish().num_rows(), 1);
    let mut without_body = of(&[Column::QueueOffset]);
    assert_eq!(without_body.push(&broken), Ok(()), "nobody asked for it");
}

#[test]
fn selected_by_offset_and_by_the_text_of_the_tag() {
    let tagged = ["TAGS\u{1}AaAa", "TAGS\u{1}BBBB", "", "TAGS\u{1}BBBB", "TAGS\u{1}AaAa"];
    let records: Vec<_> = tagged.iter().zip(10..).map(|(properties, at)| record(at, b"x", properties)).collect();
    let wanted = ["BBBB".to_owned()];
    let offsets = |selection: Selection<'_>| {
        let mut builder = of(&[Column::QueueOffset]);
        let data = bytes(&records);
        assert_eq!(builder.append(&data, 0, Crc::Verify, &selection), Ok(data.len()));
        builder.finish().column(0).as_primitive::<Int64Type>().values().to_vec()
    };
    assert_eq!(offsets(Selection { queue_offsets: 11..13, tags: None }), [11, 12]);
    assert_eq!(offsets(Selection { queue_offsets: 0..100, tags: Some(&wanted) }), [11, 13]);
    assert_eq!(offsets(Selection { queue_offsets: 12..100, tags: Some(&wanted) }), [13]);
}

#[test]
fn a_full_batch_stops_and_goes_on() {
    let data = bytes(&(0..10).map(|at| record(at, &[1; 1000], "")).collect::<Vec<_>>());
    for bounds in [Bounds { max_rows: 4, max_bytes: 1 << 20 }, Bounds { max_rows: 100, max_bytes: 4000 }] {
        let mut builder = RecordColumns::new(&[Column::QueueOffset, Column::Body], None, bounds);
        let (mut at, mut sizes) = (0, Vec::new());
        while at < data.len() {
            at = builder.append(&data, at, Crc::Verify, &Selection::ALL).unwrap();
            sizes.push(builder.finish().num_rows());
        }
        assert_eq!(sizes, [4, 4, 2], "{bounds:?}");
    }
}

#[test]
fn long_texts_of_a_producer_fill_a_batch() {
    let long = "t".repeat(30_000);
    for (column, name) in [(Column::Tags, "TAGS"), (Column::MsgId, "UNIQ_KEY"), (Column::Keys, "KEYS")] {
        let properties = format!("{name}\u{1}{long}");
        let data = bytes(&(0..10).map(|at| record(at, b"", &properties)).collect::<Vec<_>>());
        let mut builder = RecordColumns::new(&[column], None, Bounds { max_rows: 100, max_bytes: 100_000 });
        builder.append(&data, 0, Crc::Verify, &Selection::ALL).unwrap();
        assert_eq!(builder.finish().num_rows(), 4, "{column:?}");
    }
}

#[test]
fn one_record_always_fits() {
    let body = vec![1; 5000];
    let mut builder = RecordColumns::new(&[Column::Body], None, Bounds { max_rows: 9, max_bytes: 10 });
    let data = bytes(&[record(0, &body, ""), record(1, &body, "")]);
    let at = builder.append(&data, 0, Crc::Verify, &Selection::ALL).unwrap();
    assert_eq!((at, builder.finish().num_rows()), (data.len() / 2, 1));
}

#[test]
fn text_that_is_not_utf8_is_shown_with_replacements() {
    let mut data = bytes(&[record(0, b"", "k\u{1}éé")]);
    let end = data.len();
    data[end - 1] = 0xFF;
    let mut builder = of(&[Column::Properties]);
    builder.append(&data, 0, Crc::Verify, &Selection::ALL).unwrap();
    let batch = builder.finish();
    assert_eq!(batch.column(0).as_map().value(0).column(1).as_string::<i32>().value(0), "é\u{FFFD}\u{FFFD}");
}

#[test]
fn bytes_that_are_no_records_are_an_error() {
    let mut data = bytes(&[record(0, b"abc", ""), record(1, b"abc", "")]);
    let second = data.len() / 2;
    data[second + 4] ^= 0xFF;
    let mut builder = of(&[Column::Body]);
    let error = builder.append(&data, 0, Crc::Verify, &Selection::ALL).unwrap_err();
    assert!(matches!(error, ColumnsError::Record { at, cause: RecordError::NotAMessage { .. } } if at == second));
    for end in 1..second {
        assert!(of(&[Column::Body]).append(&data[..end], 0, Crc::Verify, &Selection::ALL).is_err(), "{end} bytes");
    }
}

#[test]
fn no_columns_count_rows_and_no_broker_is_null() {
    let mut builder = of(&[]);
    builder.push(&record(0, b"", "")).unwrap();
    builder.push(&record(1, b"", "")).unwrap();
    assert_eq!(builder.finish().num_rows(), 2);
    let mut builder = RecordColumns::new(&[Column::BrokerName], None, Bounds::default());
    builder.push(&record(0, b"", "")).unwrap();
    builder.set_broker_name(Some("b"));
    builder.push(&record(1, b"", "")).unwrap();
    let batch = builder.finish();
    assert_eq!(texts(&batch, 0), [None, Some("b")]);
    assert_eq!(Arc::new(batch).num_columns(), 1);
}

#[test]
fn the_topic_is_called_what_its_reader_calls_it() {
    let mut builder = of(&[Column::Topic]);
    builder.set_topic(Some("short"));
    builder.push(&record(0, b"", "")).unwrap();
    builder.set_topic(None);
    builder.push(&record(1, b"", "")).unwrap();
    assert_eq!(texts(&builder.finish(), 0), [Some("short"), Some("orders")]);
}

#[test]
fn damaged_bodies_may_stay_as_they_are() {
    let bad = Record { sys_flag: 1, ..record(7, b"no zlib", "") };
    let mut data = bytes(&[record(6, b"fine", ""), bad, record(8, b"hello", "")]);
    let at = data.len() - 5 - 1 - "orders".len() - 2;
    assert_eq!(&data[at..at + 5], b"hello");
    data[at] ^= 1;
    let mut builder = of(&[Column::Body, Column::SysFlag]);
    assert!(matches!(builder.append(&data, 0, Crc::Verify, &Selection::ALL), Err(ColumnsError::Body { .. })));
    builder.finish();
    builder.keep_damaged();
    assert_eq!(builder.append(&data, 0, Crc::Verify, &Selection::ALL), Ok(data.len()));
    let batch = builder.finish();
    let bodies: Vec<_> = batch.column(0).as_binary::<i32>().iter().collect();
    assert_eq!(bodies, [Some(&b"fine"[..]), Some(b"no zlib"), Some(b"iello")]);
    let flags: Vec<_> = batch.column(1).as_primitive::<Int32Type>().values().iter().map(|flag| flag & 1).collect();
    assert_eq!(flags, [0, 1, 0], "it still says that it is compressed");
    let damages = builder.take_damages();
    assert_eq!(damages.count, 2);
    assert!(damages.texts[0].starts_with("message 7 of queue 3 of topic orders (at 1007 in the log): "), "{damages:?}");
    assert!(damages.texts[1].contains("message 8 of queue 3 of topic orders"), "{damages:?}");
    assert_eq!(builder.take_damages(), Damages::default());
    for _ in 0..100 {
        builder.append(&data, 0, Crc::Verify, &Selection::ALL).unwrap();
    }
    let damages = builder.take_damages();
    assert_eq!(damages.count, 200);
    assert!(damages.texts.len() < 20, "somebody has to read them");
}

#[test]
fn all_records_are_counted_also_those_that_are_not_wanted() {
    let data = bytes(&[record(5, b"", ""), record(6, b"", ""), record(7, b"", "")]);
    let mut builder = of(&[]);
    let only = Selection { queue_offsets: 6..7, tags: None };
    builder.append(&data, 0, Crc::Verify, &only).unwrap();
    assert_eq!((builder.rows(), builder.records()), (1, 3));
}

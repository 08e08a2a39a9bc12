//! Batch bodies, and the records a Java broker stores for them.

use wire::batch::{self, BatchMessage};
use wire::record;
use wire::{Host, Record};

use super::files::{Entry, entries};

/// What the values of an entry are, in the form ours are made of.
struct Batch {
    bodies: Vec<(i32, Vec<u8>)>,
    properties: Vec<String>,
}

impl Batch {
    fn of(entry: &Entry) -> Batch {
        let body = |message| {
            let message = Entry::of(message);
            (message.int("flag"), message.bytes("body"))
        };
        Batch {
            bodies: entry.list("messages").iter().map(body).collect(),
            properties: entry.list("properties").iter().map(|text| text.as_str().unwrap().to_owned()).collect(),
        }
    }

    fn messages(&self) -> Vec<BatchMessage<'_>> {
        let pairs = self.bodies.iter().zip(&self.properties);
        pairs.map(|((flag, body), properties)| BatchMessage { flag: *flag, body, properties }).collect()
    }
}

#[test]
fn our_batches_are_javas() {
    for entry in entries("batches.json") {
        let batch = Batch::of(&entry);
        let bytes = entry.bytes("batch");
        assert_eq!(batch::encode(batch.messages()), Ok(bytes.clone()), "{}", entry.text("name"));
        let read: Result<Vec<_>, _> = batch::decode(&bytes).collect();
        assert_eq!(read, Ok(batch.messages()), "{}", entry.text("name"));
    }
}

#[test]
fn a_batch_is_stored_as_java_stores_it() {
    for entry in entries("batches.json") {
        let (sent, java) = (entry.bytes("batch"), entry.bytes("stored"));
        let mut ours = Vec::new();
        for message in batch::decode(&sent) {
            let message = message.unwrap();
            let properties = batch::stored_properties(message.properties, entry.text("batch_properties")).unwrap();
            let record = Record {
                queue_id: 2,
                flag: message.flag,
                queue_offset: 0,
                physical_offset: 0,
                sys_flag: 0,
                born_timestamp: 1_700_000_000_000,
                born_host: Host::new("127.0.0.1".parse().unwrap(), 5555),
                store_timestamp: 1_700_000_000_123,
                store_host: Host::new("10.1.2.3".parse().unwrap(), 10911),
                reconsume_times: 0,
                prepared_transaction_offset: 0,
                body: message.body,
                topic: "orders",
                properties: &properties,
            };
            let start = ours.len();
            ours.resize(start + record.encoded_len(), 0);
            record.encode_into(&mut ours[start..]);
        }
        assert_eq!(ours, java, "{}", entry.text("name"));
        assert_eq!(record::decode_list(&java).count(), batch::decode(&sent).count());
        assert!(record::decode_list(&java).all(|record| record.is_ok()), "{}", entry.text("name"));
    }
}

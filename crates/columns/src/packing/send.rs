//! Results of packing rows, and the reasons to reject rows.
use thiserror::Error;

/// Destination of a message within its topic.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// Any queue.
    Any,
    /// Any queue of this broker.
    Broker(String),
    /// This queue; the broker may be omitted if only one broker has the topic.
    #[allow(missing_docs)]
    Queue { broker: Option<String>, queue_id: i32 },
    /// Queue at this index of the topic's queues.
    Slot(u32),
}

/// Content of one request: a batch of messages, or a single one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Send {
    /// Topic of all its messages.
    pub topic: String,
    /// Destination of all its messages.
    pub place: Place,
    /// Batch body, or the body of the only message.
    pub body: Vec<u8>,
    /// Properties of the only message; `None` for a batch, whose body contains the properties of each message.
    pub properties: Option<String>,
    /// Number of messages.
    pub rows: u32,
}

/// Reason why a row cannot be sent. Rows are counted from the first one packed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[allow(missing_docs)] // the error texts describe the fields
pub enum PackError {
    #[error("row {row} has no topic: set the option topic, or fill the column")]
    NoTopic { row: u64 },
    #[error("row {row}: topic {topic:?} is not a topic's name: at most 127 of a-z A-Z 0-9 % | _ -")]
    BadTopic { row: u64, topic: String },
    #[error("row {row} has no body: filter such rows out, brokers take messages of at least one byte")]
    NoBody { row: u64 },
    #[error(
        "row {row}: the body has {len} bytes, the limit is {limit} (option maxMessageBytes, and the broker's maxMessageSize)"
    )]
    BodyTooLarge { row: u64, len: usize, limit: usize },
    #[error("row {row}: tags, keys and properties have {len} bytes, at most 32767 fit")]
    PropertiesTooLong { row: u64, len: usize },
    #[error("row {row}: {what} holds a character that separates properties: 2, or 1 in a name")]
    Separator { row: u64, what: &'static str },
    #[error("row {row}: key {key:?} has a space in it, which separates keys")]
    KeyWithSpace { row: u64, key: String },
    #[error("row {row}: queueId is {queue_id}; queues are counted from 0")]
    BadQueueId { row: u64, queue_id: i32 },
    #[error("row {row}: only one of shardingKey and queueId can choose the queue")]
    TwoPlaces { row: u64 },
    #[error("row {row}: shardingKey goes with no brokerName, it chooses among the queues of all brokers")]
    ShardOnBroker { row: u64 },
    #[error("row {row}: only one of delayLevel and deliverAt can say when")]
    TwoTimes { row: u64 },
    #[error("row {row}: topic {topic:?} has no queue to choose one by shardingKey")]
    NoQueues { row: u64, topic: String },
    #[error("column {name} has type {found}, not {wanted}")]
    WrongType { name: &'static str, found: String, wanted: &'static str },
    #[error("column body is missing")]
    NoBodyColumn,
}

//! The store files of RocketMQ.

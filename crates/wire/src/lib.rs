//! The bytes of RocketMQ.

"""The Rust core: RocketMQ's bytes and store files."""

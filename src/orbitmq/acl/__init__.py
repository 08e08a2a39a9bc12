"""Access control: accounts, signatures and permissions, compatible with RocketMQ's plain ACL."""

"""Who may do what: accounts, their signatures and permissions, as RocketMQ's plain ACL has them."""

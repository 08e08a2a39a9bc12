"""RocketMQ's vocabulary: codes, headers, flags and names. No I/O, no decisions."""

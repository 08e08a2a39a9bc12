"""What the broker answers, one file per family of requests."""

"""The broker: receives messages, stores them, and returns them to consumers."""

"""The write path: storing messages at once, or at their delivery time."""

"""A store directory as a table."""

"""The source: topics as streaming and batch tables."""

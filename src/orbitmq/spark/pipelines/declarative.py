"""A project for Spark's own declarative pipelines, to begin with."""

"""The Spark source, sink and store format against Spark's own Kafka connector."""

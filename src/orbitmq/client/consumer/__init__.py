"""Consumers: push, pull and iterating ones, and how members of a group share queues."""

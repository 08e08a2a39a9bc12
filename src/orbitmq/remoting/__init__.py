"""Connections that carry commands in both directions: server, client, request and response."""

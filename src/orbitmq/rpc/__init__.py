"""Requests to RocketMQ servers: flows, their drivers, routes, and error codes as exceptions."""

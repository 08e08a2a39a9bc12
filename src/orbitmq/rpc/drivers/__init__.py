"""Drivers of flows: one sends a flow's requests on the calling thread, one on an event loop."""

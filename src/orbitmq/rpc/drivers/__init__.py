"""The two ways to run a flow: on the calling thread, and on an event loop."""

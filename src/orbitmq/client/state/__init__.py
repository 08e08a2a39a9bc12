"""What a client knows and how it chooses: plain state, no I/O, no clock of its own."""

"""The write path: messages on their way into the store, now or when their time has come."""

"""Producers: sending, batches, transactions, request and reply."""

"""Transactions: half messages, and the checks that ask producers about them."""

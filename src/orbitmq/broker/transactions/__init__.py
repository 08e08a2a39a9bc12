"""Transactions: half messages, their decisions, and checks of undecided ones."""

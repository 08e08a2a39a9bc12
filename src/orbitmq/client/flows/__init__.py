"""Decisions that need the network, as generators of wishes."""

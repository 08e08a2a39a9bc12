"""Handlers of administrative requests, one file per subject."""

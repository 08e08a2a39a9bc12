"""The nameserver: which brokers there are, and which of them serve a topic."""

from orbitmq.nameserver.app import Nameserver

__all__ = ["Nameserver"]

"""The nameserver: the table of brokers, and the routes of topics to them."""

from orbitmq.nameserver.app import Nameserver

__all__ = ["Nameserver"]

"""OrbitMQ: a message system that speaks Apache RocketMQ 4.9 on the wire and on disk."""

from importlib.metadata import version as _version

from orbitmq.errors import OrbitError

__all__ = ["OrbitError", "__version__"]

__version__ = _version("orbitmq")

"""Logging of the commands: to stderr, coloured on a terminal, plain lines anywhere else."""

from __future__ import annotations

import logging
import sys

__all__ = ["set_up_logging"]

_LEVELS = {-2: logging.ERROR, -1: logging.WARNING, 0: logging.INFO, 1: logging.DEBUG}


def set_up_logging(verbosity: int) -> None:
    """Send what modules log to stderr; 0 is the usual amount, 1 all, -2 errors only."""
    level = _LEVELS[max(-2, min(verbosity, 1))]
    handler: logging.Handler
    if sys.stderr.isatty():
        from rich.console import Console
        from rich.logging import RichHandler

        handler = RichHandler(console=Console(stderr=True), show_path=False)
        handler.setFormatter(logging.Formatter("%(message)s", "%H:%M:%S"))
    else:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s - %(message)s"))
    logging.basicConfig(level=level, handlers=[handler], force=True)

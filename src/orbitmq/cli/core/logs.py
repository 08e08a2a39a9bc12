"""Logging of commands to stderr: coloured on a terminal, plain lines elsewhere."""

from __future__ import annotations

import logging
import sys
from logging.handlers import RotatingFileHandler
from pathlib import Path

__all__ = ["log_to_file", "set_up_logging"]

_LEVELS = {-2: logging.ERROR, -1: logging.WARNING, 0: logging.INFO, 1: logging.DEBUG}


def set_up_logging(verbosity: int) -> None:
    """Send log records to stderr: 0 logs info, 1 debug as well, -1 warnings, -2 errors only."""
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


# ---- Log files at RocketMQ's places: ``~/logs/rocketmqlogs/broker.log`` and ``namesrv.log``
#
# Warnings and errors go to stderr as well. A file is rotated at 128 MiB; ten old files are kept.

MAX_BYTES = 128 << 20
KEPT = 10


def log_to_file(name: str, *, below: str = "") -> None:
    """Send log records to a file, or to stderr only if the file cannot be written."""
    to_stderr = logging.StreamHandler()
    to_stderr.setLevel(logging.WARNING)
    to_stderr.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s - %(message)s"))
    handlers: list[logging.Handler] = [to_stderr]
    directory = Path.home() / "logs" / "rocketmqlogs" / below
    problem: OSError | None = None
    try:
        directory.mkdir(parents=True, exist_ok=True)
        to_file = RotatingFileHandler(
            directory / name, maxBytes=MAX_BYTES, backupCount=KEPT, encoding="utf-8"
        )
    except OSError as error:
        problem = error
        to_stderr.setLevel(logging.INFO)
    else:
        to_file.setFormatter(
            logging.Formatter(
                "%(asctime)s %(levelname)s %(threadName)s - %(message)s", "%Y-%m-%d %H:%M:%S"
            )
        )
        handlers.append(to_file)
    logging.basicConfig(level=logging.INFO, handlers=handlers, force=True)
    if problem is not None:
        logging.getLogger(__name__).warning(
            "%s cannot be written, logging to stderr instead: %s", directory / name, problem
        )

"""Short messages for Spark's exceptions.

Spark's exceptions contain plans and JVM stacks. When Python code failed in a worker or in a data
source, they also contain a Python traceback as text. People need the last cause: its message, and
its class if the class is built into Python, because such messages mean little without the class
(``KeyError: 'amount'``).
"""

from __future__ import annotations

import re

__all__ = ["one_line"]

_PYTHON_CAUSE = re.compile(r"^(?P<module>(?:\w+\.)*)(?P<name>\w+): (?P<message>\S.*)$")
_DATA_SOURCE_CAUSE = re.compile(r"^\[PYTHON_DATA_SOURCE_ERROR\] [^:]*: ((?:\w+\.)*\w+: \S.*)$")
_TRACEBACK = "Traceback (most recent call last):"
_JVM_CLASS = re.compile(r"^:?\s*(?:(?:[a-z]\w*\.)+\w+(?:Exception|Error):(?: |$))+")
_NOISE = re.compile(r"\s*(SQLSTATE: \w+|;)\s*$")
_MAX_LENGTH = 600


def one_line(error: BaseException) -> str:
    """Return the cause of an error in one line."""
    text = str(error).strip()
    if _TRACEBACK in text:
        return _last_python_cause(text.rsplit(_TRACEBACK, 1)[1])
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(lines) > 1 and lines[0].startswith("An error occurred while calling"):
        del lines[0]  # py4j's own line before the JVM's message
    if lines and (cause := _DATA_SOURCE_CAUSE.match(lines[0])):
        return _last_python_cause(cause[1])
    for line in lines:
        said = _NOISE.sub("", _JVM_CLASS.sub("", line))
        if said:  # for some errors the message is in the line after the class
            return said[:_MAX_LENGTH]
    return type(error).__name__


def _last_python_cause(text: str) -> str:
    """Return the message below a traceback; stack lines are indented, the message is not."""
    for line in text.splitlines():
        found = _PYTHON_CAUSE.match(line)
        if found is not None:
            is_builtin = not found["module"]
            said = line if is_builtin else found["message"]
            return said[:_MAX_LENGTH].strip()
    return " ".join(text.split())[-_MAX_LENGTH:]

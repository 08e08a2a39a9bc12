"""Endless commands of mqadmin: each in its own JVM, until it has printed enough."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from compat.java_machine import JavaProcess
from compat.mqadmin.normalise import neutral
from compat.mqadmin.sides import Side

__all__ = ["Endless", "endless"]

STARTUP = "org.apache.rocketmq.tools.command.MQAdminStartup"
LOGBACK = """<configuration>
  <appender name="out" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%msg%n</pattern></encoder>
  </appender>
  <root level="OFF"/>
  <logger name="RocketmqClient" level="INFO"><appender-ref ref="out"/></logger>
</configuration>
"""
PAUSE_S = 0.1
LIMIT_S = 120


class Endless:
    """A running command."""

    def __init__(self, side: Side, home: Path, command: tuple[str, ...]) -> None:
        self._side = side
        (home / "conf").mkdir(parents=True)
        (home / "conf" / "logback_tools.xml").write_text(LOGBACK)
        flags = [f"-Drocketmq.home.dir={home}", "-Drocketmq.client.logUseSlf4j=true", "-Xms64m"]
        arguments = [*command, "-n", side.nameserver]
        self._java = JavaProcess(STARTUP, arguments, home=home, log=home / "said", flags=flags)

    def lines(self, of: Callable[[str], bool], last: str) -> list[str]:
        """Return some of its output, in neutral form, once the last expected line is there."""
        deadline = time.monotonic() + LIMIT_S
        while last not in (said := self._whole_lines()):
            if not self._java.running or time.monotonic() > deadline:
                raise self._java.error(f"did not say {last!r}")
            time.sleep(PAUSE_S)
        said = re.sub(r" +", " ", neutral(said, self._side))
        return [line for line in said.splitlines() if of(line)]

    def _whole_lines(self) -> str:
        """Return its output without an unfinished last line: lines are printed in pieces."""
        said = self._java.log.read_text(errors="replace")
        return said[: said.rfind("\n") + 1]

    def kill(self) -> None:
        self._java.kill()


@contextmanager
def endless(
    sides: tuple[Side, Side], directory: Path, *command: str
) -> Iterator[tuple[Endless, Endless]]:
    """Run a command against both sides."""
    java, ours = (Endless(side, directory / side.name, command) for side in sides)
    try:
        yield java, ours
    finally:
        java.kill()
        ours.kill()

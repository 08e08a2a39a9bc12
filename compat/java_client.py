"""The Python end of `java-client/java/Driver.java`: a JVM whose real client plays scenarios.

A scenario may wish for something to be done to the cluster while it runs, such as the stop of a
broker; it waits until that is done. Its failure comes with the Java stack.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from compat.java_machine import JavaError, JavaProcess, compile_java

JAVA_SOURCES = Path(__file__).resolve().parent / "java-client" / "java"

AGAINST_JAVA = os.environ.get("ORBITMQ_COMPAT_AGAINST") == "java"
"""True if scenarios are played against Apache's own brokers."""

ENCODINGS = ("JSON", "ROCKETMQ")
"""Encodings of headers: values of `rocketmq.serialize.type`."""

COMPRESSION = {"JSON": "ZLIB", "ROCKETMQ": "LZ4"}
"""The driver of each encoding uses another compression, so that both are tested."""

IMPATIENT = (
    # The client's own periods, where the default would make a test wait for twenty seconds.
    "-Drocketmq.client.rebalance.waitInterval=1000",
    "-Drocketmq.client.rebalance.lockInterval=1000",
    "-Drocketmq.client.rebalance.lockMaxLiveTime=3000",
    "-Drocketmq.client.unlockDelayTimeMills=1000",
)


class Cluster(Protocol):
    """The cluster the client uses: ours or Java's."""

    @property
    def address(self) -> str: ...
    def start_broker(self, name: str) -> None: ...
    def stop_broker(self, name: str) -> None: ...
    def stop(self) -> None: ...


Wishes = Mapping[str, Callable[[str], None]]


class ScenarioFailed(AssertionError):
    """A scenario failed; the text is Java's stack."""


class JavaClient:
    """Plays one scenario at a time."""

    _marks = itertools.count(1)

    def __init__(
        self, home: Path, encoding: str, nameserver: str, *, flags: Sequence[str] = ()
    ) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.home = home
        self.encoding = encoding
        self.nameserver = nameserver
        self._java = JavaProcess(
            "Driver",
            [],
            home=home,
            log=home / "driver.log",
            classes=compile_java(JAVA_SOURCES),
            flags=[
                f"-Drocketmq.serialize.type={encoding}",
                f"-Drocketmq.message.compressType={COMPRESSION[encoding]}",
                f"-Drocketmq.client.localOffsetStoreDir={home / 'offsets'}",
                "-Drocketmq.client.logLevel=WARN",
                *flags,
            ],
            conversing=True,
        )

    def _say(self, line: Mapping[str, Any]) -> None:
        stdin = self._java.process.stdin
        assert stdin is not None
        stdin.write(json.dumps(line).encode() + b"\n")
        stdin.flush()

    def play(
        self, scenario: str, *, wishes: Wishes | None = None, mark: str | None = None, **words: Any
    ) -> Any:
        """Play a scenario and return its result; `mark` separates its topics and groups."""
        number = next(self._marks)
        order = {"run": scenario, "id": number, "nameserver": self.nameserver}
        self._say(order | {"mark": mark or f"{self.encoding}{number}"} | words)
        stdout = self._java.process.stdout
        assert stdout is not None
        for line in stdout:
            answer = json.loads(line)
            if answer["id"] != number:
                continue  # The late answer to an abandoned order.
            if "wish" in answer:
                self._fulfil(answer, wishes or {})
            elif "error" in answer:
                raise ScenarioFailed(f"{scenario}: {answer['stack']}")
            else:
                return answer.get("ok")  # Left out for null.
        self._java.process.wait()
        raise self._java.error(f"ended while it played {scenario}")

    def _fulfil(self, answer: Mapping[str, Any], wishes: Wishes) -> None:
        try:
            wishes[answer["wish"]](answer["broker"])
        except Exception as error:
            self._say({"done": answer["id"], "error": repr(error)})
            raise
        self._say({"done": answer["id"]})

    def kill(self) -> None:
        """Kill it with SIGKILL."""
        self._java.kill()

    def close(self) -> None:
        """Let it end in order."""
        stdin = self._java.process.stdin
        if stdin is None or stdin.closed:
            return
        stdin.close()
        try:
            self._java.stop()
        except JavaError:
            self._java.kill()
            raise

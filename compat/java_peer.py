"""The Python end of `java/Peer.java`: one warm JVM with the real client, controlled by JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from compat.java_machine import JavaProcess, compile_java

JAVA_SOURCES = Path(__file__).resolve().parent / "java"

Question = dict[str, Any]


class JavaPeer:
    """Carries out one task at a time; the Java classes describe the fields of each task."""

    def __init__(self, home: Path) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.home = home
        self._java = JavaProcess(
            "Peer",
            [],
            home=home,
            log=home / "peer.log",
            classes=compile_java(JAVA_SOURCES),
            conversing=True,
        )

    def do(
        self, task: str, *, on_progress: Callable[[int], None] | None = None, **words: Any
    ) -> Any:
        """Carry out a task, return its result; `on_progress` gets the number of done messages."""
        stdin, stdout = self._java.process.stdin, self._java.process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps({"do": task, **words}).encode() + b"\n")
        stdin.flush()
        for line in stdout:
            answer = json.loads(line)
            if "progress" in answer:
                if on_progress is not None:
                    on_progress(answer["progress"])
            elif "error" in answer:
                raise self._java.error(f"could not {task}: {answer['error']}")
            else:
                return answer["ok"]
        self._java.process.wait()
        raise self._java.error(f"ended while it was to {task}")

    def ask(self, broker: str, questions: Sequence[Question]) -> list[Any]:
        """Return a running broker's answers, with `bytes` in place of each span of record bytes."""
        path = self.home / "answer.bytes"
        answers = self.do("ask", broker=broker, questions=list(questions), bytes=str(path))
        data = memoryview(path.read_bytes())
        for answer in answers:
            if isinstance(answer, dict) and "start" in answer:
                start = answer["start"]
                answer["bytes"] = bytes(data[start : start + answer["length"]])
        return list(answers)

    def close(self) -> None:
        stdin = self._java.process.stdin
        if stdin is not None and not stdin.closed:
            stdin.close()  # The end of its input makes the peer exit.
        self._java.stop()

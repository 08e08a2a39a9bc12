"""Java processes of the compatibility suites: flags, compilation, start and end.

Java sources live beside the suites that need them; `compile_java` turns a directory of them into
classes under `.build/java/<hash of the sources>/`, once per content, so a second run starts at once
and no stale class survives an edit.

Every process started here writes both its streams to a log file, which is what a failing test
shows.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from compat.jars import LOCK_FILE, REPOSITORY_ROOT, class_path, jars_directory

# RocketMQ was written for Java 8: its mapped files are unmapped through internals that Java 17
# keeps shut unless told otherwise.
MODULE_FLAGS = (
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
)
# C1 alone and the serial collector suit processes that live for seconds on a small machine.
JVM_FLAGS = (
    *MODULE_FLAGS,
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-Xms512m",
    "-Xmx512m",
    "-Dfile.encoding=UTF-8",
)

STOP_TIMEOUT_S = 40
LOG_LINES_SHOWN = 60


class JavaError(Exception):
    """A Java process ended, refused or stopped printing; the text holds the end of its log."""


def java_tools() -> tuple[str, str] | None:
    """Return the paths of `java` and `javac`, or None when the machine lacks either."""
    home = os.environ.get("JAVA_HOME")
    search = str(Path(home) / "bin") if home else None
    java, javac = shutil.which("java", path=search), shutil.which("javac", path=search)
    return (java, javac) if java and javac else None


def _tool(name: str) -> str:
    tools = java_tools()
    if tools is None:
        raise JavaError("java and javac are needed (JDK 17); set JAVA_HOME or put them on PATH")
    return tools[0] if name == "java" else tools[1]


def compile_java(source_directory: Path) -> Path:
    """Compile every source of the directory against the locked jars; return the class directory."""
    sources = sorted(source_directory.glob("*.java"))
    digest = hashlib.sha256()
    for source in sources:
        digest.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    classes = REPOSITORY_ROOT / ".build" / "java" / digest.hexdigest()[:16]
    if classes.is_dir():
        return classes
    classes.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(dir=classes.parent, prefix=".compiling-"))
    try:
        command = [_tool("javac"), "-nowarn", "-encoding", "UTF-8", "-d", str(fresh)]
        command += ["-cp", class_path(jars_directory()), *map(str, sources)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise JavaError(f"javac failed for {source_directory}:\n{done.stderr}")
        try:
            fresh.rename(classes)
        except OSError:  # Another process compiled the same sources first.
            if not classes.is_dir():
                raise
        return classes
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


class JavaProcess:
    """One JVM with one main class of the jars, or of classes compiled from a suite's sources."""

    def __init__(
        self,
        main_class: str,
        arguments: Sequence[str],
        *,
        home: Path,
        log: Path,
        classes: Path | None = None,
        flags: Sequence[str] = (),
        conversing: bool = False,
        lock_file: Path = LOCK_FILE,
    ) -> None:
        path = class_path(jars_directory(lock_file), lock_file)
        if classes is not None:
            path = f"{classes}{os.pathsep}{path}"
        self.main_class = main_class
        self.log = log
        self._log_file: IO[bytes] = log.open("ab")
        # user.home is where RocketMQ would drop its logs and its default store, and what it keeps
        # for its own life (keys, libraries) stays behind when it is killed.
        places = (f"-Duser.home={home}", f"-Djava.io.tmpdir={home}")
        command = [_tool("java"), *JVM_FLAGS, *places, *flags]
        command += ["-cp", path, main_class, *arguments]
        # Its own process group: a Ctrl-C at the test run must not race with the orderly stop.
        self.process = subprocess.Popen(
            command,
            cwd=home,
            stdin=subprocess.PIPE if conversing else subprocess.DEVNULL,
            stdout=subprocess.PIPE if conversing else self._log_file,
            stderr=self._log_file,
            start_new_session=True,
        )

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    def stop(self) -> None:
        """Stop it with SIGTERM, which runs RocketMQ's shutdown hooks, and wait for the end."""
        if self.running:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self.kill()
                raise self.error("did not stop") from None
        self._close()

    def kill(self) -> None:
        """Kill it with SIGKILL; its dirty pages stay with the kernel."""
        if self.running:
            self.process.kill()
        self.process.wait()
        self._close()

    def _close(self) -> None:
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()
        self._log_file.close()

    def error(self, what: str) -> JavaError:
        lines = self.log.read_text(errors="replace").splitlines()[-LOG_LINES_SHOWN:]
        code = self.process.poll()
        state = "still running" if code is None else f"exit code {code}"
        tail = "\n    ".join(lines)
        return JavaError(f"{self.main_class} {what} ({state}); the end of {self.log}:\n    {tail}")

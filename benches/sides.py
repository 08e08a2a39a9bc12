"""The two sides of every benchmark, each a process of its own that prints one JSON line.

    java:   StoreBench.java on the locked RocketMQ 4.9.7 jars, the JVM's usual compilers, 2 GiB heap
    rust:   crates/store/examples/bench.rs, built in release

Both take the same words, so a measurement is one tuple of words given to each side in turn.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from compat import jars
from compat.java_cluster import free_port
from compat.java_machine import MODULE_FLAGS, compile_java, java_tools

REPOSITORY_ROOT = Path(__file__).resolve().parent.parent
PEERS = Path(__file__).resolve().parent / "peers"
HEAP = "2g"

Figures = Mapping[str, float]


class BenchError(Exception):
    """A side could not be built or did not deliver its figures."""


@dataclass
class Side:
    """A command that takes the words of a measurement and prints its figures."""

    name: str
    command: list[str]
    commands_run: list[str] = field(default_factory=list)

    def run(self, *words: str) -> Figures:
        command = [*self.command, *words]
        self.commands_run.append(shlex.join(command))
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
        if done.returncode or not lines:
            raise BenchError(
                f"{self.name} {shlex.join(words)} failed ({done.returncode}):\n"
                f"{done.stdout[-2000:]}{done.stderr[-4000:]}"
            )
        figures: Figures = json.loads(lines[-1])
        return figures


@dataclass
class JavaSide(Side):
    def run(self, *words: str) -> Figures:
        # The Java store opens a replication port whether or not anybody wants to replicate.
        return super().run(*words, "--ha-port", str(free_port()))


def rust_side() -> Side:
    command = ["cargo", "build", "--release", "--locked", "--quiet"]
    command += ["-p", "orbitmq-store", "--example", "bench"]
    if subprocess.run(command, cwd=REPOSITORY_ROOT, check=False).returncode:
        raise BenchError("the Rust side does not build")
    target = Path(os.environ.get("CARGO_TARGET_DIR", REPOSITORY_ROOT / "target"))
    return Side("rust", [str(target / "release" / "examples" / "bench")])


def java_side() -> Side:
    tools = java_tools()
    if tools is None:
        raise BenchError("java and javac (JDK 17) are needed to measure Apache RocketMQ 4.9.7")
    directory = jars.fetch()
    classes = compile_java(PEERS)
    command = [tools[0], *MODULE_FLAGS, f"-Xms{HEAP}", f"-Xmx{HEAP}"]
    command += [f"-Dlogback.configurationFile={PEERS / 'logback.xml'}"]
    command += ["-cp", f"{classes}{os.pathsep}{jars.class_path(directory)}", "StoreBench"]
    return JavaSide("java", command)

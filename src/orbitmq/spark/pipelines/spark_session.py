"""The Spark session of a pipeline that is run by the command.

From a program one uses a session of one's own; this is for ``orbitmq pipeline``. Settings, later
ones win: what suits a command (no console bars, few words, secrets struck out of plans), those that
are safe and matter for messages (`orbitmq.spark.session`), and the file's own.

Spark is a process of its own with processes of its own, and who stops the command, a terminal or a
service manager, sends the signal to all of them. Only this process shall act on it: a stream can
finish its batch as long as the others live. They end when this one does, however it ends, as their
standard input ends with it.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen
from typing import TYPE_CHECKING, Any, Final

from orbitmq.errors import ConfigError
from orbitmq.spark.pipelines.failures import one_line
from orbitmq.spark.pipelines.spec import local_path
from orbitmq.spark.session import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from orbitmq.spark.pipelines.spec import Loaded

__all__ = ["has_local_checkpoints", "make_active", "open_session"]

SECRETS_IN_PLANS: Final = (
    "(?i)secret|token|passw|passphrase|credential|url|(access|account|api|private)[._]?key"
)
ZONE: Final = "spark.sql.session.timeZone"
POLL_S: Final = 0.1


def open_session(
    loaded: Loaded,
    stopping: threading.Event,
    *,
    master: str | None = None,
    quiet: bool = True,
    say: Callable[[str], object] = str,
) -> SparkSession | None:
    """Start Spark for a pipeline; `say` hears which settings were added to the file's.

    Once `stopping` is set, Spark is told to end and nothing is returned.
    """
    _quieten_loggers()
    # Workers on this machine must be this interpreter, with the packages it has.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spec = loaded.spec
    master = master or spec.spark.master or "local[*]"
    if master.startswith("local"):
        # Nobody from outside has a driver's business here, and looking for an address takes time.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    settings = {
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.redaction.options.regex": SECRETS_IN_PLANS,
        "spark.redaction.regex": SECRETS_IN_PLANS,
        # What a pipeline computes does not depend on where it runs.
        ZONE: "UTC",
        # Figures of a stream that has nothing to do are shown so soon, and asked for so often.
        "spark.sql.streaming.noDataProgressEventInterval": "2s",
    }
    if quiet:
        settings["spark.log.level"] = "FATAL"  # what fails is told in one line
    try:
        # On the main thread Spark would put a handler of its own in place of ours for Ctrl-C.
        with _jvm_without_signals() as machines, ThreadPoolExecutor(1) as thread:
            opening = thread.submit(
                session,
                f"orbitmq-{spec.name}",
                master=master,
                settings=settings | spec.spark.conf,
                local_checkpoints=has_local_checkpoints(spec),
                say=say,
            )
            while not wait([opening], POLL_S).done:
                if stopping.is_set():
                    for machine in machines:
                        _end(machine)
        if stopping.is_set():
            return None
        made = opening.result()
        make_active(made)
        if ZONE not in spec.spark.conf and made.conf.get(ZONE) == "UTC":
            say(f"set {ZONE}=UTC: days and hours are the same wherever a pipeline runs")
        return made
    except Exception as error:  # py4j hands on whatever the JVM throws
        raise ConfigError(f"Spark does not start: {one_line(error)}") from error


def has_local_checkpoints(spec: Any) -> bool:
    """Whether a pipeline keeps its checkpoints on a local disk; an archive's may be in its path."""
    place = getattr(spec, "checkpoint", None) or getattr(spec, "path", None) or ""
    try:
        local_path(place, Path())
    except ValueError:
        return False
    return True


def make_active(spark: SparkSession) -> None:
    """Make a session that of this thread.

    It is active on the thread that has made it alone, and planning and writers ask for the active
    one.
    """
    spark._get_j_spark_session_class(spark._jvm).setActiveSession(spark._jsparkSession)


@contextmanager
def _jvm_without_signals() -> Iterator[list[Popen[bytes]]]:
    """Have Java machines started meanwhile hear neither SIGTERM nor Ctrl-C; yields those started.

    Spark itself sees to Ctrl-C only. A machine that was started with SIGTERM ignored keeps to that;
    its Python workers do not, but none of them changes what is blocked. A process group of its own
    would be no shelter: a service manager signals every process, whatever its group.
    """
    from pyspark import java_gateway

    started: list[Popen[bytes]] = []

    def start(
        command: list[str], *, preexec_fn: Callable[[], object] | None = None, **options: Any
    ) -> Popen[bytes]:
        def become_deaf() -> None:
            if preexec_fn is not None:
                preexec_fn()
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})

        machine: Popen[bytes] = Popen(command, preexec_fn=become_deaf, **options)
        started.append(machine)
        return machine

    java_gateway.Popen = start  # type: ignore[attr-defined,assignment]
    try:
        yield started
    finally:
        java_gateway.Popen = Popen  # type: ignore[attr-defined]


def _end(machine: Popen[bytes]) -> None:
    """End a Java machine that is starting, harmless if done again."""
    from pyspark import SparkContext

    # How py4j finds out is nobody's concern; some of it tells the root logger, nobody else does.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.getLogger().disabled = True
    if SparkContext._gateway is None:
        machine.kill()  # nobody reads its input yet, and there is nothing to tidy up
    elif machine.stdin is not None:
        machine.stdin.close()  # it removes its directories and ends


def _quieten_loggers() -> None:
    from pyspark.logger import PySparkLogger

    # How Python talks to the JVM is nobody's concern.
    logging.getLogger("py4j").setLevel(logging.WARNING)
    # They write to stderr past our log, secrets and all, what is told in one line anyway.
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True

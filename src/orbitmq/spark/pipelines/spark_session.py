"""Spark session of the command ``orbitmq pipeline``.

A program uses a session of its own instead. The settings come from three places. Later places take
precedence:

1. settings that suit a command: no console bars, few log lines, secrets struck out of plans;
2. safe settings that matter for messages (`orbitmq.spark.session`);
3. the settings of the file.

Spark is a separate process with child processes. A terminal or a service manager that stops the
command sends the signal to all of these processes. Only this process may act on the signal, because
a stream can finish its batch only while the other processes run. The other processes end with this
process in every case, because their standard input then ends.
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
    """Start Spark for a pipeline; pass each setting that is not from the file to `say`.

    If `stopping` is set during the start, end Spark and return None.
    """
    _quieten_loggers()
    # Workers on this machine must use this interpreter, because it has the installed packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spec = loaded.spec
    master = master or spec.spark.master or "local[*]"
    if master.startswith("local"):
        # No other machine connects to this driver, and the search for an address takes time.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    settings = {
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.redaction.options.regex": SECRETS_IN_PLANS,
        "spark.redaction.regex": SECRETS_IN_PLANS,
        # The results of a pipeline must not depend on the machine.
        ZONE: "UTC",
        # Delay before the figures of an idle stream are shown, and the interval of their updates.
        "spark.sql.streaming.noDataProgressEventInterval": "2s",
    }
    if quiet:
        settings["spark.log.level"] = "FATAL"  # failures are reported in one line
    try:
        # On the main thread, Spark would replace our handler for Ctrl-C.
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
    except Exception as error:  # py4j passes on any exception of the JVM
        raise ConfigError(f"Spark does not start: {one_line(error)}") from error


def has_local_checkpoints(spec: Any) -> bool:
    """Return True if a pipeline's checkpoints are on a local disk.

    The checkpoint of an archive may be inside the archive's path.
    """
    place = getattr(spec, "checkpoint", None) or getattr(spec, "path", None) or ""
    try:
        local_path(place, Path())
    except ValueError:
        return False
    return True


def make_active(spark: SparkSession) -> None:
    """Make a session the active session of this thread.

    A session is active only on the thread that created it, but planning and writers use the active
    session.
    """
    spark._get_j_spark_session_class(spark._jvm).setActiveSession(spark._jsparkSession)


@contextmanager
def _jvm_without_signals() -> Iterator[list[Popen[bytes]]]:
    """Start JVMs so that SIGTERM and Ctrl-C do not end them; yield the list of started JVMs.

    Spark itself protects its JVM from Ctrl-C only. A JVM that starts with SIGTERM ignored continues
    to ignore it. Its Python workers do not, but no process changes which signals are blocked. Both
    signals are therefore also blocked. A separate process group would not help, because a service
    manager signals every process, whatever its group.
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
    """End a JVM that is starting; a repeated call does no harm."""
    from pyspark import SparkContext

    # Errors of py4j about the lost connection are expected here. Some parts of py4j use the root
    # logger, which no other module uses.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.getLogger().disabled = True
    if SparkContext._gateway is None:
        machine.kill()  # it does not read its input yet and has no files to remove
    elif machine.stdin is not None:
        machine.stdin.close()  # the JVM removes its directories and ends


def _quieten_loggers() -> None:
    from pyspark.logger import PySparkLogger

    # Messages about the connection between Python and JVM do not help users.
    logging.getLogger("py4j").setLevel(logging.WARNING)
    # These loggers write failures to stderr, with secrets, although one line reports them anyway.
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True

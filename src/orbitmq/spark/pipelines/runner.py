"""Runner of a pipeline: plan, start, watch, stop, and an exit code.

The order matters. The file is checked and the session is open. The runner first plans *all*
queries; Spark then finds tables, columns and options that do not exist. Only then the first query
starts. After that, three things can happen:

- All queries end by themselves (trigger ``available-now``), or the job returns: the run is done.
- A query fails: the other queries are stopped, and one line gives the cause.
- A signal arrives: each stream may finish its current batch, for at most `STOP_LIMIT_S`. A sink
  that is not exactly once therefore repeats nothing after the restart. A job is cancelled. A second
  signal ends the process at once. After a signal before the start, no query starts.

The main thread only waits; py4j lets signal handlers run meanwhile.
"""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from enum import IntEnum
from typing import TYPE_CHECKING, Protocol

from orbitmq.errors import BadPipeline, OrbitError
from orbitmq.spark.pipelines.failures import one_line
from orbitmq.spark.pipelines.plan import Job, Report, Streams, Workspace
from orbitmq.spark.pipelines.progress import BatchProgress, Listener
from orbitmq.spark.pipelines.spark_session import make_active
from orbitmq.spark.pipelines.spec import find_kind
from orbitmq.spark.pipelines.undecoded import undecoded_note
from orbitmq.spark.progress_commits import report_last

if TYPE_CHECKING:
    from types import FrameType

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from orbitmq.spark.pipelines.spec import Loaded

__all__ = ["Display", "Exit", "build", "run", "run_plan", "stop_signals"]

STOP_LIMIT_S = 30.0
POLL_S = 0.2
EVENTS_LIMIT_S = 5.0

_log = logging.getLogger("orbitmq.pipeline")


class Exit(IntEnum):
    """Exit code of a run, for scripts."""

    DONE = 0
    """Done, or an endless stream was stopped by a signal."""
    FAILED = 1
    """The run failed after its start."""
    NOT_STARTED = 2
    """The file, the command line or the installation is wrong; no query was started."""
    FAULTS = 3
    """The run is complete, and its report has faults."""
    INTERRUPTED = 4
    """A signal ended the run before it was done."""


class Display(Protocol):
    """Output of a run: progress, messages and reports."""

    def progress(self, progress: BatchProgress) -> None:
        """Show a micro-batch; called from Spark's listener thread."""

    def say(self, text: str) -> None:
        """Show a line for people."""

    def report(self, report: Report) -> None:
        """Show a report."""

    def failed(self, text: str) -> None:
        """Show why the run failed."""


def build(loaded: Loaded, workspace: Workspace) -> Streams | Job:
    """Plan a pipeline on the workspace's session without starting a query."""
    kind = find_kind(loaded.spec.kind)
    assert kind is not None, "the spec was made from it"
    with workspace.planning(""):
        return kind.build(loaded.spec, workspace)


def run(
    loaded: Loaded,
    spark: SparkSession,
    display: Display,
    *,
    once: bool = False,
    stopping: threading.Event | None = None,
) -> Exit:
    """Build a checked pipeline on a session and run it to its end.

    `stopping` is the event that the caller's signal handlers set. Without it, this function
    installs handlers for the time of the run.
    """
    try:
        with stop_signals() if stopping is None else nullcontext(stopping) as event:
            workspace = Workspace(
                spark, loaded.directory, file=loaded.file.name, once=once, stopping=event
            )
            plan = build(loaded, workspace)
            if event.is_set():
                display.say("stopped before the start")
                return Exit.INTERRUPTED
            return run_plan(plan, workspace, display)
    except BadPipeline as error:
        for line in error.mistakes:
            display.failed(loaded.secrets.strike_out(line))
        return Exit.NOT_STARTED
    except OrbitError as error:
        display.failed(loaded.secrets.strike_out(str(error)))
        return Exit.FAILED


def run_plan(plan: Streams | Job, workspace: Workspace, display: Display) -> Exit:
    """Run a plan to its end and return the exit code."""
    if isinstance(plan, Job):
        return _run_job(plan.run, workspace, display)
    ended = _run_streams(plan, workspace, display)
    if ended is Exit.DONE and plan.report is not None and not workspace.stopping.is_set():
        return _run_job(plan.report, workspace, display)
    return ended


def _run_streams(plan: Streams, workspace: Workspace, display: Display) -> Exit:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    listener = Listener(display.progress)
    workspace.spark.streams.addListener(listener)
    queries: list[StreamingQuery] = []
    failures: list[PySparkException | Py4JError]
    try:
        for stream in plan.streams:
            queries.append(stream.start())
            display.say(f"{stream.name} started")
        while any(query.isActive for query in queries):
            _show_idle(queries, listener)
            if workspace.stopping.wait(POLL_S):
                display.say("stopping: each stream finishes the batch it is in")
                _stop_after_batch(queries, listener)
                break
            if any(query.exception() is not None for query in queries if not query.isActive):
                break
        failures = [error for query in queries if (error := query.exception()) is not None]
    except (PySparkException, Py4JError) as error:
        failures = [error]
    finally:
        for query in queries:
            query.stop()
        for query in queries:
            listener.wait_ended(str(query.runId), EVENTS_LIMIT_S)
        workspace.spark.streams.removeListener(listener)
    for query in queries:
        for options in workspace.sources:
            report_last(query.lastProgress, options)
    for failure in failures:
        display.failed(one_line(failure))
        _log.debug("pipeline failed: query error; traceback follows", exc_info=failure)
    if undecoded := listener.undecoded:
        notes = tuple(undecoded_note(name, count) for name, count in undecoded.items() if count)
        display.report(Report(notes=notes, facts={"undecoded": undecoded}))
    if failures:
        return Exit.FAILED if queries else Exit.NOT_STARTED
    if workspace.stopping.is_set() and not plan.endless:
        return Exit.INTERRUPTED
    return Exit.DONE


def _show_idle(queries: list[StreamingQuery], listener: Listener) -> None:
    for query in queries:
        run_id = str(query.runId)
        if listener.is_idle(run_id) and (progress := query.lastProgress) is not None:
            listener.show_idle(run_id, progress.json)


def _stop_after_batch(queries: list[StreamingQuery], listener: Listener) -> None:
    """Stop each query between two batches; the caller stops queries that exceed the limit."""
    limit = time.monotonic() + STOP_LIMIT_S
    running = [(query, str(query.runId), listener.batches(str(query.runId))) for query in queries]

    def is_in_batch(query: StreamingQuery, run_id: str, before: int) -> bool:
        if not (query.isActive and query.status["isTriggerActive"]):
            return False
        return listener.batches(run_id) == before

    while running and time.monotonic() < limit:
        for each in [*running]:
            if not is_in_batch(*each):
                each[0].stop()
                running.remove(each)
        if running:
            _, run_id, before = running[0]
            listener.wait_batch(run_id, before, POLL_S)


def _run_job(work: Callable[[], Report], workspace: Workspace, display: Display) -> Exit:
    """Run a job on its own thread, so that the main thread can handle signals and cancel it."""
    from pyspark import InheritableThread

    outcome: list[Report | BaseException] = []
    context = workspace.spark.sparkContext
    group = f"orbitmq-{id(outcome):x}"

    def target() -> None:
        make_active(workspace.spark)
        context.setJobGroup(group, "an OrbitMQ pipeline", interruptOnCancel=True)
        try:
            outcome.append(work())
        except BaseException as error:
            outcome.append(error)

    thread = InheritableThread(target=target, name="orbitmq-pipeline-job", daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(POLL_S)
        if workspace.stopping.is_set():
            context.cancelJobGroup(group)
    (result,) = outcome
    if isinstance(result, Report):
        display.report(result)
        if workspace.stopping.is_set():
            return Exit.INTERRUPTED
        return Exit.FAULTS if result.faults else Exit.DONE
    if workspace.stopping.is_set():
        display.say("stopped before the end")
        return Exit.INTERRUPTED
    if isinstance(result, BadPipeline):
        raise result
    display.failed(one_line(result))
    _log.debug("pipeline failed: job error; traceback follows", exc_info=result)
    return Exit.FAILED


@contextmanager
def stop_signals() -> Iterator[threading.Event]:
    """Yield an event that SIGTERM and Ctrl-C set; a second signal ends the process."""
    stopping = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stopping
        return
    kept = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def let_next_end_process() -> None:
        for number in kept:
            signal.signal(number, signal.SIG_DFL)

    def handle(_number: int, _frame: FrameType | None) -> None:
        stopping.set()
        let_next_end_process()

    for number in kept:
        signal.signal(number, handle)
    try:
        yield stopping
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)

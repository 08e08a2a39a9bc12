"""``orbitmq pipeline``: run, check and begin data pipelines on Spark.

Nothing here imports Spark before it is known that the command line makes sense; if it is not
installed, that is one line.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from orbitmq.errors import BadPipeline, OrbitError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from orbitmq.spark.pipelines.spec import Loaded

__all__ = ["pipeline"]

EXTRA = frozenset({"pyspark", "pyarrow", "fastavro", "pandas", "yaml", "grpc", "py4j"})
NOT_STARTED = 2

FILE = click.argument("file", type=click.Path(path_type=Path))
OUTPUT = click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="What stdout gets; with json the log on stderr is JSON lines, too.",
)
MASTER = click.option("--master", metavar="URL", help="Spark's master, local[*] unless configured.")


@click.group(short_help="Run data pipelines between topics and tables on Spark")
def pipeline() -> None:
    """Data pipelines on Spark, each declared in one TOML or YAML file.

    \b
    Exit codes: 0 done, or a stream stopped by a signal; 1 failed; 2 nothing was started, as the
    file or the command line is wrong or Spark is missing; 3 done, but what was looked at is not in
    order; 4 ended by a signal before it was done.
    """


@pipeline.command("run", short_help="Run a pipeline until it is done or stopped")
@FILE
@MASTER
@click.option("--once", is_flag=True, help="Take what is there now, and end.")
@OUTPUT
@click.pass_obj
def run_command(verbosity: int, file: Path, master: str | None, once: bool, output: str) -> None:
    """Run a pipeline until it is done, or until SIGTERM or Ctrl-C.

    Everything is checked and planned before the first query starts. The first signal lets each
    stream finish the batch it is in, a second one ends the process.

    \b
    Examples:
      orbitmq pipeline run orders.toml
      orbitmq pipeline run orders.toml --once --output json
      orbitmq pipeline run orders.toml --master spark://10.0.0.1:7077
    """
    with spark_is_there():
        loaded = load(file)
        from orbitmq.cli.pipeline_output import display_for
        from orbitmq.spark.pipelines.runner import Exit, run, stop_signals
        from orbitmq.spark.pipelines.spark_session import open_session

        with (
            display_for(output, loaded.secrets, verbosity) as display,
            stop_signals() as stopping,
        ):
            say = logging.getLogger("orbitmq.pipeline").info
            try:
                spark = open_session(loaded, stopping, master=master, quiet=verbosity < 1, say=say)
            except OrbitError as error:
                display.failed(str(error))
                sys.exit(NOT_STARTED)
            if spark is None:
                display.say("stopped before the start")
                display.ended(Exit.INTERRUPTED)
                sys.exit(Exit.INTERRUPTED)
            try:
                code = run(loaded, spark, display, once=once, stopping=stopping)
                display.ended(code)
            finally:
                _stop(spark)
    sys.exit(code)


@pipeline.command("check", short_help="Check a pipeline's file")
@FILE
@MASTER
@click.option("--plan", is_flag=True, help="Start Spark and plan every query, too.")
@OUTPUT
@click.pass_obj
def check_command(verbosity: int, file: Path, master: str | None, plan: bool, output: str) -> None:
    """Check a pipeline's file; prints its mistakes, each in one line, and ends with code 2.

    Without --plan only the file itself is read. With it Spark is started and every query is
    planned, which finds topics, tables and columns that are not there.

    \b
    Examples:
      orbitmq pipeline check orders.toml
      orbitmq pipeline check orders.toml --plan
    """
    with spark_is_there():
        loaded = load(file)
        if plan:
            plan_all(loaded, master, verbosity)
        from orbitmq.cli.pipeline_output import print_spec

        print_spec(loaded, output)


@pipeline.command("init", short_help="Write a declarative project to begin with")
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
@click.option("--topic", default="orders", show_default=True, help="The topic to read.")
@click.option(
    "--to", "target", default="large-orders", show_default=True, help="The topic to write."
)
@click.option(
    "-n",
    "--namesrv",
    "name_server",
    envvar="NAMESRV_ADDR",
    default="127.0.0.1:9876",
    show_default=True,
    metavar="ADDRS",
    help="Nameservers, host:port;host:port.",
)
def init_command(directory: Path, topic: str, target: str, name_server: str) -> None:
    """Write a project for Spark's own declarative pipelines.

    It has a streaming table from a topic, a materialised view on it and a sink to a topic, and is
    run by `spark-pipelines`; its README.md says how.

    \b
    Examples:
      orbitmq pipeline init my-project
      orbitmq pipeline init my-project --topic payments --to large-payments
    """
    from orbitmq.spark.pipelines.declarative import write_project

    try:
        files = write_project(directory, topic=topic, target=target, name_server=name_server)
    except OrbitError as error:
        raise click.ClickException(str(error)) from error
    for file in files:
        click.echo(file)


@contextmanager
def spark_is_there() -> Iterator[None]:
    """Say in one line that the extra is missing, if it is."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in EXTRA:
            raise
        click.echo(
            f"Error: pipelines need {error.name}, which is not installed: "
            "install OrbitMQ's wheel with its extra, pip install 'WHEEL[spark]'",
            err=True,
        )
        sys.exit(NOT_STARTED)


def load(file: Path) -> Loaded:
    """Load a file, or print its mistakes and end."""
    from orbitmq.spark.pipelines.spec import load as load_spec

    try:
        return load_spec(file, os.environ)
    except BadPipeline as error:
        fail(error)


def plan_all(loaded: Loaded, master: str | None, verbosity: int) -> None:
    """Start Spark and plan every query, or print what is wrong and end."""
    from orbitmq.spark.pipelines.plan import Workspace
    from orbitmq.spark.pipelines.runner import Exit, build, stop_signals
    from orbitmq.spark.pipelines.spark_session import open_session

    with stop_signals() as stopping:
        try:
            spark = open_session(loaded, stopping, master=master, quiet=verbosity < 1)
        except OrbitError as error:
            click.echo(loaded.secrets.strike_out(f"Error: {error}"), err=True)
            sys.exit(NOT_STARTED)
        if spark is not None:
            try:
                build(loaded, Workspace(spark, loaded.directory, file=loaded.file.name))
            except BadPipeline as error:
                fail(error, loaded)
            finally:
                _stop(spark)
        if stopping.is_set():
            click.echo("stopped before the end", err=True)
            sys.exit(Exit.INTERRUPTED)


def fail(error: BadPipeline, loaded: Loaded | None = None) -> NoReturn:
    """Print mistakes and end."""
    for line in error.mistakes:
        click.echo(loaded.secrets.strike_out(line) if loaded else line, err=True)
    sys.exit(NOT_STARTED)


def _stop(spark: SparkSession) -> None:
    """Stop Spark; what it has to say about being stopped is nobody's concern."""
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    spark.stop()

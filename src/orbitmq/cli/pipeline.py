"""``orbitmq pipeline``: runs, checks and creates data pipelines on Spark.

Spark is imported only after the command line was parsed. If it is not installed, the command
prints one line.
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
    help="Format of stdout; with json the log on stderr is JSON lines as well.",
)
MASTER = click.option(
    "--master", metavar="URL", help="URL of Spark's master. [default: as configured, or local[*]]"
)


@click.group(short_help="Run data pipelines between topics and tables on Spark")
def pipeline() -> None:
    """Data pipelines on Spark, each declared in one TOML or YAML file.

    \b
    Exit codes: 0 done, or a stream stopped by a signal; 1 failed; 2 nothing was started, because
    the file or the command line is wrong or Spark is missing; 3 done, but the checked data is not
    in order; 4 ended by a signal before it was done.
    """


@pipeline.command("run", short_help="Run a pipeline until it is done or stopped")
@FILE
@MASTER
@click.option("--once", is_flag=True, help="Process the messages present now, then end.")
@OUTPUT
@click.pass_obj
def run_command(verbosity: int, file: Path, master: str | None, once: bool, output: str) -> None:
    """Run a pipeline until it is done, or until SIGTERM or Ctrl-C.

    The file is checked and all queries are planned before the first one starts. After the first
    signal each stream finishes its current batch; a second signal ends the process.

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
@click.option("--plan", is_flag=True, help="Also start Spark and plan every query.")
@OUTPUT
@click.pass_obj
def check_command(verbosity: int, file: Path, master: str | None, plan: bool, output: str) -> None:
    """Check a pipeline's file; print each mistake in one line and end with code 2 if there is one.

    Without --plan only the file is read. With --plan Spark is started and every query is planned,
    which finds missing topics, tables and columns.

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


@pipeline.command("init", short_help="Create a project for Spark's declarative pipelines")
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
@click.option("--topic", default="orders", show_default=True, help="Topic that the project reads.")
@click.option(
    "--to",
    "target",
    default="large-orders",
    show_default=True,
    help="Topic that the project writes.",
)
@click.option(
    "-n",
    "--namesrv",
    "name_server",
    envvar="NAMESRV_ADDR",
    default="127.0.0.1:9876",
    show_default=True,
    metavar="ADDRS",
    help="Addresses of the nameservers, host:port;host:port.",
)
def init_command(directory: Path, topic: str, target: str, name_server: str) -> None:
    """Create a project for Spark's own declarative pipelines.

    The project has a streaming table from a topic, a materialised view on it and a sink to a topic.
    `spark-pipelines` runs the project; its README.md describes how.

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
    """Turn a missing Spark module into one line on stderr and code 2."""
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
    """Load a pipeline's file, or print its mistakes and end."""
    from orbitmq.spark.pipelines.spec import load as load_spec

    try:
        return load_spec(file, os.environ)
    except BadPipeline as error:
        fail(error)


def plan_all(loaded: Loaded, master: str | None, verbosity: int) -> None:
    """Start Spark and plan every query, or print the errors and end."""
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
    """Print the mistakes of a file and end with code 2."""
    for line in error.mistakes:
        click.echo(loaded.secrets.strike_out(line) if loaded else line, err=True)
    sys.exit(NOT_STARTED)


def _stop(spark: SparkSession) -> None:
    """Stop Spark, without the errors that py4j logs meanwhile."""
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    spark.stop()

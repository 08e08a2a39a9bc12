"""The Spark session of a pipeline that is run by the command.

From a program one uses a session of one's own; this is for ``orbitmq pipeline``. Settings, later
ones win: what suits a command (no console bars, few words), those that are safe and matter for
messages, those the kind of pipeline needs, and the file's own.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from orbitmq.errors import ConfigError
from orbitmq.spark.pipelines.failures import one_line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from orbitmq.spark.pipelines.spec import Loaded

__all__ = ["open_session"]

SECRETS_IN_PLANS = "(?i)secret|token|password|accesskey|credential|url"


def open_session(
    loaded: Loaded, *, master: str | None = None, quiet: bool = True
) -> tuple[SparkSession, list[str]]:
    """Start Spark for a pipeline; returns the session and what was set, in words."""
    from pyspark.sql import SparkSession

    from orbitmq.spark import register

    # Workers on this machine must be this interpreter, with the packages it has.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spec = loaded.spec
    builder: Any = SparkSession.builder.appName(f"orbitmq-{spec.name}")
    builder = builder.master(master or spec.spark.master or "local[*]")
    settings = {
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.redaction.options.regex": SECRETS_IN_PLANS,
        "spark.redaction.regex": SECRETS_IN_PLANS,
        "spark.sql.session.timeZone": "UTC",
    }
    if quiet:
        settings["spark.log.level"] = "ERROR"
    settings |= spec.spark.conf
    for key, value in settings.items():
        builder = builder.config(key, value)
    try:
        spark: SparkSession = builder.getOrCreate()
    except Exception as error:  # py4j hands on whatever the JVM throws
        raise ConfigError(f"Spark does not start: {one_line(error)}") from error
    register(spark)
    shown = loaded.secrets.shown(settings)
    return spark, [f"{key}={shown[key]}" for key in sorted(settings)]

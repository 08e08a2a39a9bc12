"""The Spark session of a pipeline that is run by the command.

From a program one uses a session of one's own; this is for ``orbitmq pipeline``. Settings, later
ones win: what suits a command (no console bars, few words, secrets struck out of plans), those that
are safe and matter for messages (`orbitmq.spark.session`), and the file's own.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from orbitmq.errors import ConfigError
from orbitmq.spark.pipelines.failures import one_line
from orbitmq.spark.session import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from orbitmq.spark.pipelines.spec import Loaded

__all__ = ["open_session"]

SECRETS_IN_PLANS: Final = (
    "(?i)secret|token|passw|passphrase|credential|url|(access|account|api|private)[._]?key"
)
ZONE: Final = "spark.sql.session.timeZone"


def open_session(
    loaded: Loaded,
    *,
    master: str | None = None,
    quiet: bool = True,
    say: Callable[[str], object] = str,
) -> SparkSession:
    """Start Spark for a pipeline; `say` hears which settings were added to the file's."""
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
    }
    if quiet:
        settings["spark.log.level"] = "FATAL"  # what fails is told in one line
    try:
        made = session(
            f"orbitmq-{spec.name}",
            master=master,
            settings=settings | spec.spark.conf,
            say=say,
        )
        if ZONE not in spec.spark.conf and made.conf.get(ZONE) == "UTC":
            say(f"set {ZONE}=UTC: days and hours are the same wherever a pipeline runs")
        return made
    except Exception as error:  # py4j hands on whatever the JVM throws
        raise ConfigError(f"Spark does not start: {one_line(error)}") from error

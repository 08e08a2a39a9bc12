"""Spark's switch for filters that Python sources take over, and what to say while it is off.

Spark refuses a reader that takes filters while the switch is off, in words about that reader. The
switch is known to its planner alone, in whose process readers are made, so the planner is asked.
"""

from __future__ import annotations

import os
import sys

from orbitmq.errors import ConfigError

__all__ = ["check_switch"]

SWITCH = "spark.sql.python.filterPushdown.enabled"
PLANNER = "pyspark.sql.worker.plan_data_source_read"


def check_switch() -> None:
    """Raise while Spark's switch is off, if this is the planner that knows of it."""
    frame = sys._getframe().f_back
    while frame is not None and frame.f_globals.get("__name__") != PLANNER:
        frame = frame.f_back
    if frame is None or frame.f_locals.get("enable_pushdown", True):
        return
    # A planner that fails ends, and the error is all that there is to say.
    os.environ["SPARK_HIDE_TRACEBACK"] = "1"
    raise ConfigError(f"option pushFilters needs the setting {SWITCH}=true of the Spark session")

"""Check of Spark's setting that lets Python sources take over filters.

While the setting is off, Spark rejects a reader that takes filters, with an error text about that
reader. Only Spark's planner has the value of the setting. Readers are created in the planner's
process, so `check_switch` reads the value from the planner's stack frame.
"""

from __future__ import annotations

import os
import sys

from orbitmq.errors import ConfigError

__all__ = ["check_switch"]

SWITCH = "spark.sql.python.filterPushdown.enabled"
PLANNER = "pyspark.sql.worker.plan_data_source_read"


def check_switch() -> None:
    """Raise `ConfigError` if the caller is Spark's planner and the setting is off."""
    frame = sys._getframe().f_back
    while frame is not None and frame.f_globals.get("__name__") != PLANNER:
        frame = frame.f_back
    if frame is None or frame.f_locals.get("enable_pushdown", True):
        return
    # A planner that fails ends; the error text suffices, so Spark prints no traceback.
    os.environ["SPARK_HIDE_TRACEBACK"] = "1"
    raise ConfigError(f"option pushFilters needs the setting {SWITCH}=true of the Spark session")

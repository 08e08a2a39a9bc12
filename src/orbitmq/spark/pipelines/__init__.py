"""Pipelines: Spark jobs that read messages and write results, each declared in one file.

``orbitmq pipeline run FILE`` runs a pipeline. A program does the same on its own session::

    from orbitmq.spark import pipelines

    loaded = pipelines.load("orders.toml")              # BadPipeline lists the mistakes
    plan = pipelines.build(loaded, pipelines.Workspace(spark, loaded.directory))

The building blocks are functions from DataFrame to DataFrame, for `DataFrame.transform`:
`decoding.decode`, `topics.as_messages`, `dead_letters.explained`, `trace.events` and so on.
"""

from __future__ import annotations

from orbitmq.spark.pipelines.plan import Job, Report, Stream, Streams, Table, Trigger, Workspace
from orbitmq.spark.pipelines.runner import Exit, build, run, run_plan
from orbitmq.spark.pipelines.spec import (
    Kind,
    Loaded,
    PipelineSpec,
    kind_names,
    load,
    parse,
    register_kind,
)
from orbitmq.spark.pipelines.tables import Mistakes

__all__ = [
    "Exit",
    "Job",
    "Kind",
    "Loaded",
    "Mistakes",
    "PipelineSpec",
    "Report",
    "Stream",
    "Streams",
    "Table",
    "Trigger",
    "Workspace",
    "build",
    "kind_names",
    "load",
    "parse",
    "register_kind",
    "run",
    "run_plan",
]

"""``orbitmq pipeline init``: an example project for Spark's own declarative pipelines.

The project has three datasets, like the tutorials of Spark: a streaming table of the messages of a
topic, a materialised view of the table, and a sink that sends some rows to another topic.
``spark-pipelines run`` brings all datasets up to date and ends. The next run continues at the
positions of the last run.

Spark runs such projects through Spark Connect. Its server finds the format ``rocketmq`` without a
setting, because it looks for installed modules called ``pyspark_…``. Tables need a catalog that
outlives the run. The project therefore uses Hive's catalog, in files of the project directory.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from string import Template
from typing import Final

from orbitmq.errors import ConfigError
from orbitmq.protocol.names import topic_name_fault

__all__ = ["write_project"]

_SPEC: Final = """\
# Run with ./run, see README.md.
name: $yaml_name
storage: $yaml_storage
libraries:
  - glob:
      include: transformations/**
configuration:
  spark.sql.session.timeZone: "UTC"
  spark.sql.shuffle.partitions: "4"
"""

_ORDERS: Final = '''\
"""A streaming table: every order of the topic, once."""

import os

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

SCHEMA = "id STRING, product STRING, amount DOUBLE"
spark = SparkSession.active()


@dp.table
def orders() -> DataFrame:
    messages = (
        spark.readStream.format("rocketmq")
        .option("nameServer", os.environ.get("NAMESRV_ADDR", $name_server))
        .option("subscribe", $python_topic)
        .option("startingOffsets", "earliest")
        .load()
    )
    order = F.from_json(F.col("body").cast("string"), SCHEMA)
    return messages.select(order.alias("o"), "storeTimestamp").select("o.*", "storeTimestamp")
'''

_VIEW: Final = """\
-- A materialised view: computed anew from the table with every run.
CREATE MATERIALIZED VIEW orders_by_product AS
SELECT product, count(*) AS orders, sum(amount) AS amount
FROM orders
GROUP BY product
"""

_SINK: Final = '''\
"""A sink: large orders go on to a topic of their own."""

import os

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

spark = SparkSession.active()

dp.create_sink(
    "large_orders",
    "rocketmq",
    {
        "nameServer": os.environ.get("NAMESRV_ADDR", $name_server),
        "topic": $python_target,
    },
)


@dp.append_flow(target="large_orders")
def send_large_orders() -> DataFrame:
    large = spark.readStream.table("orders").where("amount >= 100")
    return large.select(
        F.array("id").alias("keys"),
        F.to_json(F.struct("id", "product", "amount")).cast("binary").alias("body"),
    )
'''

_SETTINGS: Final = """\
# What a Spark must know before it starts; ./run points to this directory.
spark.sql.catalogImplementation  hive
spark.sql.warehouse.dir          file://$directory/warehouse
spark.hadoop.javax.jdo.option.ConnectionURL jdbc:derby:;databaseName=$metastore;create=true
spark.connect.grpc.binding.address 127.0.0.1
spark.ui.enabled                 false
spark.ui.showConsoleProgress     false
spark.log.level                  ERROR
"""

_RUN: Final = """\
#!/usr/bin/env bash
# Bring every dataset up to date: only what is new since the last run is read from the topic.
# Options go on to spark-pipelines, such as --full-refresh-all. SPARK_REMOTE may name the Connect
# server of a cluster (sc://host:15002); without it one is started here.
set -euo pipefail
cd "$$(dirname "$${BASH_SOURCE[0]}")"
PYSPARK_PYTHON=$${PYSPARK_PYTHON:-$$(command -v python3)}
export PYSPARK_PYTHON SPARK_CONF_DIR="$$PWD/conf"
command -v spark-pipelines >/dev/null || {
    echo "spark-pipelines is not installed: install OrbitMQ's wheel with its extra spark" >&2
    exit 2
}
exec spark-pipelines run --spec spark-pipeline.yml --remote "$${SPARK_REMOTE:-local[*]}" "$$@"
"""

_README: Final = """\
# $name

A project of Spark's declarative pipelines on RocketMQ messages, written by `orbitmq pipeline init`.

| | |
| --- | --- |
| `transformations/orders.py` | the streaming table `orders`, from the topic `$topic` |
| `transformations/orders_by_product.sql` | the materialised view `orders_by_product` on it |
| `transformations/large_orders.py` | the sink `large_orders`, to the topic `$target` |

Orders are JSON objects such as `{"id": "1", "product": "tea", "amount": 4.5}`. In an environment
with OrbitMQ's wheel and its extra `spark`:

```
orbitmq up &                      # or point NAMESRV_ADDR at a cluster of your own
./run                             # again and again: each run reads what is new
```

The server that Spark starts for a run has one port, 15002, so projects of one machine run one after
the other, or on a server that SPARK_REMOTE names.

Both topics must exist. Tables are in `warehouse/`, positions in `storage/`; delete `storage`,
`warehouse` and `metastore` to begin from nothing.
"""

_ODD: Final = re.compile(r"[;:%?#*\[\]{}\\\x00-\x1f\x7f]")

_FILES: Final = {
    "spark-pipeline.yml": _SPEC,
    "transformations/orders.py": _ORDERS,
    "transformations/orders_by_product.sql": _VIEW,
    "transformations/large_orders.py": _SINK,
    "conf/spark-defaults.conf": _SETTINGS,
    "run": _RUN,
    "README.md": _README,
}


def write_project(directory: Path, *, topic: str, target: str, name_server: str) -> list[Path]:
    """Write the project into an empty or new directory; return the files."""
    directory = directory.absolute()
    if directory.exists() and any(directory.iterdir()):
        raise ConfigError(f"{directory} is not empty; name a directory that is not there yet")
    for name in (topic, target):
        if fault := topic_name_fault(name):
            raise ConfigError(f"{name!r} is not a topic's name: {fault}")
    if odd := _ODD.search(str(directory)):
        raise ConfigError(
            f"{directory} has {odd[0]!r} in it, which Spark and its metastore do not take in a path"
        )
    words = {
        "name": directory.name,
        "yaml_name": _quoted(directory.name),
        "yaml_storage": _quoted(f"file://{directory}/storage"),
        "directory": str(directory),
        "metastore": str(directory / "metastore"),
        "topic": topic,
        "target": target,
        "python_topic": _quoted(topic),
        "python_target": _quoted(target),
        "name_server": _quoted(name_server),
    }
    written = []
    for name, text in _FILES.items():
        file = directory / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(Template(text).substitute(words), encoding="utf-8")
        written.append(file)
    (directory / "run").chmod(0o755)
    return written


def _quoted(text: str) -> str:
    """Return a text as a JSON string, which YAML and Python read as the same text."""
    return json.dumps(text, ensure_ascii=False)

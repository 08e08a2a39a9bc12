"""A driver to be killed: relays a topic to Parquet files, to another topic, or to both.

Run as a program of its own, ``python -m tests.spark.relay_driver '{"source": …}'``; see `Relay` for
the keys. It says on its standard output, one JSON object per line, when its queries run and when
they have ended.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass, field

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from orbitmq.spark.session import session

# Starting matters more than running fast; see also `quick_start`.
QUICK_START = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "512m",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.streaming.minBatchesToRetain": "10",
}


@dataclass(kw_only=True)
class Relay:
    """Work of the driver."""

    name_server: str
    source: str
    checkpoints: str
    target: str | None = None
    parquet: str | None = None
    deduplicate: bool = True
    rows_per_batch: int = 400
    min_partitions: int = 1
    to_the_end: bool = False
    """True to end when all present messages have been relayed."""
    stands_by: bool = False
    """True to wait for a line on standard input before the queries start."""
    master: str = "local[2]"
    settings: dict[str, str] = field(default_factory=dict)
    module: str = "tests.spark.relay_driver"

    def as_json(self) -> str:
        """Return the text that `main` takes."""
        return json.dumps(asdict(self))


def main(text: str) -> None:
    """Run the queries until they end or the driver is killed."""
    relay = Relay(**json.loads(text))
    spark = session("relay", master=relay.master, settings=QUICK_START | relay.settings)
    spark.sparkContext.setLogLevel("OFF")
    if relay.stands_by:
        print(json.dumps({"stands_by": True}), flush=True)
        if not sys.stdin.readline():
            return

    def rows() -> DataFrame:
        stream = spark.readStream.format("rocketmq").options(
            nameServer=relay.name_server,
            subscribe=relay.source,
            startingOffsets="earliest",
            maxOffsetsPerTrigger=str(relay.rows_per_batch),
            minPartitions=str(relay.min_partitions),
        )
        return stream.load().select("body")

    def start(writer: DataStreamWriter, name: str) -> StreamingQuery:
        writer = writer.option("checkpointLocation", f"{relay.checkpoints}/{name}")
        if relay.to_the_end:
            writer = writer.trigger(availableNow=True)
        return writer.start()

    queries = []
    if relay.target is not None:
        writer = rows().writeStream.format("rocketmq")
        writer = writer.options(nameServer=relay.name_server, topic=relay.target)
        deduplicate = "true" if relay.deduplicate else "false"
        queries.append(start(writer.option("deduplicate", deduplicate), "topic"))
    if relay.parquet is not None:
        writer = rows().writeStream.format("parquet").option("path", relay.parquet)
        queries.append(start(writer, "parquet"))
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    print(json.dumps({"jvm": jvm.java.lang.ProcessHandle.current().pid()}), flush=True)
    if not relay.to_the_end:
        spark.streams.awaitAnyTermination()
    for query in queries:
        query.awaitTermination()
    print(json.dumps({"ended": len(queries)}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])

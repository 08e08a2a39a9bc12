"""All six steps in a row: cluster, orders, pipeline, results, table and plot, the end.

Each step is a program or command of its own that README.md shows; this one starts them, waits for
them, and compares what came out with what went in. It leaves nothing running, whatever happens.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ORDERS = "12000"
LIMIT_S = 240
ORBITMQ = [sys.executable, "-m", "orbitmq.cli"]


def say(number: int, text: str) -> None:
    print(f"\n[{number}/6] {text}", flush=True)


@contextmanager
def running(
    *words: str, environment: dict[str, str], **where: Any
) -> Iterator[subprocess.Popen[str]]:
    """Run a command beside us; it is stopped by SIGTERM, and ended if that does not help."""
    with subprocess.Popen(words, env=environment, text=True, **where) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(60)
                except subprocess.TimeoutExpired:
                    process.kill()


def result_of(
    program: str,
    *words: str,
    environment: dict[str, str],
    beside: subprocess.Popen[str] | None = None,
) -> dict[str, Any]:
    """Run a step to its end; what it found is the last line it prints.

    A step that needs another process `beside` it does not go on without that.
    """
    command = [sys.executable, str(HERE / program), *words]
    deadline = time.monotonic() + LIMIT_S
    with running(*command, environment=environment, stdout=subprocess.PIPE) as process:
        while True:
            try:
                printed, _ = process.communicate(timeout=0.5)
                break
            except subprocess.TimeoutExpired:
                if time.monotonic() > deadline:
                    raise
                if beside is not None and beside.poll() is not None:
                    raise SystemExit(f"the pipeline ended with code {beside.poll()}") from None
        if process.returncode != 0:
            raise SystemExit(f"{program} ended with code {process.returncode}")
    found: dict[str, Any] = json.loads(printed.splitlines()[-1])
    return found


def main() -> int:
    began = time.monotonic()
    out = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="orders-"))
    out.mkdir(parents=True, exist_ok=True)
    environment = {key: value for key, value in os.environ.items() if key != "NAMESRV_ADDR"}
    environment["OUT"] = str(out.absolute())

    say(1, "a cluster: orbitmq up")
    up = [*ORBITMQ, "up", "--port", "0", "--data", str(out / "cluster")]
    with running(*up, environment=environment, stdout=subprocess.PIPE) as cluster:
        assert cluster.stdout is not None
        line = cluster.stdout.readline()
        if " on 127.0.0.1:" not in line:
            print("the cluster did not start", file=sys.stderr)
            return 1
        environment["NAMESRV_ADDR"] = line.split(" on ")[1].split(",")[0]
        print(line.strip())

        say(2, f"{ORDERS} orders of ten minutes: produce.py")
        sent = result_of("produce.py", ORDERS, environment=environment)
        print(f"sent {sent['orders']} orders of {sent['revenue']} in all")

        say(
            3,
            "the pipeline, topic to topic and Parquet: orbitmq pipeline run orders_per_minute.toml",
        )
        pipeline = [*ORBITMQ, "pipeline", "run", str(HERE / "orders_per_minute.toml")]
        with running(*pipeline, environment=environment) as spark:
            say(4, "meanwhile, what it sends: consume.py")
            received = result_of("consume.py", ORDERS, environment=environment, beside=spark)
            print(f"received {received['results']} results of {received['orders']} orders")
            wait_for_parquet(out, int(ORDERS), spark)
            say(5, "what is in Parquet: show.py")
            shown = result_of("show.py", environment=environment)
            print(f"the plot is {shown['plot']}")
            say(6, "stop everything")
            spark.send_signal(signal.SIGTERM)
            code = spark.wait(LIMIT_S)
        print(f"the pipeline ended with code {code}")
    print(f"the cluster ended with code {cluster.returncode}")

    same = sent["revenue"] == received["revenue"] == shown["revenue"]
    counts = {int(ORDERS), received["orders"], shown["orders"]}
    verdict = "the same" if same and len(counts) == 1 else "NOT the same"
    print(f"\nin the shop, in the topic and in Parquet: {verdict} orders and revenue")
    print(f"done in {time.monotonic() - began:.0f} s")
    return 0 if verdict == "the same" and code == 0 and cluster.returncode == 0 else 1


def wait_for_parquet(out: Path, wanted: int, pipeline: subprocess.Popen[str]) -> None:
    """Wait until the other sink has all of it, too; each has a query of its own."""
    import pyarrow.parquet as pq

    table = out / "orders-per-minute"
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline and pipeline.poll() is None:
        files = [file for file in table.glob("*.parquet") if file.stat().st_size]
        if sum(sum(pq.read_table(file)["orders"].to_pylist()) for file in files) >= wanted:
            return
        time.sleep(0.3)
    raise TimeoutError("the results did not reach Parquet in time")


if __name__ == "__main__":
    sys.exit(main())

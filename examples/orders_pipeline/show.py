"""Step 5: a small table and a plot of what is in Parquet; no Spark needed for that."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from decimal import Decimal
from pathlib import Path

import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from orbitmq.spark.pipelines import plots

OUT = Path(os.environ.get("OUT", Path(__file__).parent / "out"))


def main() -> None:
    rows = pq.read_table(OUT / "orders-per-minute").to_pylist()
    minutes: dict[str, dict[str, Decimal]] = defaultdict(dict)
    for row in rows:
        minutes[row["minute"].strftime("%H:%M")][row["category"]] = row["revenue"]
    categories = sorted({row["category"] for row in rows})
    top = max(sum(revenues.values()) for revenues in minutes.values())
    table = Table("minute", *categories, "revenue", title="Revenue per minute")
    for minute, revenues in sorted(minutes.items()):
        bar = "█" * round(30 * sum(revenues.values()) / top)
        table.add_row(minute, *(f"{revenues.get(name, 0):,.2f}" for name in categories), bar)
    Console(stderr=True, width=100).print(table)

    labels = sorted(minutes)
    series = {name: [float(minutes[label].get(name, 0)) for label in labels] for name in categories}
    plot = OUT / "revenue.html"
    plots.write_page(plot, "Revenue per minute", [plots.lines("by category", labels, series)])
    total = sum((row["revenue"] for row in rows), Decimal(0))
    orders = sum(row["orders"] for row in rows)
    print(json.dumps({"orders": orders, "revenue": str(total), "plot": str(plot)}))


if __name__ == "__main__":
    main()

"""`python -m benches.spark`: the Spark source, sink and store format, in one run with ratios.

| case | what |
| --- | --- |
| batch | a topic of 2 M messages of 1 KiB into the no-op sink: ours, Kafka's, a ceiling source |
| store | the same topic from the broker's store directory, and through the broker |
| sink | rows of 1 KiB to a topic: ours, at least and exactly once, and Kafka's |
| latency | milliseconds a trigger, 1 and 8 queues, source to sink; Kafka's, the engine's floor |
| idle | requests a second of a stream that has nothing to do |
| scaling | reading by 1 and 2 cores, with 1 to 64 queues; the memory of workers |

Every side is a driver process of its own on the same Spark; brokers are processes of their own,
too. The sides take turns round by round. A figure is early, when each side has done its work once,
or warm, when no JVM compiles any more (see `sides`).
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from benches.sides import REPOSITORY_ROOT, BenchError
from benches.spark.figures import Figure, table
from benches.spark.reading import batch, scaling
from benches.spark.scanning import store
from benches.spark.sizes import Size
from benches.spark.triggers import idle, latency
from benches.spark.writing import sink

CASES: dict[str, Callable[[Path, Size], list[Figure]]] = {
    each.__name__: each for each in (batch, store, sink, latency, idle, scaling)
}


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benches.spark", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="case", help=f"any of {', '.join(CASES)}")
    parser.add_argument("--quick", action="store_true", help="small sizes: to try the harness")
    parser.add_argument("--messages", type=int, help="default 2 000 000")
    parser.add_argument("--rounds", type=int, help="times each side runs (default 3)")
    parser.add_argument("--json", type=Path, help="write every figure of every round to this file")
    default = REPOSITORY_ROOT / ".build" / "bench-spark"
    parser.add_argument("--dir", type=Path, default=default, help="where the brokers keep theirs")
    options = parser.parse_args()
    if unknown := set(options.names) - CASES.keys():
        parser.error(f"no such case: {', '.join(sorted(unknown))}")
    return options


def main() -> int:
    options = parse()
    # Whoever ends this ends its brokers and drivers, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    size = Size.quick() if options.quick else Size()
    given = {"messages": options.messages, "rounds": options.rounds}
    size = dataclasses.replace(size, **{key: value for key, value in given.items() if value})
    console = Console(width=None if sys.stdout.isatty() else 140)
    figures: list[Figure] = []
    try:
        for name in options.names or CASES:
            console.print(f"measuring {name} …", style="dim")
            of_case = CASES[name](options.dir.resolve(), size)
            console.print(table(of_case))
            figures += of_case
    except BenchError as error:
        print(f"benches.spark: {error}", file=sys.stderr)
        return 1
    finally:
        console.print("all of it", table(figures), sep="\n")
        if options.json:
            report = {"sizes": dataclasses.asdict(size), "figures": [f.as_json() for f in figures]}
            options.json.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n")
    console.print(f"medians of {size.rounds} rounds, the sides in turn; all of them: --json PATH")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""`python -m benches`: OrbitMQ's store, broker and client against their peers, in one run."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from benches import measurements
from benches.broker import BrokerSizes, broker
from benches.client import ClientSizes, client
from benches.measurements import Outcome, Sizes
from benches.sides import REPOSITORY_ROOT, BenchError, java_side, rust_side

NAMES = ("append", "read", "open", "broker", "client")


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benches", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=f"any of {', '.join(NAMES)}")
    parser.add_argument("--rounds", type=int, help="times each side runs (default 3)")
    parser.add_argument("--append-log-mib", type=int, help="default 448")
    parser.add_argument("--read-messages", type=int, help="default 10 000 000")
    parser.add_argument("--open-log-gib", type=int, help="default 10")
    parser.add_argument("--quick", action="store_true", help="small sizes: to try the harness")
    parser.add_argument("--json", type=Path, help="write every figure and command to this file")
    parser.add_argument(
        "--dir",
        type=Path,
        default=REPOSITORY_ROOT / ".build" / "bench",
        help="where the stores are built; up to 15 GiB, on the disk to be measured",
    )
    options = parser.parse_args(arguments)
    if unknown := set(options.names) - set(NAMES):
        parser.error(f"no such measurement: {', '.join(sorted(unknown))}")
    return options


def chosen_sizes(options: argparse.Namespace) -> Sizes:
    sizes = Sizes.quick() if options.quick else Sizes()
    given = {
        field.name: value
        for field in dataclasses.fields(Sizes)
        if (value := getattr(options, field.name, None)) is not None
    }
    return dataclasses.replace(sizes, **given)


def table(outcomes: Sequence[Outcome]) -> str:
    head = ("", "OrbitMQ", "peer", "", "ratio", "target", "the peer")
    rows = [
        (
            o.name,
            _figure(o.our_median),
            "" if o.their_median is None else _figure(o.their_median),
            o.unit,
            "" if o.ratio is None else f"{o.ratio:.1f}",
            o.target,
            o.peer,
        )
        for o in outcomes
    ]
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head))]

    def line(row: tuple[str, ...]) -> str:
        aligned = (
            cell.rjust(width) if column in (1, 2, 4) else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        return "  ".join(aligned).rstrip()

    return "\n".join([line(head), line(tuple("-" * width for width in widths)), *map(line, rows)])


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    sizes = chosen_sizes(options)
    names = options.names or NAMES
    outcomes: list[Outcome] = []
    try:
        rust, java = rust_side(), java_side()
        work: Path = options.dir.resolve()
        if "append" in names:
            for body_bytes in (128, 1024):
                outcomes += measurements.append(rust, java, sizes, work, body_bytes)
        if "read" in names:
            outcomes += measurements.read(rust, java, sizes, work)
        if "open" in names:
            outcomes += measurements.open_store(rust, java, sizes, work)
        load_commands: list[str] = []
        if "broker" in names:
            small = dataclasses.replace(BrokerSizes(), rounds=sizes.rounds)
            broker_sizes = BrokerSizes.quick() if options.quick else small
            of_broker, load_commands = broker(broker_sizes, work)
            outcomes += of_broker
        if "client" in names:
            whole = dataclasses.replace(ClientSizes(), rounds=sizes.rounds)
            of_client, commands = client(ClientSizes.quick() if options.quick else whole, work)
            outcomes += of_client
            load_commands += commands
    except BenchError as error:
        print(f"benches: {error}", file=sys.stderr)
        return 1
    print(table(outcomes))
    print(f"medians of {sizes.rounds} rounds, the two sides in turn; the commands: --json PATH")
    if options.json:
        report = {
            "sizes": dataclasses.asdict(sizes),
            "outcomes": [{**dataclasses.asdict(o), "ratio": o.ratio} for o in outcomes],
            "commands": {side.name: side.commands_run for side in (rust, java)}
            | {"load": load_commands},
        }
        options.json.write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

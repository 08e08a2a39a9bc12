"""Small plots as SVG without a library or a JVM, sharp on every screen.

A plot is a text. An ``.svg`` file contains the plot, an ``.html`` file also the tables. Colours and
text follow the reader's light or dark mode. cairosvg, if it is installed, makes a ``.png`` from the
``.svg``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

from orbitmq.spark.pipelines.plan import Table

__all__ = ["bars", "format_fault", "lines", "write_page"]

WIDTH = 860
BAR_HEIGHT = 13
LABEL_WIDTH = 260
LINE_HEIGHT = 240
COLOURS = ("#4c8bf5", "#f5a14c", "#d9534f", "#5cb85c", "#9a6dd7", "#5bc0de")

_STYLE = (
    "<style>text{font:12px system-ui,sans-serif;fill:#444}.t{font-size:14px;font-weight:600}"
    ".g{stroke:#8884}@media(prefers-color-scheme:dark){text{fill:#ccc}}</style>"
)


def bars(title: str, groups: Sequence[tuple[str, Mapping[str, float]]], *, unit: str = "") -> str:
    """Draw groups of horizontal bars, such as percentiles by topic."""
    names = list(dict.fromkeys(name for _, values in groups for name in values))
    top = max((value for _, values in groups for value in values.values()), default=0) or 1
    scale = (WIDTH - LABEL_WIDTH - 110) / top
    step = BAR_HEIGHT * len(names) + 12
    parts = _legend(names)
    y = 60
    for label, values in groups:
        middle = y + BAR_HEIGHT * len(names) / 2 + 4
        parts.append(_text(LABEL_WIDTH - 8, middle, _shortened(label), anchor="end"))
        for at, name in enumerate(names):
            value = values.get(name, 0)
            width = max(1.0, value * scale)
            bar_y = y + at * BAR_HEIGHT
            parts.append(
                f'<rect x="{LABEL_WIDTH}" y="{bar_y}" width="{width:.1f}" '
                f'height="{BAR_HEIGHT - 2}" fill="{_colour(at)}"/>'
            )
            parts.append(
                _text(LABEL_WIDTH + width + 5, bar_y + BAR_HEIGHT - 3, f"{_number(value)} {unit}")
            )
        y += step
    return _svg(title, parts, y + 8)


def lines(
    title: str,
    labels: Sequence[str],
    series: Mapping[str, Sequence[float | None]],
    *,
    unit: str = "",
) -> str:
    """Draw one line for each series over common labels; a value None leaves a gap."""
    values = [value for line in series.values() for value in line if value is not None]
    top = max(values, default=0) or 1
    left, right, lower = 70, WIDTH - 20, 60 + LINE_HEIGHT
    across = (right - left) / max(1, len(labels) - 1)
    parts = _legend(list(series))
    for share in (0, 0.25, 0.5, 0.75, 1):
        y = lower - share * LINE_HEIGHT
        parts.append(f'<line class="g" x1="{left}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(_text(left - 6, y + 4, f"{_number(top * share)} {unit}", anchor="end"))
    for at in _few(len(labels)):
        parts.append(_text(left + at * across, lower + 18, labels[at], anchor="middle"))
    for number, line in enumerate(series.values()):
        points = [
            (left + at * across, lower - value / top * LINE_HEIGHT)
            for at, value in enumerate(line)
            if value is not None
        ]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(
            f'<polyline points="{path}" fill="none" stroke="{_colour(number)}" stroke-width="2"/>'
        )
        parts += [
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{_colour(number)}"/>'
            for x, y in points
        ]
    return _svg(title, parts, lower + 34)


def write_page(file: Path, title: str, plots: Sequence[str], tables: Sequence[Table] = ()) -> None:
    """Write plots below each other; an ``.html`` file has the tables below the plots."""
    file.parent.mkdir(parents=True, exist_ok=True)
    if file.suffix != ".html":
        drawn = plots[0] if len(plots) == 1 else _stacked(plots)
        if file.suffix == ".png":
            file.write_bytes(_png(drawn))
        else:
            file.write_text(drawn, encoding="utf-8")
        return
    body = "".join(f"<figure>{plot}</figure>" for plot in plots)
    body += "".join(map(_html_table, tables))
    file.write_text(
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>'
        "<style>:root{color-scheme:light dark}body{font:14px system-ui,sans-serif;max-width:900px;"
        "margin:2em auto;padding:0 1em}figure{margin:0 0 2em}table{border-collapse:collapse;"
        "margin-bottom:2em}td,th{padding:3px 10px;border-bottom:1px solid #8884;text-align:left}"
        "td.n{text-align:right}</style>"
        f"<h1>{escape(title)}</h1>{body}</html>\n",
        encoding="utf-8",
    )


def format_fault(name: str) -> str | None:
    """Return the reason why a plot cannot have this file name, or None if it can."""
    suffix = Path(name).suffix
    if suffix not in (".html", ".svg", ".png"):
        return f"{name!r} must end in .html, .svg or .png"
    if suffix == ".png":
        try:
            import cairosvg  # noqa: F401
        except ImportError:
            return "a .png needs cairosvg: pip install cairosvg, or say .html or .svg"
        except OSError as error:  # the C library cairo is missing
            return f"a .png needs cairosvg, which does not load: {str(error).splitlines()[0]}"
    return None


def _png(drawn: str) -> bytes:
    import cairosvg

    # Twice the size for sharp screens, and a background on which the dark text is readable.
    made: bytes = cairosvg.svg2png(bytestring=drawn.encode(), scale=2, background_color="white")
    return made


def _html_table(table: Table) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in table.columns)
    rows = "".join(
        "<tr>" + "".join(_html_cell(cell) for cell in row) + "</tr>" for row in table.rows
    )
    return f"<h2>{escape(table.title)}</h2><table><tr>{head}</tr>{rows}</table>"


def _html_cell(cell: object) -> str:
    if isinstance(cell, int | float) and not isinstance(cell, bool):
        return f'<td class="n">{_number(cell)}</td>'
    return f"<td>{escape('-' if cell is None else str(cell))}</td>"


def _svg(title: str, parts: list[str], height: float) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" '
        f'width="{WIDTH}" height="{height:.0f}" role="img">{_STYLE}'
        f'<text class="t" x="10" y="22">{escape(title)}</text>{"".join(parts)}</svg>\n'
    )


def _stacked(plots: Sequence[str]) -> str:
    heights = [float(plot.split('height="', 1)[1].split('"', 1)[0]) for plot in plots]
    placed = []
    y = 0.0
    for plot, height in zip(plots, heights, strict=True):
        placed.append(plot.replace("<svg ", f'<svg y="{y:.0f}" ', 1))
        y += height + 20
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y:.0f}" '
        f'width="{WIDTH}" height="{y:.0f}">{"".join(placed)}</svg>\n'
    )


def _legend(names: Sequence[str]) -> list[str]:
    parts = []
    x = 10.0
    for at, name in enumerate(names):
        parts.append(f'<rect x="{x}" y="34" width="10" height="10" fill="{_colour(at)}"/>')
        parts.append(_text(x + 15, 43, name))
        x += 34 + 7 * len(name)
    return parts


def _text(x: float, y: float, text: str, *, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text.strip())}</text>'


def _colour(at: int) -> str:
    return COLOURS[at % len(COLOURS)]


def _shortened(label: str) -> str:
    return label if len(label) <= 38 else label[:18] + "…" + label[-19:]


def _few(count: int) -> list[int]:
    """Return the positions of at most eight of `count` labels, at equal distances."""
    step = max(1, math.ceil(count / 8))
    return list(range(0, count, step))


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:,.1f}"

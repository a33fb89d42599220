"""Pictures of what was measured: bars in the terminal, and an SVG file if matplotlib (extra `charts`) is there."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from rich.bar import Bar
from rich.console import Console
from rich.table import Table

COLOURS = ("#1f6feb", "#d29922", "#8b949e", "#2da44e", "#a371f7", "#cf222e")
"""By the position of a series: the first is sequencer's."""
BAR_WIDTH = 48


class Chart(NamedTuple):
    """Series of medians with their least and greatest values, over the same labels."""

    name: str
    """Part of the file's name."""
    title: str
    unit: str
    labels: Sequence[str]
    series: Mapping[str, Sequence[Mapping[str, float] | None]]
    """By name: for each label `median`, `min` and `max`, or None where nothing was measured."""


def show(console: Console, chart: Chart) -> None:
    """One bar for each label and series."""
    found = [one["median"] for values in chart.series.values() for one in values if one]
    greatest = max(found, default=0.0) or 1.0
    table = Table(title=f"{chart.title}, {chart.unit}", title_justify="left", box=None, show_header=False)
    for position, label in enumerate(chart.labels):
        for number, (name, values) in enumerate(chart.series.items()):
            one = values[position]
            if one is not None:
                bar = Bar(greatest, 0, one["median"], width=BAR_WIDTH, color=COLOURS[number % len(COLOURS)])
                table.add_row(label if number == 0 else "", name, bar, f"{one['median']:,.4g}")
    console.print(table)


def write(beside: Path, charts: Sequence[Chart]) -> list[Path]:
    """Write each chart as SVG beside this file; the paths, or none without matplotlib."""
    if not charts or find_spec("matplotlib") is None:
        return []
    logging.getLogger("matplotlib").setLevel(logging.WARNING)
    from matplotlib.figure import Figure

    paths = []
    for chart in charts:
        figure = Figure(figsize=(8.0, 4.0), layout="constrained")
        _draw(figure.subplots(), chart)
        path = beside.with_name(f"{beside.stem}-{chart.name}.svg")
        figure.savefig(path, metadata={"Date": None})
        paths.append(path)
    return paths


def _draw(axes: Any, chart: Chart) -> None:
    width = 0.8 / max(1, len(chart.series))
    for number, (name, values) in enumerate(chart.series.items()):
        some = [(position, one) for position, one in enumerate(values) if one]
        middles = [one["median"] for _, one in some]
        spans = [[one["median"] - one["min"] for _, one in some], [one["max"] - one["median"] for _, one in some]]
        places = [position + (number - (len(chart.series) - 1) / 2) * width for position, _ in some]
        axes.bar(places, middles, width, yerr=spans, label=name, color=COLOURS[number % len(COLOURS)], capsize=2)
    axes.set_xticks(range(len(chart.labels)), chart.labels)
    axes.set_ylabel(chart.unit)
    axes.set_title(chart.title)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)

"""Pictures of what was measured: SVG files, if matplotlib (extra `charts`) is there."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

COLOURS = ("#1f6feb", "#d29922", "#8b949e", "#2da44e", "#a371f7", "#cf222e")
"""By the position of a series: the first is sequencer's."""


class Chart(NamedTuple):
    """Series of medians with their least and greatest values, over the same labels."""

    name: str
    """Part of the file's name."""
    title: str
    unit: str
    labels: Sequence[str]
    series: Mapping[str, Sequence[Mapping[str, float] | None]]
    """By name: for each label `median`, `min` and `max`, or None where nothing was measured."""


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

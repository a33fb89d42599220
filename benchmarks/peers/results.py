"""What came out: rates, how many times another's rate sequencer's is, faults, and the settings taken. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from ..kit.charts import Chart
from ..kit.report import median_min_max, show_range
from ..kit.scenario import Table
from ..load.judge import FAULTS
from .cells import Run
from .systems import ALL, BY_NAME

Cells = dict[tuple[str, str], dict[str, list[Run]]]
"""The runs of each system and column, by placement."""


def summarise(runs: list[Run]) -> list[dict[str, Any]]:
    """For each system and column, in its better placement: rates of the valid runs, faults of all; no trials, no
    warm-up.
    """
    measured: Cells = {}
    for run in runs:
        if not (run.is_warmup or run.is_trial):
            name = (run.system, run.cell.column.name)
            measured.setdefault(name, {}).setdefault(run.cell.placement, []).append(run)
    chosen = {name: max(by_placement.values(), key=_median) for name, by_placement in measured.items()}
    return [
        {
            "system": system,
            "version": ALL[system].version,
            "is_ordered": ALL[system].is_ordered,
            "column": column,
            "title": BY_NAME[column].title,
            "placement": some[0].cell.placement,
            "setting": some[0].cell.setting,
            "messages": some[0].cell.messages,
            "runs": len(some),
            "valid_runs": sum(run.is_valid for run in some),
            "rate": median_min_max(run.rate for run in some),
            "rates_by_placement": {
                placement: median_min_max(run.rate for run in others)
                for placement, others in measured[system, column].items()
            },
            "sequencer_over": median_min_max(_ratios(chosen.get(("sequencer", column), []), some)),
            "faults": {name: sum(getattr(run.phase, name) for run in some) for name in FAULTS},
            "problems": sorted({run.phase.problem for run in some} - {""}),
        }
        for (system, column), some in chosen.items()
    ]


def _median(runs: list[Run]) -> float:
    found = median_min_max(run.rate for run in runs)
    return found["median"] if found else 0.0


def _ratios(ours: list[Run], theirs: list[Run]) -> list[float | None]:
    """Of each round in which both are valid."""
    rates = {run.index: run.rate for run in ours}
    return [
        mine / run.rate if (mine := rates.get(run.index)) is not None and run.rate is not None else None
        for run in theirs
    ]


# -- tables and pictures --------------------------------------------------------------------------------------


def _by_system(summary: list[dict[str, Any]]) -> dict[str, dict[str, dict[str, Any]]]:
    """System -> column -> entry, in the order of the table of systems."""
    found: dict[str, dict[str, dict[str, Any]]] = {name: {} for name in ALL}
    for entry in summary:
        found[entry["system"]][entry["column"]] = entry
    return {name: columns for name, columns in found.items() if columns}


def _columns(summary: list[dict[str, Any]]) -> list[str]:
    present = {entry["column"] for entry in summary}
    return [name for name in BY_NAME if name in present]


def _rate(entry: dict[str, Any] | None) -> str:
    if entry is None or entry["rate"] is None:
        return "-" if entry is None else "not valid"
    also = f" {entry['placement']}" if len(entry["rates_by_placement"]) > 1 else ""
    some = "" if entry["valid_runs"] == entry["runs"] else f" [{entry['valid_runs']} of {entry['runs']}]"
    return show_range(entry["rate"]) + also + some


def _times(found: dict[str, float] | None) -> str:
    return f"{found['median']:.1f} ({found['min']:.1f}..{found['max']:.1f})" if found else "-"


def tables(summary: list[dict[str, Any]]) -> Iterator[Table]:
    """Title, columns and rows of each table."""
    names, by_system = _columns(summary), _by_system(summary)
    titles = [BY_NAME[name].title for name in names]
    versions = {name: next(iter(columns.values()))["version"] for name, columns in by_system.items()}
    heads = ["system", "version", *titles]
    yield (
        "Messages a second: median (min..max) of the valid runs",
        heads,
        [[name, versions[name], *(_rate(found.get(one)) for one in names)] for name, found in by_system.items()],
    )
    yield (
        "How many times theirs sequencer's rate is, of runs of the same round",
        heads,
        [
            [name, versions[name], *(_times(found[one]["sequencer_over"]) if one in found else "-" for one in names)]
            for name, found in by_system.items()
            if name != "sequencer"
        ],
    )
    yield (
        "Faults of all runs; disorder makes a run not valid only where order is promised",
        ["system", "order", *(name.replace("_", " ") for name in FAULTS)],
        [
            [
                name,
                "promised" if ALL[name].is_ordered else "not promised",
                *(f"{sum(entry['faults'][fault] for entry in found.values()):,}" for fault in FAULTS),
            ]
            for name, found in by_system.items()
        ],
    )
    yield (
        "The settings taken, and messages in a run",
        ["system", "column", "setting", "messages"],
        [
            [name, BY_NAME[one].title, json.dumps(found[one]["setting"]), f"{found[one]['messages']:,}"]
            for name, found in by_system.items()
            for one in names
            if one in found and found[one]["setting"]
        ],
    )


def charts(summary: list[dict[str, Any]]) -> Iterator[Chart]:
    """The systems that promise order: appending, and consuming."""
    by_system = {name: found for name, found in _by_system(summary).items() if ALL[name].is_ordered}
    for name, title, is_append in (("append", "Append", True), ("consume", "Consume with one process", False)):
        columns = [one for one in _columns(summary) if BY_NAME[one].is_append is is_append]
        if columns:
            labels = [BY_NAME[one].title.removeprefix("append ").removeprefix("consume ") for one in columns]
            series = {
                system: [found[one]["rate"] if one in found else None for one in columns]
                for system, found in by_system.items()
            }
            yield Chart(name, title, "messages a second", labels, series)

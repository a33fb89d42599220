"""What scenario `policies` came to: rates, each over the default's, and memory."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from typing import Any

from ...kit.phase import RATES
from ...kit.report import median_min_max, show_range
from ...load.judge import FAULTS
from ...load.workload import Spread
from .trials import DEFAULT, Run


def summarise(runs: list[Run]) -> list[dict[str, Any]]:
    """For each scenario and variant: rates and memory of the valid runs, faults of all; without the warm-up."""
    measured: dict[tuple[Spread, str], list[Run]] = {}
    for run in runs:
        if not run.is_warmup:
            measured.setdefault((run.scenario, run.variant), []).append(run)
    return [
        {
            "scenario": scenario.name,
            "title": scenario.title,
            "variant": variant,
            "messages": some[0].phases[0].messages,
            "runs": len(some),
            "valid_runs": sum(run.is_valid for run in some),
            "rates": {name: median_min_max(run.rates()[name] for run in some if run.is_valid) for name in RATES},
            "of_default": of_default(some, measured.get((scenario, DEFAULT.name), [])),
            "faults": {name: sum(getattr(phase, name) for run in some for phase in run.phases) for name in FAULTS},
            "memory": _memory([run for run in some if run.is_valid]),
        }
        for (scenario, variant), some in measured.items()
    ]


def of_default(runs: list[Run], defaults: list[Run]) -> dict[str, dict[str, float] | None]:
    """Each rate over the default's of the same round, where both are valid."""
    rates = {run.index: run.rates() for run in defaults if run.is_valid}
    pairs = [(run.rates(), rates[run.index]) for run in runs if run.is_valid and run.index in rates]
    return {
        name: median_min_max(ours / base for mine, its in pairs if (ours := mine[name]) and (base := its[name]))
        for name in RATES
    }


def _memory(runs: list[Run]) -> dict[str, dict[str, float | None]]:
    """Medians of entries and of bytes for each."""
    found: dict[str, dict[str, float | None]] = {}
    for name in runs[0].memory if runs else ():
        some = [run.memory[name] for run in runs]
        each = [one.bytes / one.entries for one in some if one.entries]
        found[name] = {
            "entries": statistics.median(one.entries for one in some),
            "bytes_each": statistics.median(each) if each else None,
        }
    return found


def tables(summary: list[dict[str, Any]]) -> Iterator[tuple[str, list[str], list[list[str]]]]:
    """Title, columns and rows of each table."""
    names = [[entry["title"], entry["variant"]] for entry in summary]

    def rows(cells: Callable[[dict[str, Any]], list[str]]) -> list[list[str]]:
        return [name + cells(entry) for name, entry in zip(names, summary, strict=True)]

    yield (
        "Messages a second: median (min..max) of the valid runs; faults of all runs",
        ["groups", "variant", "valid runs", *(f"{name}/s" for name in RATES), "faults"],
        rows(
            lambda entry: [
                f"{entry['valid_runs']} of {entry['runs']}",
                *(show_range(entry["rates"][name]) for name in RATES),
                str(sum(entry["faults"].values())),
            ]
        ),
    )
    yield (
        "Of the default's rate in the same round: median (min..max)",
        ["groups", "variant", *RATES],
        rows(lambda entry: [show_share(entry["of_default"][name]) for name in RATES]),
    )
    kinds = {"ids": "id", "watermarks": "group", "history": "message", "bodies": "body"}
    yield (
        "Memory after the last message: entries kept, and bytes of each",
        ["groups", "variant", *(word for name, one in kinds.items() for word in (name, f"bytes a {one}"))],
        rows(lambda entry: [cell for name in kinds for cell in show_kept(entry["memory"].get(name))]),
    )


def show_share(found: dict[str, float] | None) -> str:
    if found is None:
        return "-"
    low, middle, high = (f"{found[name]:.0%}" for name in ("min", "median", "max"))
    return middle if low == high else f"{middle} ({low}..{high})"


def show_kept(found: dict[str, float | None] | None) -> list[str]:
    """Entries and bytes of each, as cells."""
    if not found or found["bytes_each"] is None:
        return ["0" if found else "-", "-"]
    return [f"{found['entries']:,.0f}", f"{found['bytes_each']:,.0f}"]

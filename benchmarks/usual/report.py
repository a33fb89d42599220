"""What `usual` came to: rates beside those of own Streams in the same round, and the table of promises. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ..kit import rounds
from ..kit.report import median_min_max, show_range
from ..kit.rounds import Run, show, show_valid
from ..kit.scenario import Table
from .crew import SYSTEMS
from .promises import Trial

BASE = "streams"
Entry = dict[str, Any]


def summarise(results: Sequence[Run | Trial]) -> list[Entry]:
    """An entry for each case and system, then one for each claim and system."""
    runs = [one for one in results if isinstance(one, Run)]
    trials = [one for one in results if isinstance(one, Trial)]
    rates = [{**entry, "over_streams": over_streams(runs, entry)} for entry in rounds.summarise(runs)]
    cells: dict[tuple[str, str], list[Trial]] = {}
    for one in trials:
        cells.setdefault((one.claim, one.system), []).append(one)
    return [*rates, *(cell(claim, system, some) for (claim, system), some in cells.items())]


def over_streams(runs: Sequence[Run], entry: Entry) -> dict[str, float] | None:
    """The rate of a case over that of own Streams, of valid runs of the same round."""

    def rates(system: str) -> dict[int, float]:
        return {
            run.turn.index: run.figures["rate"]
            for run in runs
            if (run.case, run.system) == (entry["case"], system)
            and run.is_valid
            and not run.turn.is_warmup
            and "rate" in run.figures
        }

    its, base = rates(entry["system"]), rates(BASE)
    return median_min_max(its[index] / base[index] for index in its if index in base)


def cell(claim: str, system: str, trials: Sequence[Trial]) -> Entry:
    """What came of all trials of one cell."""
    faults = [one.fault for one in trials if one.fault]
    return {
        "claim": claim,
        "system": system,
        "runs": len(trials),
        "valid_runs": len(trials) - len(faults),
        "is_kept": not faults,
        "faults": faults,
        "repeats": [one.repeats for one in trials],
    }


def verdict(entry: Entry) -> str:
    """`kept`, or how often it was not and the worst that was said; and what was handled again."""
    most = max(entry["repeats"])
    again = f" ({most} handled again)" if most else ""
    if entry["is_kept"]:
        return f"kept{again}"
    broken = entry["runs"] - entry["valid_runs"]
    often = f"{broken} of {entry['runs']}: " if broken < entry["runs"] else ""
    return f"NOT: {often}{max(entry['faults'], key=len)}{again}"


# -- tables and pictures --------------------------------------------------------------------------------------


def tables(summary: list[Entry]) -> Iterator[Table]:
    """Title, columns and rows of each table."""
    rates = [entry for entry in summary if "case" in entry]
    claims = [entry for entry in summary if "claim" in entry]
    if rates:
        columns = [
            "case",
            "system",
            "messages",
            "valid",
            "a second",
            "of streams",
            "of the ideal",
            "delay p50 / p99 ms",
        ]
        yield (
            "The usual case, median (min..max)",
            [*columns, "scripts", "server us"],
            [rate_row(entry) for entry in rates],
        )
    if claims:
        systems = [name for name in SYSTEMS if any(entry["system"] == name for entry in claims)]
        by_cell = {(entry["claim"], entry["system"]): verdict(entry) for entry in claims}
        yield (
            "What each keeps, every cell tried; NOT: what happened instead",
            ["what", *systems],
            [
                [claim, *(by_cell.get((claim, system), "-") for system in systems)]
                for claim in dict.fromkeys(entry["claim"] for entry in claims)
            ],
        )


def rate_row(entry: Entry) -> list[str]:
    figures = entry["figures"]
    delay = [show(figures.get(f"delay ms {which}"), 1) for which in ("p50", "p99")]
    return [
        entry["case"],
        entry["system"],
        f"{entry['settings']['messages']:,}",
        show_valid(entry),
        show_range(figures.get("rate")),
        show(entry["over_streams"]),
        show(figures.get("of ideal")),
        " / ".join(delay) if "delay ms p50" in figures else "-",
        show(figures.get("scripts")),
        show(figures.get("server us"), 0),
    ]

"""What `async` came to: the figures of each case, and the ratios that a version is to reach. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from ..kit import rounds
from ..kit.report import median_min_max, show_range
from ..kit.rounds import Run, show, show_valid
from ..kit.scenario import Table
from . import cases as of
from .cases import BARE, BEFORE, BLOCKING, OTHERS, OURS, POOL, SINGLE

Entry = dict[str, Any]
Round = dict[tuple[str, str], dict[str, float]]
"""The figures of one round by case and system."""


class Ratio(NamedTuple):
    """One figure of sequencer over another of the same round."""

    case: str
    name: str
    of: Callable[[Round], float]
    """Raises KeyError or ValueError where something was not measured."""
    at_least: float | None = None
    at_most: float | None = None


def _rates(case: str, system: str, base: str) -> Callable[[Round], float]:
    return lambda found: found[case, system]["rate"] / found[case, base]["rate"]


def _of_best_peer(found: Round) -> float:
    return found[of.LOOP, OURS]["rate"] / max(
        found[of.LOOP, name]["rate"] for name in OTHERS if (of.LOOP, name) in found
    )


def _first_slot(case: str) -> Callable[[Round], float]:
    """Over the single slot of the tree before, or of this one where there is no other."""
    return lambda found: (
        found[case, OURS]["rate"] / found[(case, BEFORE) if (case, BEFORE) in found else (case, SINGLE)]["rate"]
    )


def _delay(system: str) -> Callable[[Round], float]:
    return lambda found: found[of.DELAY, system]["delay ms p50"] - found[of.DELAY, SINGLE]["delay ms p50"]


RATIOS = (
    Ratio(of.LOOP, "rate, of the tasks without a queue", _rates(of.LOOP, OURS, BARE), 0.85),
    Ratio(of.LOOP, "rate, of the best peer", _of_best_peer, 2.0),
    Ratio(
        of.LOOP,
        "client CPU a message, of taskiq's",
        lambda found: found[of.LOOP, OURS]["client us"] / found[of.LOOP, "taskiq"]["client us"],
        at_most=0.33,
    ),
    Ratio(of.IN_THREADS, "rate, of the threads without a queue", _rates(of.IN_THREADS, OURS, BARE), 0.9),
    Ratio(of.IN_THREADS, "connections", lambda found: found[of.IN_THREADS, OURS]["connections"], at_most=3),
    Ratio(of.LONG, "rate, of the single slot", _first_slot(of.LONG), 0.15),
    Ratio(of.SHORT, "rate, of the single slot", _first_slot(of.SHORT), 0.2),
    Ratio(of.APPEND, "rate, of the blocking client", _rates(of.APPEND, OURS, BLOCKING), 2.5),
    Ratio(of.APPEND, "rate, of redis.asyncio's pool", _rates(of.APPEND, OURS, POOL), 3.0),
    Ratio(of.DELAY, "p50 ms more than the single slot, loop", _delay(OURS), at_most=0.3),
    Ratio(of.DELAY, "p50 ms more than the single slot, threads", _delay(of.THREADS), at_most=0.3),
    *(
        Ratio(case, "rate of the single slot, of before", _rates(case, SINGLE, BEFORE), 0.97)
        for case in (of.LONG, of.SHORT)
    ),
    *(
        Ratio(
            case,
            "client CPU of the single slot, of before",
            lambda found, case=case: found[case, SINGLE]["client us"] / found[case, BEFORE]["client us"],  # type: ignore[misc]
            at_most=1.03,
        )
        for case in (of.LONG, of.SHORT)
    ),
)


def summarise(runs: Sequence[Run]) -> list[Entry]:
    """An entry for each case and system, then one for each ratio that was measured."""
    by_round: dict[int, Round] = {}
    for run in runs:
        if run.is_valid and not run.turn.is_warmup:
            by_round.setdefault(run.turn.index, {})[run.case, run.system] = run.figures
    return [*rounds.summarise(runs), *(entry for one in RATIOS if (entry := ratio(one, [*by_round.values()])))]


def ratio(one: Ratio, found: Sequence[Round]) -> Entry | None:
    """Of the rounds in which both sides are valid; None of none."""
    values = []
    for each in found:
        try:
            values.append(one.of(each))
        except (KeyError, ValueError):
            continue
    middle = median_min_max(values)
    if middle is None:
        return None
    is_met = middle["median"] >= one.at_least if one.at_least is not None else middle["median"] <= (one.at_most or 0)
    return {
        "case": one.case,
        "ratio": one.name,
        "runs": len(values),
        "valid_runs": len(values),
        "value": middle,
        "at_least": one.at_least,
        "at_most": one.at_most,
        "is_met": is_met,
    }


def tables(summary: list[Entry]) -> Iterator[Table]:
    """Title, columns and rows of each table."""
    names = ("valid", "a second", "client us", "server us", "scripts", "connections", "at once", "delay p50 / p99 ms")
    yield (
        "Many handlers at once, median (min..max)",
        ["case", "system", *names],
        [row(entry) for entry in summary if "ratio" not in entry],
    )
    yield (
        "Ratios within a round, median (min..max)",
        ["case", "what", "found", "to reach", ""],
        [
            [entry["case"], entry["ratio"], show(entry["value"]), bound(entry), "" if entry["is_met"] else "MISSED"]
            for entry in summary
            if "ratio" in entry
        ],
    )


def bound(entry: Entry) -> str:
    return f"at least {entry['at_least']}" if entry["at_least"] is not None else f"at most {entry['at_most']}"


def row(entry: Entry) -> list[str]:
    figures = entry["figures"]
    delay = " / ".join(show(figures.get(f"delay ms {which}")) for which in ("p50", "p99"))
    return [
        entry["case"],
        entry["system"],
        show_valid(entry),
        show_range(figures.get("rate")),
        show(figures.get("client us"), 0),
        show(figures.get("server us"), 0),
        show(figures.get("scripts"), 3),
        show(figures.get("connections"), 0),
        show(figures.get("at once"), 0),
        delay if "delay ms p50" in figures else "-",
    ]

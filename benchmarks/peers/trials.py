"""All runs of the scenario: the settings are tried, then the systems take turns, column by column, in each round."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..kit.rounds import turns
from ..load.placement import Placement
from .cells import Cell, Run, run_cell
from .host import Address
from .installation import node_version
from .systems import ALL, BY_NAME, COLUMNS, SYSTEMS, Column, Setting, System

TRIAL_SHARE = 3
"""A trial has a third of the messages."""
OnRun = Callable[[Run], None]
Best = dict[tuple[str, str], Setting]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """What to measure. `messages`: of each cell, None for the number of its system in the table."""

    systems: tuple[System, ...]
    columns: tuple[Column, ...]
    cache: Path
    runs: int
    warmup: int
    messages: int | None = None
    trials: int = 2
    """How often each setting is tried; 0: the first of each is taken."""
    left_out: tuple[str, ...] = field(default=())
    """Why systems that were asked for are not there, a sentence each."""

    def as_json(self) -> dict[str, Any]:
        return {
            "systems": [system.name for system in self.systems],
            "versions": {system.name: list(system.packages) or [system.version] for system in self.systems},
            "notes": {system.name: system.note for system in self.systems if system.note},
            "left_out": list(self.left_out),
            "columns": [column.name for column in self.columns],
            "runs": self.runs,
            "warmup": self.warmup,
            "messages": self.messages,
            "trials": self.trials,
            "node": node_version() if any(system.kind == "node" for system in self.systems) else None,
            "server": "its own, TCP on loopback, append-only file off",
            "placement": "apart; append one by one also together: the better of the two for each system",
        }

    def count(self, system: System, column: Column) -> int:
        return self.messages or system.messages(column)


USUAL = Parameters(systems=SYSTEMS, columns=COLUMNS, cache=Path("bench-results") / "peers", runs=5, warmup=1)
SMOKE = replace(
    USUAL,
    systems=tuple(ALL[name] for name in ("sequencer", "groupmq", "naive")),
    columns=tuple(BY_NAME[name] for name in ("one", "batch", "zipf")),
    runs=1,
    warmup=0,
    messages=200,
    trials=0,
)


def measure(url: str, parameters: Parameters, on_run: OnRun) -> list[Run]:
    """All runs. Raises ServerError."""
    address, runs = Address.parse(url), []
    best: Best = {}
    for run in trials(address, parameters, best):
        on_run(run)
        runs.append(run)
    for turn in turns(parameters.warmup, parameters.runs):
        for cell in cells(parameters, best):
            phase = run_cell(address, parameters.cache, cell, turn.seed)
            run = Run(cell=cell, index=turn.index, is_warmup=turn.is_warmup, is_trial=False, phase=phase)
            on_run(run)
            runs.append(run)
    return runs


def cells(parameters: Parameters, best: Best) -> Iterator[Cell]:
    """One round: for each column and placement, the systems in turn."""
    for column in parameters.columns:
        for placement in placements(column):
            for system in parameters.systems:
                if system.can(column):
                    setting = best.get((system.name, column.name), system.settings(column)[0])
                    yield make_cell(parameters, system, column, placement, setting, best)


def placements(column: Column) -> tuple[Placement, ...]:
    return ("apart", "together") if column.is_append and not column.is_batch else ("apart",)


def make_cell(
    parameters: Parameters, system: System, column: Column, placement: Placement, setting: Setting, best: Best
) -> Cell:
    """The setting is that of the half which is measured; the other half has the best that is known for it."""
    fill = setting if column.is_batch else None
    if not column.is_append and system.batch_settings:
        fill = best.get((system.name, "batch"), system.batch_settings[0])
    drain = best.get((system.name, "100"), system.consume_settings[0]) if column.is_append else setting
    return Cell(
        system=system,
        column=column,
        placement=placement,
        setting=setting,
        fill=fill,
        drain=drain,
        messages=parameters.count(system, column),
    )


def trials(address: Address, parameters: Parameters, best: Best) -> Iterator[Run]:
    """Each setting where there are several; that of the quickest valid run goes into `best`."""
    for column in parameters.columns:
        for system in parameters.systems:
            settings = system.settings(column) if system.can(column) else ()
            if len(settings) < 2 or not parameters.trials:
                continue
            tried = []
            for setting in settings * parameters.trials:
                cell = make_cell(parameters, system, column, "apart", setting, best)
                cell = replace(cell, messages=max(1, cell.messages // TRIAL_SHARE))
                phase = run_cell(address, parameters.cache, cell, 0)
                tried.append(Run(cell=cell, index=0, is_warmup=False, is_trial=True, phase=phase))
                yield tried[-1]
            best[system.name, column.name] = quickest(tried).cell.setting


def quickest(tried: list[Run]) -> Run:
    """The one with the highest rate; an invalid one only when no other is there. Pure."""
    return max(tried, key=lambda run: run.rate or 0.0)

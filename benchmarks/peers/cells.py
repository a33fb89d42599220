"""One cell: one system, one column, one placement, with processes of its own on an emptied server; and its verdict."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..load.fleet import MemberFailed
from ..load.judge import FAULTS, Phase, judge
from ..load.order_check import Handled
from ..load.placement import Placement, client_cpus, place_server
from ..load.workload import Workload
from .hand import Hand
from .host import Address
from .installation import python
from .systems import Column, Setting, System
from .workers.stage import Job

HERE = Path(__file__).parent
SLOWEST_RATE = 100
"""Messages a second below which a cell is given up, after LIMIT_S more."""
LIMIT_S = 60.0
DISORDER = ("order_violations", "overlaps")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """What to run. `fill` is the setting by which the backlog is appended, None for one by one."""

    system: System
    column: Column
    placement: Placement
    setting: Setting
    fill: Setting | None
    drain: Setting
    messages: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run of one cell."""

    cell: Cell
    index: int
    is_warmup: bool
    is_trial: bool
    """One to find the best setting: it counts for nothing else."""
    phase: Phase

    @property
    def system(self) -> str:
        return self.cell.system.name

    @property
    def is_valid(self) -> bool:
        return not self.phase.problem and not any(getattr(self.phase, name) for name in self._forbidden)

    @property
    def _forbidden(self) -> tuple[str, ...]:
        return FAULTS if self.cell.system.is_ordered else tuple(name for name in FAULTS if name not in DISORDER)

    @property
    def rate(self) -> float | None:
        """Messages a second, None when it is not valid."""
        if not self.is_valid:
            return None
        return self.phase.append_rate if self.cell.column.is_append else self.phase.rate

    def line(self) -> str:
        """The run in one line, with what went wrong."""
        which = "trial" if self.is_trial else "warm-up" if self.is_warmup else f"run {self.index}"
        said = [f"{self.rate:,.0f}/s"] if self.rate else []
        if faults := self.phase.faults():
            said.append(f"{'' if self.is_valid else 'not valid: '}{'; '.join(faults)}")
        where = f"{self.cell.column.title}, {self.system}, {self.cell.placement}"
        setting = f" {json.dumps(self.cell.setting)}" if self.cell.setting else ""
        return f"{where}{setting}, {which}: {', '.join(said) or 'nothing handled'}"

    def as_json(self) -> dict[str, Any]:
        return {
            "system": self.system,
            "column": self.cell.column.name,
            "placement": self.cell.placement,
            "setting": self.cell.setting,
            "run": self.index,
            "is_warmup": self.is_warmup,
            "is_trial": self.is_trial,
            "rate": self.rate,
            **self.phase.as_json(),
            "is_valid": self.is_valid,
        }


def run_cell(address: Address, cache: Path, cell: Cell, seed: int) -> Phase:
    """Append everything, consume everything, and judge it. Raises ServerError."""
    workload = Workload(cell.column.spread, cell.messages, 1, seed)
    address.command("FLUSHALL")
    place_server(address.url, cell.placement)
    with tempfile.TemporaryDirectory(prefix="sequencer-bench-") as directory:
        plan = Path(directory) / "plan.json"
        plan.write_text(json.dumps([[*message, message.body()] for message in workload.planned(0)]))

        def work(role: str, is_batch: bool, setting: Setting) -> Mapping[str, Any]:
            result = str(Path(directory) / f"{role}.json")
            name = f"peers-{seed}"
            job = Job(role, is_batch, address.host, address.port, name, cell.messages, str(plan), result, setting)
            with Hand(
                command(cell.system, cache), job, client_cpus(cell.placement), **where(cell.system, cache)
            ) as hand:
                return hand.run(LIMIT_S + cell.messages / SLOWEST_RATE)

        appended: Mapping[str, Any] = {}
        rows: list[tuple[str, str, float]] = []
        problem = ""
        try:
            appended = work("produce", cell.fill is not None, cell.fill or {})
            rows = work("consume", False, cell.drain)["rows"]
        except MemberFailed as error:
            problem = str(error)
    return assess(cell.column, workload, appended, rows, problem)


def assess(
    column: Column,
    workload: Workload,
    appended: Mapping[str, Any],
    rows: list[tuple[str, str, float]],
    problem: str = "",
) -> Phase:
    """Judge the rows (group, id, time), which are in the order in which the one process handled them. Pure."""
    handled = [Handled(group, message_id, 0.0, 0, 0, at, at) for group, message_id, at in rows]
    seconds = appended["ended"] - appended["began"] if appended else 0.0
    rate = workload.messages / seconds if seconds > 0 else None
    return judge(column.name, workload, handled, rows[0][2] if rows else 0.0, rate, problem)


def command(system: System, cache: Path) -> list[str]:
    """The worker of this system."""
    if system.kind == "node":
        return [shutil.which("node") or "node", str(HERE / f"{system.name}.mjs")]
    if system.kind == "python":
        return [str(python((cache / system.name).absolute())), "-P", "-m", "workers", system.name]
    # -P: a folder named `sequencer` in the working directory must not stand in for this package.
    return [sys.executable, "-P", "-m", "benchmarks.peers.own", system.name]


def where(system: System, cache: Path) -> dict[str, Any]:
    """The directory of a peer, and what its interpreter may import: its own packages, and `workers`."""
    if not system.packages:
        return {}
    directory = (cache / system.name).absolute()
    return {"cwd": directory, "env": {**os.environ, "PYTHONPATH": str(HERE), "PYTHONWARNINGS": "ignore"}}

"""The model: the lease protocol and its mutants in spin, searched to the end.

`scripts.pml` says what the scripts do; `lease.pml` what their callers do, and the faults. `steps.pml` is about steps
of a message and their notes. Spin makes a search program of them, gcc compiles that, and it visits every state that up
to so many faults can lead to. The good model must hold in all of them, and every run must come to an end; each mutant,
and the naive version, must fail at the check that is about what it breaks, with a trace. A search that was cut short
shows nothing and is a problem, and so is an event of the model that was never met.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..report import Result, Scale
from .models import BROKEN, GOOD, MUTANTS, NAIVE, Model, Search, Size

MODELS = Path(__file__).parent
INSTALL = "apt-get install spin gcc"
DEPTH = 1_000_000
"""Steps of the longest run that is followed; a longer one makes the search incomplete, which is a problem."""
MEMORY_MB = 3000
WORKERS = 2
FLAGS: dict[Search, list[str]] = {
    "states": ["-DSAFETY"],
    "shortest": ["-DSAFETY", "-DBFS"],
    "cycles": ["-DNP", "-DNOFAIR"],
}
BUILD: dict[Size, list[str]] = {"small": ["-O0"], "medium": ["-Og"], "large": ["-O2", "-DCOLLAPSE"]}
"""By the number of states: to compile takes longer than to search a small model, and a large one needs its memory."""
LIMIT_S: dict[Scale, float] = {"smoke": 60.0, "ci": 120.0, "nightly": 600.0}
"""For one search. It is stopped then, and incomplete."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a search said. `violated` is the check that failed, or pan's own words; `trace` the story that led to it."""

    errors: int
    states: int
    depth: int
    is_complete: bool
    met: dict[str, int]
    violated: str = ""
    steps: int = 0
    trace: tuple[str, ...] = ()


def missing() -> str:
    """Why nothing can be searched here, and what to install; "" when all is there."""
    absent = [program for program in ("spin", "gcc") if not shutil.which(program)]
    return f"not found: {' and '.join(absent)}; install: {INSTALL}" if absent else ""


def _command(words: list[str], folder: Path, limit_s: float = 120.0) -> str:
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=limit_s, check=False)
    return done.stdout + done.stderr


def parse(said: str) -> Found:
    """What pan printed. Complete only when nothing cut the search short: no limit of depth, memory or time."""
    totals = re.search(r"State-vector \d+ byte, depth reached (\d+), errors: (\d+)\s+(\d+) states, stored", said)
    cut = re.search(
        r"Search not completed|max search depth too small|out of memory|-DMEMLIM bound|hash table full", said
    )
    met = {name: int(count) for name, count in re.findall(r"^MET (\w+) (\d+)$", said, re.MULTILINE)}
    failed = re.search(r"^pan:\d+: (.+?)(?: \(at depth \d+\))?$", said, re.MULTILINE)
    depth, errors, states = map(int, totals.groups()) if totals else (0, 0, 0)
    return Found(errors, states, depth, totals is not None and not cut, met, failed[1] if failed else "")


def replay(said: str) -> tuple[str, int, tuple[str, ...]]:
    """The check that failed, the steps of the trail, and its story, from what `spin -t -B` printed."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    violated = [line.split()[1] for line in lines if line.startswith("VIOLATED ")]
    steps = re.search(r"trail ends after (\d+) steps", said)
    story = tuple(line for line in lines if not line.startswith(("spin:", "final state", "#processes")))
    return (violated[-1] if violated else ""), int(steps[1]) if steps else 0, story


def search(model: Model, folder: Path, *, limit_s: float = 60.0, depth: int = DEPTH) -> Found:
    """Search the model's states, with files in this empty folder; raises RuntimeError when it can't be compiled."""
    for file in MODELS.glob("*.pml"):
        shutil.copy(file, folder)
    count = [] if model.breaks else ["-DCOUNT"]
    said = _command(["spin", *model.flags, *count, "-a", model.file], folder)
    flags = [*FLAGS[model.search], *BUILD[model.size], f"-DMEMLIM={MEMORY_MB}"]
    if (folder / "pan.c").exists():
        said += _command(["gcc", *flags, "-o", "pan", "pan.c"], folder)
    if not (folder / "pan").exists():
        raise RuntimeError(f"{model.name} can't be compiled: {said[-500:]}")
    cycles = ["-l"] if model.search == "cycles" else []
    try:
        found = parse(_command(["./pan", "-n", f"-m{depth}", *cycles], folder, limit_s))
    except subprocess.TimeoutExpired:
        return Found(0, 0, 0, False, {}, f"stopped after {limit_s:.0f} s")
    if not (folder / f"{model.file}.trail").exists():
        return found
    violated, steps, trace = replay(_command(["spin", *model.flags, "-t", "-B", model.file], folder))
    return Found(
        found.errors, found.states, found.depth, found.is_complete, found.met, violated or found.violated, steps, trace
    )


def events(file: str = "lease.pml") -> set[str]:
    """Everything that this model counts, by the names in its text."""
    names = (file, "scripts.pml") if file == "lease.pml" else (file,)
    texts = [(MODELS / name).read_text(encoding="utf-8") for name in names]
    return {name for text in texts for name in re.findall(r"SEEN\((\w+)\)", text)}


def problem(model: Model, found: Found) -> str:
    """What is wrong with what was found, or ""."""
    if model.breaks:
        if not found.errors or not found.steps:
            return f"the mutant passes: {found.states} states without an error {found.violated}".rstrip()
        if found.violated != model.breaks:
            return f"it fails at {found.violated}, not at {model.breaks}"
        return ""
    if found.errors:
        return f"it fails at {found.violated} after {found.steps} steps: " + "; ".join(found.trace[-8:])
    if not found.is_complete:
        return f"the search was cut short, so that it shows nothing: {found.violated or f'depth {found.depth}'}"
    unmet = events(model.file) - {name for name, count in found.met.items() if count}
    if model.search == "states" and unmet:
        return "never met, so that nothing is shown about it: " + ", ".join(sorted(unmet))
    return ""


@contextmanager
def _room(keep: Path | None) -> Iterator[Path]:
    """Where the files go: `keep`, or a folder that is removed."""
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        yield keep
        return
    with tempfile.TemporaryDirectory(prefix="model-") as name:
        yield Path(name)


def _search_one(model: Model, room: Path, limit_s: float) -> tuple[Model, Found, str]:
    folder = Path(tempfile.mkdtemp(prefix=re.sub(r"\W+", "-", model.name) + "-", dir=room))
    try:
        found = search(model, folder, limit_s=limit_s)
        wrong = problem(model, found)
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        found, wrong = Found(0, 0, 0, False, {}), str(error)
    again = f"python -m tests.faults model --only {model.name!r}"
    return model, found, f"{model.name}: {wrong}; repeat: {again}" if wrong else ""


def run(scale: Scale, *, only: str | None = None, keep: Path | None = None) -> Result:
    """Search the good models of this scale, its mutants and the naive version.

    `only` searches the one model of this name, of any scale, and shows its trace line by line in the figures; `keep` is
    where the search programs and trails stay. Raises ValueError when no model has that name.
    """
    command = f"python -m tests.faults model --scale {scale}" + (f" --only {only!r}" if only else "")
    if reason := missing():
        return Result(name="model", command=command, skipped=reason)
    models = GOOD[scale] + BROKEN[scale]
    if only is not None:
        models = tuple(model for model in GOOD["nightly"] + MUTANTS + NAIVE if model.name.lower() == only.lower())
        if not models:
            raise ValueError(
                f"no model is named {only!r}; mutants: {', '.join(model.name for model in MUTANTS + NAIVE)}"
            )
    began = time.monotonic()
    limit_s = LIMIT_S["nightly" if only else scale]
    with _room(keep) as room, ThreadPoolExecutor(WORKERS) as pool:
        try:
            searched = list(pool.map(lambda model: _search_one(model, room, limit_s), models))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    figures: dict[str, Any] = {}
    met: dict[str, int] = {}
    for model, found, _ in searched:
        figures[model.name] = _figure(model, found)
        if only and found.trace:
            figures["trace"] = list(found.trace)
        for name, count in found.met.items() if model.search == "states" else ():
            met[name] = met.get(name, 0) + count
    return Result(
        name="model",
        command=command,
        runs=len(searched),
        unit="models",
        faults=met,
        figures=figures,
        problems=[wrong for _, _, wrong in searched if wrong],
        seconds=time.monotonic() - began,
    )


def _figure(model: Model, found: Found) -> str:
    if model.breaks:
        return f"fails at {found.violated or 'nothing'} after {found.steps} steps, {found.states} states"
    end = "all of them" if found.is_complete else "cut short"
    return f"{found.states} states, {end}, {found.errors} errors, depth {found.depth}"

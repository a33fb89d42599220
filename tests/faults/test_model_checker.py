"""The lease protocol and its mutants in spin, searched to the end.

`scripts.pml` says what the scripts do; `lease.pml` what their callers do, and the faults. `steps.pml` is about steps
of a message and their notes. Spin makes a search program of them, gcc compiles that, and it visits every state that up
to so many faults can lead to. The good model must hold in all of them, and every run must come to an end; each mutant,
and the naive version, must fail at the check that is about what it breaks. A search that was cut short shows nothing,
and neither does a model of which an event was never met. With SCALE=nightly the large ones are searched too.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest

MISSING = [program for program in ("spin", "gcc") if not shutil.which(program)]
pytestmark = [
    pytest.mark.nightly,
    pytest.mark.timeout(1500),
    pytest.mark.skipif(bool(MISSING), reason=f"not found: {MISSING}; apt-get install spin gcc"),
]

MODELS = Path(__file__).parent / "model"
DEPTH = 1_000_000
"""Steps of the longest run that is followed; a longer one makes the search incomplete."""
MEMORY_MB = 3000
LIMIT_S = 600.0
"""For one search. It is stopped then, and incomplete."""
Search = Literal["states", "shortest", "cycles"]
"""Every state, depth first; every state, breadth first, for the shortest trace; every cycle."""
Size = Literal["small", "medium", "large"]
FLAGS: dict[Search, list[str]] = {
    "states": ["-DSAFETY"],
    "shortest": ["-DSAFETY", "-DBFS"],
    "cycles": ["-DNP", "-DNOFAIR"],
}
BUILD: dict[Size, list[str]] = {"small": ["-O0"], "medium": ["-Og"], "large": ["-O2", "-DCOLLAPSE"]}
"""By the number of states: to compile takes longer than to search a small model, and a large one needs its memory."""


@dataclass(frozen=True, slots=True)
class Model:
    """A file with its macros, and the check that it must fail at, "" where it must hold."""

    file: str
    macros: tuple[str, ...] = ()
    breaks: str = ""
    search: Search = "states"
    size: Size = "small"

    def __str__(self) -> str:
        return " ".join([self.file, *self.macros, self.search])


def lease(groups: int, messages: int, faults: int, size: Size, search: Search = "states", *more: str) -> Model:
    macros = (f"GROUPS={groups}", f"MESSAGES={messages}", f"FAULTS={faults}", *more)
    return Model("lease.pml", macros, search=search, size=size)


def steps(faults: int, size: Size, search: Search = "states") -> Model:
    return Model("steps.pml", (f"FAULTS={faults}",), search=search, size=size)


def mutant(name: str, breaks: str, faults: int, *more: str, file: str = "lease.pml") -> Model:
    """The fewest faults with which it can fail; fewer states, and a trace without anything beside the point."""
    return Model(file, (f"MUTANT={name}", f"FAULTS={faults}", *more), breaks, "shortest")


GOOD = [
    lease(1, 2, 2, "small"),
    lease(1, 2, 1, "small", "cycles"),
    steps(4, "medium"),
    steps(2, "small", "cycles"),
    lease(1, 3, 2, "medium"),
    lease(1, 3, 2, "medium", "states", "EQUAL_SCORES"),
    lease(2, 3, 2, "medium"),
    lease(1, 2, 3, "medium"),
    lease(1, 2, 2, "medium", "cycles"),
]
LARGE = [
    steps(6, "large"),
    lease(1, 3, 3, "large"),
    lease(1, 3, 3, "large", "states", "EQUAL_SCORES"),
    lease(1, 2, 4, "large"),
    lease(1, 3, 2, "large", "cycles", "EQUAL_SCORES"),
    lease(2, 3, 2, "large", "cycles"),
]
BROKEN = [
    mutant("ACK_WITHOUT_TOKEN", "EXCLUSIVE", 1),
    mutant("ACK_BY_POSITION", "LOST_MESSAGE", 0),
    mutant("RELEASE_WITHOUT_TOKEN", "EXCLUSIVE", 1),
    mutant("RELEASE_WITHOUT_LOOK", "SCHEDULED", 0),
    mutant("RENEW_WITHOUT_TOKEN", "WAITS_FOR_NOTHING", 1),
    mutant("RENEW_RECREATES", "SCHEDULED", 1),
    mutant("APPEND_WITHOUT_SCHEDULE", "SCHEDULED", 0),
    mutant("APPEND_WITHOUT_NX", "HELD", 0),
    mutant("APPEND_FORGETS", "ONCE", 1),
    mutant("APPEND_WAKES_PARKED", "RESUMED", 1, "MAX_ATTEMPTS=1"),
    mutant("TOKEN_STAYS", "TOKEN_GROWS", 0),
    mutant("CLAIM_KEEPS_TOKEN", "TOKEN_GROWS", 1),
    mutant("CLAIM_TAKES_OUT", "SCHEDULED", 0),
    mutant("CLAIM_INVENTS", "INVENTED", 0),
    mutant("HINT_IS_TRUTH", "STUCK", 1),
    mutant("NACK_KEEPS_LEASE", "ENDED", 1),
    mutant("TAKE_KEEPS_LEASE", "ENDED", 2),
    mutant("NACK_BEFORE_ACK", "NEEDLESS_REPEAT", 1),
    mutant("NACK_IGNORES_ACK", "NEEDLESS_REPEAT", 2),
    mutant("SKIPS_FAILED", "ORDER", 1),
    mutant("START_AFTER_CALL", "SETTLED", 1, file="steps.pml"),
    mutant("NOTE_NOT_WAITED", "AHEAD", 1, file="steps.pml"),
    mutant("NOTE_WITHOUT_TOKEN", "SETTLED", 1, file="steps.pml"),
    mutant("NOTE_WITHOUT_SERIAL", "SETTLED", 2, file="steps.pml"),
    mutant("NOTE_WITHOUT_BEFORE", "AHEAD", 1, file="steps.pml"),
    mutant("ONCE_AS_AUTOMATIC", "TWICE", 1, file="steps.pml"),
    mutant("ACK_OF_AN_OPEN_STEP", "UNFINISHED", 0, file="steps.pml"),
    mutant("QUESTION_DROPPED", "UNFINISHED", 1, file="steps.pml"),
    Model("naive.pml", (), "STUCK", "shortest"),
    Model("naive.pml", ("CRASHES=1", "MESSAGES=1"), "STUCK", "shortest"),
]


@dataclass(frozen=True, slots=True)
class Found:
    """What a search said. `violated` is the check that failed, or pan's own words."""

    errors: int
    is_complete: bool
    met: set[str]
    violated: str = ""
    story: str = ""


def _command(words: list[str], folder: Path, limit_s: float = 120.0) -> str:
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=limit_s, check=False)
    return done.stdout + done.stderr


def search(model: Model, folder: Path, depth: int = DEPTH) -> Found:
    """Search the model's states, with files in this empty folder. Complete only where no limit cut it short."""
    for file in MODELS.glob("*.pml"):
        shutil.copy(file, folder)
    macros = [f"-D{macro}" for macro in model.macros]
    count = [] if model.breaks else ["-DCOUNT"]
    said = _command(["spin", *macros, *count, "-a", model.file], folder)
    flags = [*FLAGS[model.search], *BUILD[model.size], f"-DMEMLIM={MEMORY_MB}"]
    said += _command(["gcc", *flags, "-o", "pan", "pan.c"], folder)
    assert (folder / "pan").exists(), f"it can't be compiled: {said[-500:]}"
    cycles = ["-l"] if model.search == "cycles" else []
    said = _command(["./pan", "-n", f"-m{depth}", *cycles], folder, LIMIT_S)
    total = re.search(r"State-vector \d+ byte, depth reached \d+, errors: (\d+)\s+\d+ states, stored", said)
    cut = re.search(
        r"Search not completed|max search depth too small|out of memory|-DMEMLIM bound|hash table full", said
    )
    met = {name for name, times in re.findall(r"^MET (\w+) (\d+)$", said, re.MULTILINE) if int(times)}
    failed = re.search(r"^pan:\d+: (.+?)(?: \(at depth \d+\))?$", said, re.MULTILINE)
    violated = failed[1] if failed else ""
    if (folder / f"{model.file}.trail").exists():
        said = _command(["spin", *macros, "-t", "-B", model.file], folder)
        violated = (re.findall(r"VIOLATED (\w+)", said) or [violated])[-1]
    return Found(int(total[1]) if total else 0, bool(total) and not cut, met, violated, said[-2000:])


def events(file: str) -> set[str]:
    """Everything that this model counts, by the names in its text."""
    names = (file, "scripts.pml") if file == "lease.pml" else (file,)
    texts = [(MODELS / name).read_text(encoding="utf-8") for name in names]
    return {name for text in texts for name in re.findall(r"SEEN\((\w+)\)", text)}


@pytest.mark.parametrize("model", GOOD + (LARGE if os.environ.get("SCALE") == "nightly" else []), ids=str)
def test_the_protocol_holds_in_every_state(model: Model, tmp_path: Path) -> None:
    found = search(model, tmp_path)
    assert not found.errors, found.story
    assert found.is_complete, found.story
    assert model.search != "states" or found.met >= events(model.file), "a model in which nothing happens holds too"


@pytest.mark.parametrize("model", BROKEN, ids=str)
def test_a_mutant_fails_at_the_check_that_is_about_it(model: Model, tmp_path: Path) -> None:
    found = search(model, tmp_path)
    assert (found.errors, found.violated) == (1, model.breaks), found.story


def test_a_search_cut_short_is_seen(tmp_path: Path) -> None:
    assert not search(GOOD[0], tmp_path, depth=60).is_complete


def test_every_check_is_seen_red_on_a_mutant() -> None:
    texts = [file.read_text(encoding="utf-8") for file in MODELS.glob("*.pml")]
    checks = {name for text in texts for name in re.findall(r"CHECK\(([A-Z_]+),", text)}
    assert checks == {one.breaks for one in BROKEN}

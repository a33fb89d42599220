"""The model of the lease protocol, and that its checks turn red: mutants, the naive version, searches cut short."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .model import fault_test as model
from .model import models
from .report import Result

pytestmark = pytest.mark.nightly

GOOD = models.GOOD["smoke"][0]
NEEDED = pytest.mark.skipif(bool(model.missing()), reason=model.missing() or "spin and gcc are there")


@pytest.fixture(scope="module")
def result() -> Result:
    return model.run("smoke")


@NEEDED
def test_the_protocol_holds_and_each_mutant_fails_for_its_own_reason(result: Result) -> None:
    assert list(result.problems) == []
    assert result.runs == len(models.GOOD["smoke"]) + len(models.BROKEN["smoke"]) == len(result.figures)
    for mutant in models.BROKEN["smoke"]:
        assert result.figures[mutant.name].startswith(f"fails at {mutant.breaks} after ")


@NEEDED
def test_the_faults_are_in_what_was_searched(result: Result) -> None:
    """A model in which nothing happens holds too: each event of its text was met."""
    assert set(result.faults) >= model.events() | model.events(models.STEPS)
    assert all(result.faults.values())


@NEEDED
def test_a_search_cut_short_is_a_problem(tmp_path: Path) -> None:
    found = model.search(GOOD, tmp_path, depth=60)
    assert (found.errors, found.is_complete) == (0, False)
    assert "cut short" in model.problem(GOOD, found)
    assert "stopped after" in model.problem(GOOD, model.search(GOOD, tmp_path, limit_s=0.01))


@NEEDED
def test_a_good_model_that_fails_and_a_mutant_that_breaks_nothing_are_problems(tmp_path: Path) -> None:
    broken = models.Model("broken", macros=("MUTANT=TOKEN_STAYS", "FAULTS=1"))
    assert model.problem(broken, model.search(broken, tmp_path)).startswith("it fails at TOKEN_GROWS after ")
    harmless = models.Model("harmless", macros=("MUTANT=99", "FAULTS=0"), breaks="ORDER", search="shortest")
    assert model.problem(harmless, model.search(harmless, tmp_path)).startswith("the mutant passes")


def test_every_check_is_seen_red_on_a_mutant() -> None:
    texts = [file.read_text(encoding="utf-8") for file in model.MODELS.glob("*.pml")]
    checks = {name for text in texts for name in re.findall(r"CHECK\(([A-Z_]+),", text)}
    assert checks == {mutant.breaks for mutant in models.MUTANTS + models.NAIVE}
    assert models.BROKEN["ci"] == models.BROKEN["nightly"] == models.MUTANTS + models.NAIVE


SAID = """
State-vector 124 byte, depth reached 241, errors: 0
   214825 states, stored
MET consumer_died 12
"""


def test_what_the_search_printed_is_read() -> None:
    found = model.parse(SAID)
    assert (found.errors, found.states, found.depth, found.is_complete) == (0, 214825, 241, True)
    assert found.met == {"consumer_died": 12}
    for line in ("error: max search depth too small", "pan: out of memory", "Warning: Search not completed"):
        assert not model.parse(f"{line}\n{SAID}").is_complete


def test_an_event_never_met_is_a_problem() -> None:
    found = model.Found(0, 10, 10, True, dict.fromkeys(model.events() - {"consumer_died"}, 1))
    assert model.problem(GOOD, found).endswith(": consumer_died")

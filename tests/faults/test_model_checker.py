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
def test_the_protocol_holds_and_the_mutants_fail(result: Result) -> None:
    assert list(result.problems) == []
    assert result.is_passed
    assert result.runs == len(models.GOOD["smoke"]) + len(models.BROKEN["smoke"]) == len(result.figures)


@NEEDED
@pytest.mark.parametrize("mutant", models.BROKEN["smoke"], ids=lambda mutant: mutant.name)
def test_a_mutant_fails_for_its_own_reason_with_a_trace(result: Result, mutant: models.Model) -> None:
    assert result.figures[mutant.name].startswith(f"fails at {mutant.breaks} after ")
    assert " after 0 steps" not in result.figures[mutant.name]


@NEEDED
def test_the_faults_are_in_what_was_searched(result: Result) -> None:
    """A model in which nothing happens holds too: each event of its text was met, and these by name."""
    assert set(result.faults) >= model.events() | model.events(models.STEPS)
    for name in (
        "consumer_died",
        "lease_of_the_living_ran_out",
        "claim_of_an_expired_lease",
        "append_repeated_while_pending",
        "append_repeated_after_handled",
        "reply_lost",
        "late_request_refused",
        "delivered_twice",
        "late_message_arrived",
        "two_handlers_after_a_lease_ran_out",
        "note_behind_an_ack",
        "note_repeated",
        "answered_again",
    ):
        assert result.faults[name] > 0, name


@NEEDED
def test_a_trace_is_told_as_a_story(tmp_path: Path) -> None:
    result = model.run("smoke", only="naive_wake_up", keep=tmp_path)
    assert result.is_passed
    assert result.runs == 1
    assert result.figures["trace"][-1] == "VIOLATED STUCK"
    assert "the producer sees the guard and pushes nothing" in result.figures["trace"]
    assert list(tmp_path.glob("*/naive.pml.trail"))


@NEEDED
def test_a_search_cut_short_by_its_depth_is_a_problem(tmp_path: Path) -> None:
    found = model.search(GOOD, tmp_path, depth=60)
    assert found.errors == 0
    assert found.states > 0
    assert not found.is_complete
    assert "cut short" in model.problem(GOOD, found)


@NEEDED
def test_a_search_cut_short_by_its_time_is_a_problem(tmp_path: Path) -> None:
    found = model.search(GOOD, tmp_path, limit_s=0.01)
    assert "stopped after" in model.problem(GOOD, found)


@NEEDED
def test_a_good_model_that_fails_is_a_problem(tmp_path: Path) -> None:
    broken = models.Model("broken", macros=("MUTANT=TOKEN_STAYS", "FAULTS=1"))
    wrong = model.problem(broken, model.search(broken, tmp_path))
    assert wrong.startswith("it fails at TOKEN_GROWS after ")


@NEEDED
def test_a_mutant_that_breaks_nothing_is_a_problem(tmp_path: Path) -> None:
    harmless = models.Model("harmless", macros=("MUTANT=99", "FAULTS=0"), breaks="ORDER", search="shortest")
    assert model.problem(harmless, model.search(harmless, tmp_path)).startswith("the mutant passes")


@NEEDED
def test_a_cycle_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The search for cycles turns red where a run need not end: here a network that delivers again without a limit."""
    folder = tmp_path / "models"
    folder.mkdir()
    for file in model.MODELS.glob("*.pml"):
        text = file.read_text(encoding="utf-8")
        (folder / file.name).write_text(text.replace("late_kind != 0 && faults < FAULTS -> HARM;", "late_kind != 0 ->"))
    monkeypatch.setattr(model, "MODELS", folder)
    (tmp_path / "search").mkdir()
    found = model.search(models.GOOD["smoke"][1], tmp_path / "search")
    assert found.violated == "non-progress cycle"


def test_every_check_is_seen_red_on_a_mutant() -> None:
    texts = [file.read_text(encoding="utf-8") for file in model.MODELS.glob("*.pml")]
    checks = {name for text in texts for name in re.findall(r"CHECK\(([A-Z_]+),", text)}
    assert checks == {mutant.breaks for mutant in models.MUTANTS + models.NAIVE}


def test_every_mutant_of_the_model_is_searched() -> None:
    assert models.BROKEN["ci"] == models.BROKEN["nightly"] == models.MUTANTS + models.NAIVE
    assert {mutant.name for mutant in models.BROKEN["smoke"]} == {*models.FEW, *(naive.name for naive in models.NAIVE)}
    text = (model.MODELS / "settings.pml").read_text(encoding="utf-8")
    assert set(re.findall(r"#define ([A-Z_]+) \d+$", text, re.MULTILINE)) - {"GROUPS", "MESSAGES", "MAX_ATTEMPTS"} == {
        mutant.name for mutant in models.MUTANTS
    }


SAID = """
State-vector 124 byte, depth reached 241, errors: 0
   214825 states, stored
MET consumer_died 12
"""


def test_what_the_search_printed_is_read() -> None:
    found = model.parse(SAID)
    assert (found.errors, found.states, found.depth, found.is_complete) == (0, 214825, 241, True)
    assert found.met == {"consumer_died": 12}


@pytest.mark.parametrize(
    "said",
    [
        "",
        "error: max search depth too small\n" + SAID,
        "pan: out of memory\n" + SAID,
        "pan: reached -DMEMLIM bound\n" + SAID,
        "Warning: Search not completed\n" + SAID,
    ],
)
def test_what_was_cut_short_is_not_complete(said: str) -> None:
    assert not model.parse(said).is_complete


def test_another_reason_than_its_own_is_a_problem() -> None:
    mutant = models.MUTANTS[0]
    found = model.Found(1, 10, 10, False, {}, "STUCK", 9, ("VIOLATED STUCK",))
    assert model.problem(mutant, found) == f"it fails at STUCK, not at {mutant.breaks}"


def test_an_event_never_met_is_a_problem() -> None:
    found = model.Found(0, 10, 10, True, dict.fromkeys(model.events() - {"consumer_died"}, 1))
    assert model.problem(GOOD, found).endswith(": consumer_died")


def test_a_missing_program_is_said_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda program: None)
    result = model.run("smoke")
    assert result.skipped == "not found: spin and gcc; install: apt-get install spin gcc"
    assert not result.is_passed


def test_an_unknown_model_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda program: program)
    with pytest.raises(ValueError, match="no model is named"):
        model.run("smoke", only="nothing")

"""The fault_test of the shell: a few quick cases pass and their controls are found; a control that passes is a
problem.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from sequencer import EmbeddedServer

from . import signals
from .server.host import is_ended
from .signals import controls_consumer, controls_supervisor
from .signals.case import Case
from .signals.fault_test import CASES, SMOKE, run_cases
from .signals.scene import LeftOut, NotReady, Scene
from .strays import strays

pytestmark = pytest.mark.nightly

CONDITIONS = {"hurried", "claims-many", "stands-shortly", "no-temporary-folder"}
"""Of controls.py: what a case needs, and no control."""
ENTRIES = {"old-entry"}
"""Controls that are programs of their own."""


def test_a_few_cases_pass_and_their_controls_are_found() -> None:
    result = signals.run("smoke")
    assert list(result.problems) == []
    assert result.runs == len(SMOKE)
    assert result.figures["negative control found"] >= len(SMOKE)
    assert result.faults["SIGTERM to all"] == 1


def test_every_case_has_a_control_and_every_control_a_case() -> None:
    assert all(case.controls for case in CASES)
    assert len({case.name for case in CASES}) == len(CASES)
    used = [control for case in CASES for control in case.controls]
    assert sorted(used) == sorted({*used}), "each belongs to one case"
    assert {*used} - ENTRIES == {*controls_supervisor.CHANGES, *controls_consumer.CHANGES} - CONDITIONS
    assert {*SMOKE} <= {case.name for case in CASES}


def test_another_case_is_wrong_use() -> None:
    with pytest.raises(ValueError, match="control-group, starting, importing"):
        signals.run("smoke", only="controlgroup")


def problems(case: Case) -> list[str]:
    ((name, seen),) = run_cases([case])
    assert name == case.name
    return seen.problems


def fail_with(*text: str) -> None:
    raise AssertionError(*text)


def test_a_control_that_passes_is_a_problem() -> None:
    case = Case("idle", lambda scene: None, {"no-grace": "anything"})
    assert problems(case) == ["idle: the control 'no-grace' passes; python -m tests.faults signals --only idle"]


def test_a_control_that_is_found_by_something_else_is_a_problem() -> None:
    def play(scene: Scene) -> None:
        if scene.control:
            scene.wait(lambda: False, "never", 0.01)

    (problem,) = problems(Case("unready", play, {"no-grace": "interrupted"}))
    assert "the control 'no-grace' is not found by 'interrupted' but by: NotReady: not within 0.01 s: never" in problem


def test_a_case_that_fails_is_a_problem_and_its_controls_are_not_asked() -> None:
    case = Case("broken", lambda scene: fail_with("it was cut"), {"no-grace": "it was cut"})
    assert problems(case) == ["broken: it was cut; python -m tests.faults signals --only broken"]
    (problem,) = problems(Case("wordless", lambda scene: fail_with(), {}))
    assert problem.startswith("wordless: AssertionError")


def test_a_case_that_can_not_be_had_here_is_left_out() -> None:
    def play(scene: Scene) -> None:
        raise LeftOut("there is no /proc here")

    ((_, seen),) = run_cases([Case("absent", play, {"no-grace": "x"})])
    assert (seen.problems, seen.runs, seen.left_out) == ([], 0, "there is no /proc here")


def test_an_end_while_cases_are_handed_out_is_told_to_those_that_began(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[bool] = []
    submit = ThreadPoolExecutor.submit

    def submit_one(self: ThreadPoolExecutor, *words: Any) -> Future[Any]:
        if self._threads:
            raise KeyboardInterrupt
        return submit(self, *words)

    monkeypatch.setattr(ThreadPoolExecutor, "submit", submit_one)
    with pytest.raises(KeyboardInterrupt):
        run_cases([Case(name, lambda scene: told.append(is_ended.wait(5)), {}) for name in "ab"])
    is_ended.clear()
    assert told == [True]


@pytest.fixture
def scene(server: EmbeddedServer, tmp_path: Path, namespace: str) -> Iterator[Scene]:
    scene = Scene(server.url, tmp_path / "scene", namespace=namespace)
    yield scene
    scene.close()


def test_the_end_of_a_scene_is_the_end_of_its_processes(scene: Scene) -> None:
    scene.append("a", {"gate": "never", "stranger": True})
    running = scene.consume()
    scene.wait_begun("a-0")
    mark = f"SQ_SIGNALS={scene.directory}"
    assert len(running.consumers()) == 1
    scene.close()
    assert running.status == -signal.SIGKILL
    assert strays(mark) == []
    assert not scene.directory.exists()
    scene.directory.mkdir()


def test_what_a_case_waits_for_in_vain_comes_with_what_was_said(scene: Scene) -> None:
    running = scene.start("consume", "jobs", "--exec", "no-such-command")
    scene.wait(lambda: running.status is not None, "its end")
    with pytest.raises(NotReady, match=r"not within 0 s: rain; last: False; it said: error: .*no-such-command"):
        scene.wait(lambda: False, "rain", 0)

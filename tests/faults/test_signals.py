"""The cases of signals: a few quick ones pass and their controls are found; a control that passes is a problem."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from sequencer import EmbeddedServer

from . import signals
from .signals import controls_consumer, controls_supervisor
from .signals.case import Case
from .signals.fault_test import CASES, SMOKE, run_cases
from .signals.scene import NotReady, Scene
from .strays import strays

pytestmark = pytest.mark.nightly

CONDITIONS = {"hurried", "claims-many"}
"""What a case needs, and no control."""


def test_a_few_cases_pass_and_their_controls_are_found() -> None:
    result = signals.run("smoke")
    assert list(result.problems) == []
    assert result.runs == len(SMOKE)
    assert result.figures["negative control found"] >= 1


def test_every_control_belongs_to_one_case() -> None:
    used = [control for case in CASES for control in case.controls]
    assert sorted(used) == sorted({*controls_supervisor.CHANGES, *controls_consumer.CHANGES} - CONDITIONS)
    assert {*SMOKE} <= {case.name for case in CASES}


def problem(case: Case) -> str:
    ((_, seen),) = run_cases([case])
    (found,) = seen.problems
    return found


def test_a_control_that_passes_or_is_found_by_something_else_is_a_problem() -> None:
    def play(scene: Scene) -> None:
        if scene.control:
            scene.wait(lambda: False, "never", 0.01)

    assert "idle: the control 'no-grace' passes" in problem(Case("idle", lambda scene: None, {"no-grace": "anything"}))
    assert "is not found by 'interrupted' but by: NotReady" in problem(Case("x", play, {"no-grace": "interrupted"}))


def test_a_case_that_fails_is_a_problem() -> None:
    def play(scene: Scene) -> None:
        raise AssertionError("it was cut")

    assert problem(Case("b", play, {"no-grace": "x"})) == "b: it was cut; python -m tests.faults signals --only b"


@pytest.fixture
def scene(server: EmbeddedServer, tmp_path: Path, namespace: str) -> Iterator[Scene]:
    scene = Scene(server.url, tmp_path / "scene", namespace=namespace)
    yield scene
    scene.close()


def test_the_end_of_a_scene_is_the_end_of_its_processes(scene: Scene) -> None:
    scene.append("a", {"gate": "never", "stranger": True})
    running = scene.consume()
    scene.wait_begun("a-0")
    with pytest.raises(NotReady, match="not within 0 s: rain"):
        scene.wait(lambda: False, "rain", 0)
    scene.close()
    assert running.status == -signal.SIGKILL
    assert strays(f"SQ_SIGNALS={scene.directory}") == []
    scene.directory.mkdir()

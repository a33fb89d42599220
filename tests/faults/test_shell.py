"""The shell's cases: a few quick ones pass and their twins are found; a twin that passes is a problem."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from sequencer import EmbeddedServer

from . import shell
from .shell import twins_consumer, twins_supervisor
from .shell.case import Case
from .shell.proof import CASES, SMOKE, run_cases
from .shell.scene import NotReady, Scene
from .strays import strays

pytestmark = pytest.mark.nightly

CONDITIONS = {"hurried", "claims-many"}
"""What a case needs, and no twin."""


def test_a_few_cases_pass_and_their_twins_are_found() -> None:
    result = shell.run("smoke")
    assert list(result.problems) == []
    assert result.runs == len(SMOKE)
    assert result.figures["broken twins found"] >= 1


def test_every_twin_belongs_to_one_case() -> None:
    used = [twin for case in CASES for twin in case.twins]
    assert sorted(used) == sorted({*twins_supervisor.CHANGES, *twins_consumer.CHANGES} - CONDITIONS)
    assert {*SMOKE} <= {case.name for case in CASES}


def problem(case: Case) -> str:
    ((_, seen),) = run_cases([case])
    (found,) = seen.problems
    return found


def test_a_twin_that_passes_or_is_found_by_something_else_is_a_problem() -> None:
    def play(scene: Scene) -> None:
        if scene.twin:
            scene.wait(lambda: False, "never", 0.01)

    assert "idle: the twin 'no-grace' passes" in problem(Case("idle", lambda scene: None, {"no-grace": "anything"}))
    assert "is not found by 'interrupted' but by: NotReady" in problem(Case("x", play, {"no-grace": "interrupted"}))


def test_a_case_that_fails_is_a_problem() -> None:
    def play(scene: Scene) -> None:
        raise AssertionError("it was cut")

    assert problem(Case("b", play, {"no-grace": "x"})) == "b: it was cut; python -m tests.faults shell --only b"


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
    assert strays(f"SQ_SHELL={scene.directory}") == []
    scene.directory.mkdir()

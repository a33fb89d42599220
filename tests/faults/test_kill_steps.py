"""Steps under `kill_everywhere`: real processes, killed at each point of a step; effects are counted outside.

S-1 and S-2 of the design, small. A twin has one rule of the engine taken out, and is found.
"""

from __future__ import annotations

import json
from collections import Counter
from itertools import groupby
from pathlib import Path

import pytest

from sequencer.drain.steps.rules import View
from sequencer.drain.steps.runner import StepRunner
from sequencer.testing.kill_everywhere import KillReport, kill_everywhere

APP = '''"""An app of a user: what each step did is in the file `effects`."""

import json, os

from sequencer import Sequencer

seq = Sequencer("gifts", group_by=("couple",), id_by="id", score_by="n", backoff=0.01, max_attempts=9)
ONCE = {once}


def effect(message, step):
    with open("effects", "a", encoding="utf-8") as effects:
        print(json.dumps([message.id, step.name, step.key]), file=effects)
    return step.name


for order, name in enumerate(("a", "b", "c")):
    seq.step(name=name, order=order, once=name in ONCE)(effect)
'''
UNWAITED = """
from sequencer.drain.steps.runner import StepRunner


def unwaited(self, group, asked):
    return 1
    yield


StepRunner._note = unwaited
"""
ONCE_AS_AUTOMATIC = """
from sequencer.drain.steps.rules import View

is_open = View.is_open
View.is_open = lambda self, step: is_open(self, step) or self.entry(step.name).state == "started"
"""
GIFTS = [{"couple": couple, "id": f"{couple}{n}", "n": n} for couple in "xy" for n in (1, 2)]


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for where, name in ((StepRunner, "_note"), (View, "is_open")):  # the twins' applications are imported here too
        monkeypatch.setattr(where, name, getattr(where, name))
    return tmp_path / f"gifts_{tmp_path.name.replace('-', '_')}.py"


def run(app: Path, once: str = "", twin: str = "", points: tuple[str, ...] = (), most: int = 1) -> KillReport:
    app.write_text(APP.replace("{once}", repr(once)) + twin)
    return kill_everywhere(
        f"{app.stem}:seq", GIFTS, points=points, before=forget, check=check_once if once else check, most=most
    )


def forget() -> None:
    Path("effects").unlink(missing_ok=True)


def effects() -> list[tuple[str, str, str]]:
    return [tuple(json.loads(line)) for line in Path("effects").read_text().splitlines()]


def check() -> None:
    """At least once each, and a repeat is one of the step that was done last, under the same key."""
    done = effects()
    for gift in GIFTS:
        steps = [step for id, step, _ in done if id == gift["id"]]
        assert [step for step, _ in groupby(steps)] == ["a", "b", "c"], f"{gift['id']} ran {steps}"
    keys = {(id, step): key for id, step, key in done}
    assert len(set(done)) == len(keys) == 12, "one key each"
    assert len(done) <= 13, "a kill repeats one step"


def check_once() -> None:
    """The `once` step at most once each."""
    often = {key: count for key, count in Counter(effects()).items() if count > 1 and key[1] == "b"}
    assert not often, f"again: {sorted(often)}"


@pytest.mark.slow
def test_a_kill_repeats_an_automatic_step_at_most_once_and_only_the_last(app: Path) -> None:
    points = ("step:a:before", "step:a:after", "step:a:noted", "step:b:after", "step:b:noted", "step:c:after")
    report = run(app, points=points)
    assert report.is_clean, report
    assert report.kills == len(points)
    assert report.questions == 0


@pytest.mark.slow
def test_a_kill_in_a_once_step_is_a_question_and_never_a_second_run(app: Path) -> None:
    report = run(app, once="b", points=("step:a:after", "step:b:before", "step:b:after", "step:c:before"))
    assert report.is_clean, report
    assert report.questions == 2, "where it had begun, and its end was not in the server"


@pytest.mark.slow
def test_the_end_of_a_once_step_is_no_question_once_it_is_noted(app: Path) -> None:
    """Its points in turn: its start is noted, its end is noted."""
    report = run(app, once="b", points=("step:b:noted",), most=2)
    assert report.is_clean, report
    assert report.questions == 1


@pytest.mark.slow
def test_steps_whose_notes_are_not_waited_for_are_found(app: Path) -> None:
    report = run(app, twin=UNWAITED, points=("step:b:after",))
    assert "x1 ran ['a', 'b', 'a', 'b', 'c']" in str(report.problems)


@pytest.mark.slow
def test_a_once_step_that_is_handled_as_automatic_is_found(app: Path) -> None:
    report = run(app, once="b", twin=ONCE_AS_AUTOMATIC, points=("step:b:after",))
    assert "check: again: [('x1', 'b', 'gifts/x/x1/" in str(report.problems)

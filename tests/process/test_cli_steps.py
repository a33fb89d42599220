"""Steps on the command line: what became of them, and answers for one whose end nobody knows."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from typing import Any

import orjson
import pytest

from sequencer import Sequencer, StopConsuming

from ..support.said import json_of, refused
from .conftest import Cli


@pytest.fixture
def asked(make: Callable[..., Sequencer]) -> Sequencer:
    """Group ann is parked on g1, whose step `charge` may have taken effect; g2 waits behind it."""
    queue = make(group_by=["couple"], id_by="gift", max_attempts=1)

    @queue.step(once=True)
    def charge(message: Any, step: Any) -> Any:
        if message.id == "g1" and "#" not in step.key:
            raise ConnectionResetError("no answer")
        return {"payment": message.id}

    @queue.step(order=2, after="charge")
    def points(message: Any, step: Any) -> Any:
        return [step.result["payment"]]

    queue.append_many([{"couple": "ann", "gift": "g1"}, {"couple": "ann", "gift": "g2"}])
    assert queue.consume(until_empty=True).failed == 1
    return queue


def test_steps_are_shown_with_the_question_and_its_commands_work_as_they_stand(cli: Cli, asked: Sequencer) -> None:
    shown = cli.call("steps", "jobs", "ann").stdout
    assert [line.split()[:3] for line in shown.splitlines()[:3]] == [
        ["step", "outcome", "attempts"],
        ["charge", "failed", "(once)"],
        ["points", "open", "0"],
    ]
    assert json_of(cli, "steps", "jobs", "ann")["steps"][0]["attempts"] == 1
    assert "ConnectionResetError: no answer" in shown
    assert shown in cli.call("steps", "jobs", "ann", "--id", "g1").stdout
    done, again = (line[line.index("sequencer ") :] for line in shown.splitlines()[-2:])
    assert done.replace("--done", "--again") == again
    assert cli.call(*shlex.split(done)[1:]).returncode == 0
    (charge, _) = json_of(cli, "steps", "jobs", "ann")["steps"]
    assert (charge["state"], charge["result"]) == ("done", None)
    assert "@" in charge["who"]


def test_many_are_answered_at_once(cli: Cli, asked: Sequencer) -> None:
    left = cli.call("resume", "jobs", "--all")
    assert (left.returncode, asked.snapshot().parked) == (1, 1)
    assert "sequencer resume jobs --error StepUnknown --done STEP" in left.stdout
    assert json_of(cli, "resume", "jobs", "--error", "StepUnknown", "--again", "charge")["done"] == 1
    assert asked.consume(until_empty=True).handled == 2


def test_a_wrong_answer_is_refused_and_changes_nothing(cli: Cli, asked: Sequencer) -> None:
    for words in (
        ("--result", "1"),
        ("--done", "charge", "--done", "points", "--result", "1"),
        ("--done", "charge", "--result", "p9"),
        ("--done", "refund"),
        ("--again", "points"),
        ("--again", "charge", "--attempt", "2"),
    ):
        assert refused(cli, "resume", "jobs", "ann", *words)
    assert asked.snapshot().parked == 1


def test_a_dead_letter_waits_for_its_answer(cli: Cli, asked: Sequencer) -> None:
    asked.skip("ann", dead_letter=True)
    answer = "sequencer dead redrive jobs ann --id g1 --done charge --attempt 1"
    assert answer in cli.call("steps", "jobs", "ann", "--id", "g1").stdout
    assert json.loads(cli.call("dead", "redrive", "jobs", "--all", "--json").stdout)["asked"] == 1
    assert json_of(cli, "dead", "redrive", "jobs", "ann", "--id", "g1", "--again", "charge")["redriven"] == 1
    assert asked.consume(until_empty=True).handled == 2


def test_a_dead_letter_counts_a_step_that_began_and_never_ended(cli: Cli, make: Callable[..., Sequencer]) -> None:
    queue = make(on_unresolved="dead_letter")

    @queue.step(once=True)
    def charge(message: Any, step: Any) -> Any:
        raise StopConsuming

    queue.append({}, "ann", id="g1")
    for _ in range(2):
        queue.consume(until_empty=True)
    (letter,) = json_of(cli, "dead", "list", "jobs")
    assert (letter["error"]["type"], letter["attempts"]) == ("StepUnknown", 1)


def test_skip_says_what_became_of_the_steps_of_what_it_removed(cli: Cli, asked: Sequencer) -> None:
    told = json_of(cli, "steps", "jobs", "ann")
    assert refused(cli, "skip", "jobs", "ann")
    done = cli.call("skip", "jobs", "ann", "--yes")
    assert "sequencer unskip jobs ann --id g1" in done.stderr
    assert "failed (once)" in done.stderr
    assert "--done" not in done.stderr, "first it has to be put back"
    asked.unskip("ann")
    assert asked.consume(until_empty=True).failed == 1
    removed = json_of(cli, "skip", "jobs", "ann", "--yes")
    assert (removed["id"], removed["steps"]["questions"]) == ("g1", ["charge"])
    assert [step["key"] for step in removed["steps"]["steps"]] == [step["key"] for step in told["steps"]]


def test_a_line_may_say_that_steps_are_done_already(cli: Cli, make: Callable[..., Sequencer]) -> None:
    make().connect()
    line = {"group": "ann", "id": "g1", "body": {}, "done": {"charge": {"payment": "p9"}}}
    cli.call("append", "jobs", input=orjson.dumps(line).decode())
    (step,) = json_of(cli, "steps", "jobs", "ann")["steps"]
    assert (step["name"], step["state"], step["result"]) == ("charge", "done", {"payment": "p9"})

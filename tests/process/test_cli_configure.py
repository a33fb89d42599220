"""`configure`, and what the policies of a queue change in `append` and `consume`; right and wrong use."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from sequencer import Sequencer
from sequencer.net.link import Link
from sequencer.settings.policy import Policy

from ..support.said import dump, ids, json_of, refused
from .conftest import Cli

FAR = 4_000_000_000


def test_configure_shows_the_policy_and_sets_what_is_named(
    cli: Cli, link: Link, make: Callable[..., Sequencer]
) -> None:
    assert refused(cli, "configure", "jobs")
    assert link.command("KEYS", "*") == [], "without options it makes no queue"

    options = ("--dedup-window", 5, "--dedup-cap", 10, "--on-late", "drop", "--watermark-window", 60)
    more = ("--watermark-cap", 20, "--reorder-window", 0.5, "--gap-timeout", 7, "--on-gap", "skip", "--no-sequence")
    assert json_of(cli, "configure", "jobs", *options, *more)["queue"] == "jobs"
    wanted = Policy(
        dedup_window=5.0,
        dedup_cap=10,
        on_late="drop",
        watermark_window=60.0,
        watermark_cap=20,
        reorder_window=0.5,
        gap_timeout=7.0,
        on_gap="skip",
    )
    assert make().policy == wanted

    changed = cli.run("configure", "jobs", "--on-late", "refuse")
    assert "policy changed: on_late from 'drop' to 'refuse'" in changed.stderr
    again = json_of(cli, "configure", "jobs")
    assert again["policy"]["on_late"] == "refuse"
    assert again["policy"] == json_of(cli, "info", "jobs")["policy"]


def test_configure_refuses_what_can_not_be_and_writes_nothing(
    cli: Cli, make: Callable[..., Sequencer], link: Link
) -> None:
    make("numbers", sequence=True).connect()
    before = dump(link)
    for words in (
        ("new", "--on-late", "explode"),
        ("new", "--sequence", "--reorder-window", 1),
        ("numbers", "--no-sequence"),
    ):
        assert refused(cli, "configure", *words)
    assert dump(link) == before


def lines(*messages: dict[str, Any]) -> str:
    return "".join(json.dumps({"group": "a", "body": {}, **message}) + "\n" for message in messages)


@pytest.mark.parametrize(
    ("on_late", "counts"),
    [
        ("drop", {"appended": 1, "dropped": 1}),
        ("dead_letter", {"appended": 1, "dead": 1}),
        ("refuse", {"appended": 1, "refused": 1}),
    ],
)
def test_append_says_what_became_of_a_late_line(
    cli: Cli, make: Callable[..., Sequencer], on_late: str, counts: dict[str, int]
) -> None:
    queue = make(on_late=on_late)
    queue.append({}, "a", id="handled", score=5)
    assert queue.consume(lambda message: None, until_empty=True).handled == 1
    text = lines({"id": "late", "score": 3}, {"id": "good", "score": 6})
    done = cli.call("append", "jobs", "--on-error", "skip", "--json", input=text)
    said = json.loads(done.stdout)
    assert {name: said[name] for name in ("appended", "refused", "dropped", "dead") if said[name]} == counts
    is_refused = on_late == "refuse"
    assert done.returncode == is_refused
    assert done.stderr.startswith("line 1: " if is_refused else "warning: ")
    assert ids(queue, "a") == ["good"]


def test_append_with_delay_time_and_replace(cli: Cli, seq: Sequencer) -> None:
    first = lines({"id": "t", "at": FAR, "body": 1}, {"id": "soon", "delay": 600}, {"id": "no", "delay": -1})
    done = cli.call("append", "jobs", input=first, SEQUENCER_ON_ERROR="skip")
    assert done.stdout.startswith("appended 2, duplicates 0, refused 1 in ")
    assert "line 3: delay=-1 " in done.stderr
    other = lines({"id": "t", "at": FAR + 5, "body": 2})
    assert cli.call("append", "jobs", input=other).returncode == 2
    assert json_of(cli, "append", "jobs", "--replace", input=other)["appended"] == 1
    assert [(message.id, message.body) for message in seq.peek("a")] == [("soon", {}), ("t", 2)]
    assert seq.peek("a")[1].score == FAR + 5


def test_consume_by_failure_policy(cli: Cli, seq: Sequencer) -> None:
    base = ("consume", "jobs", "--exec", "exit 1", "--until-empty", "--max-attempts", 1)
    seq.append_many({"group": "a", "id": f"a{n}", "score": n, "body": n} for n in range(2))
    done = cli.call(*base, "--on-failure", "dead_letter")
    assert done.returncode == 0, done.stderr
    assert {dead.message.id: dead.error.type for dead in seq.dead()} == dict.fromkeys(["a0", "a1"], "CommandFailed")

    seq.append({}, "a", id="b")
    end = json_of_end(cli.call(*base, "--json", "--on-failure", "drop"))
    assert (end["dropped"], end["dead"], end["queue"]["dead"]) == (1, 0, 2), "of this run, and of the queue"

    seq.append({}, "a", id="c")
    parked = cli.call(*base, "--park-on", " Other, CommandFailed", "--max-attempts", 9, "--on-failure", "drop")
    assert parked.returncode == 4
    assert [group.head_id for group in seq.parked()] == ["c"]

    seq.append({}, "b", id="d")
    cli.call(*base, "--dead-letter-on", "sequencer.errors.CommandFailed", "--max-attempts", 9)
    assert sorted(dead.message.id for dead in seq.dead()) == ["a0", "a1", "d"]


def json_of_end(done: subprocess.CompletedProcess[str]) -> Any:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


OWN = """from sequencer import Sequencer
seq = Sequencer("jobs", namespace=NAMESPACE, on_failure="drop", park_on=[KeyError])
seq.handler(print)
"""
APP = ("--app", "own:seq", "--until-empty")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((*APP, "--namespace", "other"), "'other'"),
        ((*APP, "--dead-letter-on", "KeyError"), "error: KeyError is listed in both park_on and dead_letter_on"),
        ((*APP, "--on-failure", "drop", "--park-on", "KeyError"), ""),
    ],
)
def test_consume_refuses_wrong_policies_and_a_namespace_that_an_app_sets_itself(
    cli: Cli, seq: Sequencer, namespace: str, link: Link, words: tuple[object, ...], said: str
) -> None:
    seq.append({}, "a", id="one")
    (cli.directory / "own.py").write_text(OWN.replace("NAMESPACE", repr(namespace)))
    before = dump(link)
    if said:
        assert said in refused(cli, "consume", "jobs", *words)
        assert dump(link) == before
    else:
        assert cli.run("consume", "jobs", *words).returncode == 0
        assert seq.info().backlog == 0


FAILING = """from sequencer import Sequencer
seq = Sequencer("jobs", namespace=NAMESPACE, on_failure="drop", max_attempts=9, backoff=60, backoff_cap=60)

@seq.handler
def handle(message):
    raise KeyError(message.id)
"""


def test_options_of_the_command_line_go_before_those_of_an_app_and_the_banner_says_so(
    cli: Cli, seq: Sequencer, namespace: str
) -> None:
    (cli.directory / "own.py").write_text(FAILING.replace("NAMESPACE", repr(namespace)))
    seq.append({}, "a", id="one")
    given = ("--on-failure", "dead_letter", "--max-attempts", 2, "--backoff", 0.01)
    done = cli.run("consume", "jobs", *APP, *given)
    assert done.returncode == 0, done.stderr
    assert "app own:seq with max_attempts=2, backoff=0.01, on_failure=dead_letter, on " in done.stderr
    [dead] = seq.dead()
    assert (dead.message.id, dead.attempts, dead.error.type) == ("one", 2, "KeyError")

    seq.append({}, "a", id="two")
    parked = cli.run("consume", "jobs", *APP, "--park-on", "KeyError")
    assert parked.returncode == 4
    assert "app own:seq with park_on=KeyError, on " in parked.stderr
    assert [(group.head_id, group.attempts) for group in seq.parked()] == [("two", 1)]
    assert "warning" not in parked.stderr

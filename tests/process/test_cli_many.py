"""`sequencer resume`, `skip` and `unpause` on many groups, `parked`, `unskip`: what they do, say and refuse."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable
from typing import Any

import pytest

from sequencer import Sequencer
from sequencer.testing import wait_until

from ..support.said import json_of, refused
from .conftest import Cli
from .test_cli_dead import answered


@pytest.fixture
def stuck(make: Callable[..., Sequencer]) -> Sequencer:
    """Groups g 0 to g 4, each of two messages, parked on the first: g 0 and g 3 by a LookupError."""
    queue = make(max_attempts=1)

    def fail(message: Any) -> None:
        raise (LookupError if message.body % 3 == 0 else ValueError)("no")

    for n in range(5):
        queue.append_many({"body": n, "group": ["g", n], "id": f"m{k}", "score": k} for k in range(2))
    queue.consume(fail, until_empty=True)
    return queue


def test_a_dry_run_counts_by_error(cli: Cli, stuck: Sequencer) -> None:
    done = cli.call("resume", "jobs", "--all", "--dry-run")
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.split() for line in done.stdout.splitlines()] == [
        ["5", "groups", "would", "be", "resumed"],
        ["error", "groups"],
        ["ValueError", "3"],
        ["LookupError", "2"],
    ]
    assert stuck.snapshot().parked == 5
    said = json_of(cli, "skip", "jobs", "--error", "Lookup*", "--dry-run")
    assert (said["chosen"], said["done"], said["is_dry_run"]) == (2, 0, True)
    assert (said["errors"], said["others"]) == ({"LookupError": 2}, {"ValueError": 3})


def test_a_pattern_that_fits_nothing_names_the_errors_there_are(cli: Cli, stuck: Sequencer) -> None:
    for words in (("resume",), ("resume", "--dry-run"), ("skip",), ("skip", "--discard", "--yes")):
        done = cli.call(words[0], "jobs", "--error", "Looku", *words[1:])
        assert (done.returncode, done.stderr) == (1, "")
    assert stuck.snapshot().parked == 5
    recent = cli.call("resume", "jobs", "--since", "0.001s", "--json")
    assert (recent.returncode, json.loads(recent.stdout)["others"]) == (1, {"ValueError": 3, "LookupError": 2})


def test_many_are_resumed_and_a_rerun_has_nothing_to_do(cli: Cli, stuck: Sequencer) -> None:
    said = [
        json_of(cli, "resume", "jobs", *words)
        for words in (("--error", "Lookup*", "--rate", 100), ("--since", "10m"), ("--all",))
    ]
    assert [(one["done"], one["chosen"]) for one in said] == [(2, 2), (3, 3), (0, 0)]
    assert stuck.consume(lambda message: None, until_empty=True).handled == 10


def test_groups_that_are_left_are_said_with_status_1(cli: Cli, make: Callable[..., Sequencer]) -> None:
    seq = make(sequence=True, gap_timeout=0.01)
    seq.append(9, group="gap", score=9)
    seq.consume(lambda message: None, until_empty=True)
    done = cli.call("resume", "jobs", "--all", "--json")
    assert (done.returncode, json.loads(done.stdout)["waiting"]) == (1, 1)
    assert f"sequencer parked jobs --namespace {seq.options.namespace}" in cli.call("resume", "jobs", "--all").stdout


def test_skipped_heads_become_dead_letters_or_are_discarded(cli: Cli, stuck: Sequencer, namespace: str) -> None:
    done = cli.call("skip", "jobs", "--error", "LookupError")
    assert done.stderr.endswith(f": sequencer dead redrive jobs --error LookupError --namespace {namespace}\n")
    assert len(stuck.dead()) == 2
    assert refused(cli, "skip", "jobs", "--all", "--discard"), "no terminal to ask on"
    for answer, status, parked in ((b"n\n", 130, 3), (b"y\n", 0, 0)):
        asked = answered(cli, answer, "skip", "jobs", "--all", "--discard")
        assert "3 groups of queue jobs" in asked.stderr
        assert (asked.returncode, stuck.snapshot().parked) == (status, parked)
    assert (len(stuck.dead()), stuck.info().totals["skipped"]) == (2, 3)
    assert json_of(cli, "skip", "jobs", "--all", "--discard", "--yes")["chosen"] == 0


def test_wrong_use_is_refused_and_changes_nothing(cli: Cli, stuck: Sequencer) -> None:
    for line in (
        "resume jobs",
        "resume jobs g 1 --all",
        "resume jobs --all --error x",
        "skip jobs --all --dead-letter --discard --yes",
        "resume jobs --all --outage",
        "resume jobs --outage g 1",
        "resume jobs g 1 --rate 5",
        "resume jobs --all --rate 0",
        "skip jobs g 1 --discard",
        "skip jobs --all --id m0",
        "unpause jobs g --all",
    ):
        assert refused(cli, *line.split())
    assert stuck.snapshot().parked == 5
    assert not stuck.info().is_paused


def test_an_outage_is_probed_at_once(cli: Cli, make: Callable[..., Sequencer]) -> None:
    def away(_message: object) -> None:
        raise ConnectionError("away")

    seq = make()
    seq.append_many({"body": n, "group": ["p", n]} for n in range(6))
    assert json_of(cli, "resume", "jobs", "--outage") == {"queue": "jobs", "probing": False}
    seq.consume(away, max_messages=5)
    fix = f"sequencer resume jobs --outage --namespace {seq.options.namespace}\n"
    assert cli.call("info", "jobs").stdout.endswith(fix)
    assert cli.call("explain", "jobs", "p", "5").stdout.endswith(f"; probe: {fix}")
    assert json_of(cli, "resume", "jobs", "--outage") == {"queue": "jobs", "probing": True}


def test_pauses_of_groups_are_lifted_at_once(cli: Cli, stuck: Sequencer) -> None:
    for n in range(3):
        stuck.pause(["g", n])
    stuck.pause()
    assert json_of(cli, "unpause", "jobs", "--all") == {"queue": "jobs", "unpaused": 3}
    assert (stuck.paused_groups(), stuck.info().is_paused) == ([], True)


def test_a_skip_names_what_it_removes_and_what_puts_it_back(cli: Cli, stuck: Sequencer, namespace: str) -> None:
    assert refused(cli, "skip", "jobs", "g", "1", "--id", "m1")
    done = cli.call("skip", "jobs", "g", "1", "--id", "m0")
    back = f"sequencer unskip jobs g 1 --id m0 --namespace {namespace}"
    assert done.stderr.endswith(f": {back}\n")
    assert '"id":"m0"' in done.stdout
    assert cli.call(*back.split()[1:]).returncode == 0
    assert [message.id for message in stuck.peek(["g", 1])] == ["m0", "m1"]
    assert refused(cli, "unskip", "jobs", "g", "1")
    done = cli.call("skip", "jobs", "g", "2", "--dead-letter")
    assert "sequencer dead redrive" in done.stderr
    assert [letter.message.id for letter in stuck.dead()] == ["m0"]


def test_parked_groups_are_counted_by_error(cli: Cli, stuck: Sequencer, namespace: str) -> None:
    assert json_of(cli, "parked", "jobs", "--by-error", "--limit", 1) == {"ValueError": 3, "LookupError": 2}
    assert len(json_of(cli, "parked", "jobs", "--limit", 2)) == 2
    assert f"sequencer resume jobs --all --namespace {namespace}\n" in cli.call("parked", "jobs", "--limit", 1).stdout
    lookups = f"sequencer resume jobs --error LookupError --namespace {namespace}"
    for words in ((), ("--by-error",)):
        assert f"{lookups}\n" in cli.call("parked", "jobs", *words).stdout
    assert json_of(cli, *lookups.split()[1:])["done"] == 2
    stuck.resume_many(everything=True)
    assert json_of(cli, "parked", "jobs") == []


def test_ctrl_c_says_how_far_it_came_and_the_same_command_goes_on(cli: Cli, stuck: Sequencer) -> None:
    words = ("resume", "jobs", "--all", "--rate", "1")
    running = cli.start(*words)
    wait_until(lambda: stuck.snapshot().parked == 3, 30.0)
    running.signal(signal.SIGINT)
    assert running.ended() == 130
    assert re.search(r"[12] of 5", running.stderr)
    assert cli.call("resume", "jobs", "--all").returncode == 0
    assert stuck.snapshot().parked == 0

"""A queue's name that is wrong: each command that looks or operates says so, and a consumer says it once."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from sequencer import Sequencer
from sequencer.net.link import Link
from sequencer.store.keys import index_key
from sequencer.testing import wait_until

from ..support.said import dump, refused
from .test_cli_options import commands

if TYPE_CHECKING:
    from .conftest import Cli

PATIENCE_S = 30.0
MAKING = {"append", "configure", "consume"}
"""Commands that make a queue that is not there."""
APART = {
    "acl": "only prints",
    "demo": "has a queue of its own",
    "server": "is of no queue",
    "run": "is of a file",
    "watch": "too",
}
MORE: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("peek", "explain", "resume", "skip", "unskip", "steps"), ("a",)),
    **dict.fromkeys(("get", "cancel"), ("a", "--id", "m")),
    "reschedule": ("a", "--id", "m", "--delay", "1"),
    "rescore": ("--unit", "seconds"),
    "dead show": ("m",),
    "find": ("m",),
    "dead redrive": ("--all",),
    "dead purge": ("--all", "--yes"),
    "delete": ("--dry-run",),
    "check": ("--max-backlog", "100"),
}
"""What a command needs besides the queue."""


def of_a_queue() -> list[str]:
    """Every command that looks at a queue, or operates it."""
    names = []
    for name, command in commands().commands.items():
        inner = getattr(command, "commands", None)
        if name not in MAKING and name not in APART:
            names += [f"{name} {one}" for one in inner] if inner else [name]
    return sorted(names)


@pytest.mark.parametrize("name", of_a_queue())
def test_a_command_on_a_queue_that_is_not_there_names_the_nearest(
    cli: Cli, seq: Sequencer, link: Link, name: str
) -> None:
    seq.append(1, "a", id="m")
    before = dump(link)
    said = refused(cli, *name.split(), "jbos", *MORE.get(name, ()))
    assert said.startswith("error: there is no queue 'jbos' in namespace ")
    assert "did you mean 'jobs'? (the first append makes a queue, or: sequencer configure jbos --on-late " in said
    assert dump(link) == before


def test_the_command_that_it_names_makes_the_queue(cli: Cli) -> None:
    said = refused(cli, "info", "jbos")
    assert "there is none yet" in said
    line = said.rpartition("or: sequencer ")[2].strip().rstrip(")")
    assert cli.run(*line.split()).returncode == 0
    assert cli.call("info", "jbos").returncode == 0
    assert "there are: jbos (" in refused(cli, "info", "something-else")


def test_a_queue_that_only_the_list_lost_is_no_wrong_name(cli: Cli, seq: Sequencer, link: Link, namespace: str) -> None:
    seq.append(1, "a")
    link.command("DEL", index_key(namespace))
    done = cli.call("groups", "jobs")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_a_producer_of_a_queue_that_is_not_there_says_so_once(
    cli: Cli, seq: Sequencer, namespace: str, log_format: str
) -> None:
    def said(queue: str, *options: str) -> str:
        done = cli.run("--log-format", log_format, *options, "append", queue, input='{"group": ["a"], "body": 1}')
        assert (done.returncode, done.stdout[:9]) == (0, "appended ")
        return done.stderr

    seq.append(1, "a")
    mend = f"sequencer delete jbos --namespace {namespace}"
    assert said("jbos") == f'queue "jbos" is new; there is "jobs"; if that was meant: {mend}\n'
    assert said("jbos") == said("jobs") == ""
    assert said("zebra") == 'queue "zebra" is new\n'
    assert said("jobs-2") == 'queue "jobs-2" is new; there is "jobs"; ' + mend.replace("jbos", "jobs-2").join(
        ("if that was meant: ", "\n")
    )
    assert said("jobs-3") == 'queue "jobs-3" is new\n', "one of a series is no slip"
    assert said("quiet", "--log-level", "ERROR") == ""
    assert cli.run(*mend.split()[1:], "--yes").returncode == 0


def test_a_new_queue_is_in_the_log_of_a_program(
    make: Callable[..., Sequencer], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "sequencer"):
        make("jobs").append(1, "a")
        make("jbos").consume(print, until_empty=True)
        make("jbos").append(1, "a")
    told = [record for record in caplog.records if getattr(record, "event", "") == "queue new"]
    assert [(one.levelname, one.queue, one.near) for one in told] == [  # type: ignore[attr-defined]
        ("INFO", "jobs", ""),
        ("WARNING", "jbos", "jobs"),
    ]


def test_a_policy_of_a_queue_that_is_not_there_names_one_like_it(cli: Cli, seq: Sequencer) -> None:
    seq.append(1, "a")
    for options, state in (((), "not there yet"), (("--on-late", "drop"), "new")):
        done = cli.run("configure", "jbos", *options)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith(f'queue jbos is {state}; there is "jobs"; its policy')


def test_a_consumer_of_a_queue_that_is_not_there_says_so_once(cli: Cli, seq: Sequencer, namespace: str) -> None:
    seq.append(1, "a")
    running = cli.start("--log-format", "json", "consume", "jbos", "-n", 2, "--exec", "true")
    wait_until(lambda: len(running.consumers()) == 2, PATIENCE_S, "two consumers")
    running.wait_for("queue unused")
    with Sequencer("jbos", cli.environment["SEQUENCER_REDIS"], namespace=namespace) as other:
        other.append(1, "a")
        wait_until(lambda: other.info().totals["handled"] == 1, PATIENCE_S)
    running.signal()
    assert running.ended() == 0
    lines: list[dict[str, Any]] = [json.loads(line) for line in running.stderr.splitlines()]
    [said] = [line for line in lines if "queue" in line["event"]]
    assert (said["level"], said["near"]) == ("WARNING", "jobs")
    make = f"sequencer append jbos FILE.ndjson --namespace {namespace}"
    delete = f"sequencer delete jbos --namespace {namespace}"
    assert (said["make"], said["mend"]) == (make, delete)
    assert said["message"] == (
        "jbos: queue unused: it did not exist, and is made now, with nothing in it; did you mean 'jobs'? "
        f"then end this, and: {delete}; else its first message comes by append() or: {make}"
    )
    again = cli.run("consume", "jbos", "--exec", "true", "--until-empty")
    assert "queue unused" not in again.stderr, "it has had a message"


def test_a_consumer_says_it_again_at_its_next_start_while_nothing_was_appended(cli: Cli) -> None:
    for said in ("it did not exist, and is made now", "it has had no message yet"):
        done = cli.run("consume", "jbos", "--exec", "true", "--until-empty")
        assert done.returncode == 0
        assert done.stderr.count(f"jbos: queue unused: {said}") == 1

"""A queue's name that is wrong: each command that looks or operates says so, and a consumer says it once."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

import pytest

from sequencer import Sequencer
from sequencer.net.link import Link
from sequencer.store.keys import index_key
from sequencer.testing import wait_until

from ..support.run_scene import PATIENCE_S
from ..support.said import dump, refused
from .conftest import Cli
from .test_cli_options import commands

MAKING = {"append", "consume"}
"""Commands that make a queue that is not there; `configure` does with options alone."""
APART = {
    "acl": "only prints",
    "demo": "has a queue of its own",
    "outbox": "asks a database",
    "web": "shows all of them",
    "server": "is of no queue",
    "run": "is of a file",
    "watch": "too",
}
MORE: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("peek", "explain", "resume", "skip", "unskip", "steps"), ("a",)),
    **dict.fromkeys(("get", "cancel", "rerun"), ("a", "--id", "m")),
    "reschedule": ("a", "--id", "m", "--delay", "1"),
    **dict.fromkeys(("dead show", "find"), ("--id", "m")),
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


def test_a_command_on_a_queue_that_is_not_there_names_the_nearest(cli: Cli, seq: Sequencer, link: Link) -> None:
    seq.append(1, "a", id="m")
    before = dump(link)
    for name in of_a_queue():
        said = refused(cli, *name.split(), "jbos", *MORE.get(name, ()))
        assert ("'jbos'" in said, "'jobs'" in said) == (True, True), name
    assert dump(link) == before


def test_a_queue_that_only_the_list_lost_is_no_wrong_name(cli: Cli, seq: Sequencer, link: Link, namespace: str) -> None:
    seq.append(1, "a")
    link.command("DEL", index_key(namespace))
    done = cli.call("groups", "jobs")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_producer_of_a_queue_that_is_not_there_says_so_once(cli: Cli, seq: Sequencer, namespace: str) -> None:
    def said(queue: str) -> str:
        done = cli.run("append", queue, input='{"group": ["a"], "body": 1}')
        assert (done.returncode, done.stdout[:9]) == (0, "appended ")
        return done.stderr

    seq.append(1, "a")
    delete = f"sequencer delete jbos --namespace {namespace}"
    assert said("jbos").endswith(f" jbos: queue created: did you mean 'jobs'?; delete: {delete}\n")
    assert said("jbos") == said("jobs") == ""
    assert said("jobs-2") == "", "a name with more behind it is another name"
    assert cli.call(*delete.split()[1:], "--yes").returncode == 0


@pytest.mark.parametrize(("options", "status"), [((), 2), (("--on-error", "skip"), 1)])
def test_an_append_of_which_nothing_is_stored_makes_no_queue(
    cli: Cli, seq: Sequencer, link: Link, options: tuple[str, ...], status: int
) -> None:
    seq.append(1, "a")
    before = dump(link)
    done = cli.call("append", "jbos", *options, input='{"body": 1}\n{"group": ["a"]}\n')
    assert (done.returncode, done.stdout[:10], dump(link)) == (status, "appended 0", before), done.stderr


def test_an_input_without_a_line_makes_its_queue(cli: Cli, link: Link, namespace: str) -> None:
    """As `doctor` has it done for a queue of which the registration is lost."""
    done = cli.call("append", "jbos", "/dev/null", "--shards", "2")
    assert (done.returncode, done.stdout[:10]) == (0, "appended 0")
    assert link.command("EXISTS", f"{{{namespace}:jbos:registry}}") == 1


def test_a_new_queue_is_in_the_log_of_a_program(
    make: Callable[..., Sequencer], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "sequencer"):
        make("jobs").append(1, "a")
        make("jbos").consume(print, until_empty=True)
        make("jbos").append(1, "a")
    told = [record for record in caplog.records if getattr(record, "event", "") == "queue created"]
    assert [(one.levelname, one.queue, one.near) for one in told] == [  # type: ignore[attr-defined]
        ("INFO", "jobs", ""),
        ("WARNING", "jbos", "jobs"),
    ]


def test_a_consumer_of_a_queue_that_is_not_there_says_so(cli: Cli, seq: Sequencer, namespace: str) -> None:
    seq.append(1, "a")
    running = cli.start("--log-format", "json", "consume", "jbos", "-n", 2, "--exec", "true")
    wait_until(lambda: len(running.consumers()) == 2, PATIENCE_S, "two consumers")
    running.wait_for("queue unused")
    with Sequencer("jbos", cli.environment["SEQUENCER_REDIS"], namespace=namespace) as other:
        other.append(1, "a")
        wait_until(lambda: other.info().totals["handled"] == 1, PATIENCE_S)
    running.stop()
    lines: list[dict[str, Any]] = [json.loads(line) for line in running.stderr.splitlines()]
    said = {line["event"]: (line["level"], line.get("near")) for line in lines if "queue" in line["event"]}
    assert said == {"queue created": ("WARNING", "jobs"), "queue unused": ("WARNING", None)}
    again = cli.run("consume", "jbos", "--exec", "true", "--until-empty")
    assert "queue unused" not in again.stderr, "it has had a message"

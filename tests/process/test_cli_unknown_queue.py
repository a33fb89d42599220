"""A queue's name that is wrong: each command that looks or operates says so, and a consumer says it once."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from sequencer import Sequencer
from sequencer.net.link import Link
from sequencer.store.keys import index_key
from sequencer.testing import wait_until

from ..support.said import dump, refused
from .test_cli_append_broken_off import run_in_shell
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
        assert said.startswith("error: there is no queue 'jbos' in namespace "), name
        assert said.endswith("did you mean 'jobs'?\n"), name
    assert dump(link) == before


def test_the_command_that_it_names_makes_the_queue(cli: Cli) -> None:
    said = refused(cli, "info", "jbos")
    assert "there is none yet" in said
    line = said.rpartition("or: sequencer ")[2].strip().rstrip(")")
    assert cli.call(*line.split()).returncode == 0
    assert cli.call("info", "jbos").returncode == 0
    assert "there are: jbos\n" in refused(cli, "info", "something-else")


def test_a_queue_that_only_the_list_lost_is_no_wrong_name(cli: Cli, seq: Sequencer, link: Link, namespace: str) -> None:
    seq.append(1, "a")
    link.command("DEL", index_key(namespace))
    done = cli.call("groups", "jobs")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_producer_of_a_queue_that_is_not_there_says_so_once(cli: Cli, seq: Sequencer, namespace: str) -> None:
    def said(queue: str, *options: str) -> str:
        done = cli.call(*options, "append", queue, input='{"group": ["a"], "body": 1}')
        assert (done.returncode, done.stdout[:9]) == (0, "appended ")
        return done.stderr

    seq.append(1, "a")
    delete = f"sequencer delete jbos --namespace {namespace}"
    taken = "touch moved-from-jbos.ndjson && sequencer consume jbos --until-empty -n 1 --exec 'cat >> "
    taken += f"moved-from-jbos.ndjson' --namespace {namespace}"
    assert said("jbos") == (
        f"queue 'jbos' is new; there is 'jobs'; if that was meant, in this order: sequencer pause jobs --namespace "
        f"{namespace}; let the producers append there; then move what is in this one: {taken} && sequencer append jobs "
        f"moved-from-jbos.ndjson --namespace {namespace} && rm moved-from-jbos.ndjson && sequencer "
        f"unpause jobs --namespace {namespace}; then, as nothing is left in it: {delete}\n"
    )
    assert said("jbos") == said("jobs") == ""
    assert said("zebra") == "queue 'zebra' is new\n"
    assert said("jobsplain") == "queue 'jobsplain' is new\n", "a name with more behind it is another name"
    assert said("jobs-2") == "queue 'jobs-2' is new\n"
    assert said("job").startswith("queue 'job' is new; there is 'jobs'; ")
    assert cli.call(*delete.split()[1:], "--yes").returncode == 0


@pytest.mark.parametrize(
    ("lines", "options", "status"),
    [
        ("no JSON\n", (), 2),
        ('{"n": 1}\n', ("--group-by", "user"), 2),
        ('{"body": 1}\n{"group": ["a"]}\n', ("--on-error", "skip"), 1),
    ],
)
def test_an_append_of_which_nothing_is_stored_makes_no_queue(
    cli: Cli, seq: Sequencer, link: Link, lines: str, options: tuple[str, ...], status: int
) -> None:
    seq.append(1, "a")
    before = dump(link)
    done = cli.call("append", "jbos", *options, input=lines)
    assert (done.returncode, done.stdout[:10], dump(link)) == (status, "appended 0", before), done.stderr
    good = '{"user": 7}\n' if "--group-by" in options else '{"group": "a", "body": 1}\n'
    later = cli.call("append", "jbos", *options, input=f"{good}no JSON\n")
    assert (later.stdout[:10], later.stderr.count("queue 'jbos' is new")) == ("appended 1", 1)


def test_an_input_without_a_line_makes_its_queue(cli: Cli, link: Link, namespace: str) -> None:
    """As `doctor` has it done for a queue of which the registration is lost."""
    done = cli.call("append", "jbos", "/dev/null", "--shards", "2")
    assert (done.returncode, done.stdout[:10]) == (0, "appended 0")
    assert link.command("EXISTS", f"{{{namespace}:jbos:registry}}") == 1


def test_info_of_all_queues_says_what_a_typo_is_and_moves_it(cli: Cli, make: Callable[..., Sequencer]) -> None:
    right, wrong = make("jobs"), make("jobss")
    right.append(1, "a")
    wrong.append(2, "a")
    said: list[str] = []

    def is_told() -> bool:
        said[:] = [one for one in cli.call("info").stdout.splitlines() if one.startswith("jobss: nobody consumes")]
        return bool(said)

    with right.claim():
        wait_until(is_told, PATIENCE_S)
    namespace = cli.environment["SEQUENCER_NAMESPACE"]
    assert f"; or, if 'jobs' was meant, in this order: sequencer pause jobs --namespace {namespace}; let" in said[0]
    assert said[0].endswith(f"sequencer delete jobss --namespace {namespace}")


@pytest.mark.nightly
@pytest.mark.parametrize("fields", [{}, {"group_by": ("user.id",), "id_by": "n"}])
def test_what_is_said_of_a_typo_moves_the_messages(
    cli: Cli, make: Callable[..., Sequencer], caplog: pytest.LogCaptureFixture, fields: dict[str, Any]
) -> None:
    """Into the right queue, in order, and once, though the line is run twice."""
    right, wrong = make("jobs", **fields), make("jbos", **fields)
    bodies: list[dict[str, Any]] = [{"user": {"id": f"u {n % 2}"}, "n": n} for n in range(4)]
    given = bodies if fields else [{"body": body, "group": body["user"]["id"], "id": body["n"]} for body in bodies]
    right.append_many(given[:2])
    wrong.append_many(given[2:])
    (told,) = [
        one for one in caplog.records if getattr(one, "event", "") == "queue created" and one.levelname == "WARNING"
    ]
    for _ in range(2):
        run_in_shell(cli, told.fix)  # type: ignore[attr-defined]
    assert [one.body["n"] for group in ("u 0", "u 1") for one in right.peek(group)] == [0, 2, 1, 3]
    assert wrong.usage().messages == 0
    done = cli.run("delete", "jobs", "--dry-run")
    assert done.stdout.startswith("would delete jobs: 4 messages of 2 groups, 0 dead letters; ")
    refused_to = refused(cli, "delete", "jobs")
    assert "delete queue jobs, with 4 messages and 0 dead letters, for good: there is no terminal" in refused_to


@pytest.mark.nightly
def test_what_is_said_of_a_typo_keeps_the_order_while_the_right_queue_is_consumed(
    cli: Cli, seq: Sequencer, make: Callable[..., Sequencer]
) -> None:
    def append(queue: str, numbers: range) -> str:
        lines = [json.dumps({"group": [f"g{n % 3}"], "id": f"m{n}", "body": n}) for n in numbers]
        return cli.run("append", queue, input="\n".join(lines)).stderr

    consumer = cli.start("consume", "jobs", "-n", 2)
    append("jobs", range(3))
    said = append("jbos", range(3, 30))
    wait_until(lambda: len(consumer.lines()) == 3, PATIENCE_S)
    steps = re.search(r"in this order: (.+?); (let the producers .+?); then move .+?: (.+); then, as .+?: (.+)", said)
    assert steps, said
    hold, _, move, delete = steps.groups()
    run_in_shell(cli, hold)
    append("jobs", range(30, 60))
    run_in_shell(cli, move)
    wait_until(lambda: len(consumer.lines()) == 60, PATIENCE_S)
    handled = [line["body"] for line in consumer.lines()]
    assert [[n for n in handled if n % 3 == g] for g in range(3)] == [list(range(g, 60, 3)) for g in range(3)]
    run_in_shell(cli, f"{delete} --yes")
    assert not make("jbos").info().groups
    assert not seq.info().is_paused


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


def test_a_policy_of_a_queue_that_is_not_there_names_one_like_it(cli: Cli, seq: Sequencer, namespace: str) -> None:
    seq.append(1, "a")
    delete = f"if that was meant: sequencer delete jbos --namespace {namespace}; "
    for options, state, fix in (((), "not there yet", ""), (("--on-late", "drop"), "new", delete)):
        done = cli.call("configure", "jbos", *options)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith(f"queue 'jbos' is {state}; there is 'jobs'; {fix}its policy")


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
    assert (said["make"], said["fix"]) == (make, delete)
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

"""`sequencer consume` as a person uses it: printing, piping, running a command or an application's handler."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

import pytest

from sequencer import Sequencer
from sequencer.testing import wait_until

from ..support.run_scene import PATIENCE_S
from .conftest import Cli, Work

FIELDS = ["queue", "group", "id", "score", "attempt", "token", "appended_at", "body"]
LARGE = 128 * 1024
"""Twice what a pipe holds, so that a line is never written in one piece."""


def test_eight_consumers_print_whole_lines_through_a_pipe(cli: Cli, seq: Sequencer) -> None:
    sizes = [10, 3500, 300, 1000, 2500]
    seq.append_many(
        {"group": [f"g{group}", "x"], "id": f"{group}-{n}", "score": n, "body": {"text": f"{n}" * size}}
        for n, size in enumerate(sizes)
        for group in range(12)
    )
    done = cli.run("consume", "jobs", "-n", 8, "--until-empty")
    assert done.returncode == 0
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert all(list(line) == FIELDS for line in lines)
    by_group: dict[str, list[Any]] = {}
    for line in lines:
        assert line["body"] == {"text": str(int(line["score"])) * sizes[int(line["score"])]}
        by_group.setdefault(line["group"][0], []).append(line)
    assert len(by_group) == 12
    for name, own in by_group.items():
        assert [line["id"] for line in own] == [f"{name[1:]}-{n}" for n in range(len(sizes))]
        tokens = [line["token"] for line in own]
        assert tokens == sorted(tokens)
    assert "consumed 60 messages in " in done.stderr
    assert "with 8 consumers: no failures" in done.stderr


def test_a_line_is_printed_before_its_message_is_acknowledged(cli: Cli, work: Work) -> None:
    work.add("a", {"text": "x" * LARGE}, {})
    consume = cli.piped("consume", "jobs")
    stream = consume.process.stdout
    assert stream is not None
    assert stream.read(1000).startswith(b'{"queue":"jobs","group":["a"],"id":"a-0"')
    assert work.head("a") == ("a-0", 1), "its line does not fit into the pipe, so it is not printed yet"
    assert work.states() == {"a": "leased"}
    assert stream.readline().endswith(b"}\n")
    wait_until(lambda: work.states() == {}, PATIENCE_S, "both are acknowledged")
    assert json.loads(stream.readline())["id"] == "a-1"


def test_a_reader_that_leaves_ends_it_quietly_and_loses_nothing(cli: Cli, work: Work) -> None:
    for group in "abc":
        work.add(group, *[{"text": "x" * LARGE}] * 2)
    consume = cli.piped("consume", "jobs")
    stream = consume.process.stdout
    assert stream is not None
    first = json.loads(stream.readline())["id"]
    stream.close()
    assert consume.ended() == 0
    assert "Traceback" not in consume.stderr
    assert "ERROR" not in consume.stderr, consume.stderr
    left = {f"{group}-{n}" for group in "abc" for n in range(2)} - {first}
    done = cli.run("consume", "jobs", "--until-empty")
    assert {json.loads(line)["id"] for line in done.stdout.splitlines()} == left
    assert {json.loads(line)["attempt"] for line in done.stdout.splitlines()} == {1}, "released, not left to a lease"


def test_until_idle_ends_every_consumer_and_says_that_groups_are_parked(cli: Cli, work: Work, seq: Sequencer) -> None:
    for group in "abc":
        work.add(group, {}, {})
    seq.append({}, "later", delay=3600)
    words = ("consume", "jobs", "-n", 3, "--max-attempts", 1, "--until-idle", "--exec")
    assert cli.run(*words, "true").returncode == 0
    assert work.states() == {"later": "waiting"}
    work.add("a", {})
    assert cli.run(*words, "false").returncode == 4
    assert work.states() == {"a": "parked", "later": "waiting"}


@pytest.mark.nightly
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
def test_output_that_cannot_be_written_is_no_failure_of_the_message(cli: Cli, work: Work) -> None:
    work.add("a", {})
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [cli.program, "consume", "jobs", "--until-empty", "--max-attempts", "1"],
            env=cli.environment,
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=PATIENCE_S,
            check=False,
        )
    assert b"No space left on device" in done.stderr
    assert done.returncode not in (0, 4)
    assert work.states() == {"a": "due"}
    assert work.head("a") == ("a-0", 1)


def test_exec_gets_the_line_on_its_standard_input(cli: Cli, work: Work) -> None:
    work.add("a", {"n": 1}, {"n": 2})
    done = cli.run("consume", "jobs", "--exec", "cat >> got; echo printed", "--until-empty", "--json")
    assert done.returncode == 0
    got = [json.loads(line) for line in (cli.directory / "got").read_text().splitlines()]
    assert [list(line) for line in got] == [FIELDS, FIELDS]
    assert [line["body"] for line in got] == [{"n": 1}, {"n": 2}]
    *printed, summary = done.stdout.splitlines()
    assert printed == ["printed", "printed"]
    said = json.loads(summary)
    assert (said["handled"], said["failed"], said["lost"], said["died"], said["parked"]) == (2, 0, 0, 0, 0)


def test_exec_that_fails_is_tried_again_then_parked_with_what_it_said(cli: Cli, work: Work, seq: Sequencer) -> None:
    work.add("a", {}, {})
    work.add("b", {})
    command = 'echo tried >> attempts; grep -q b-0 || { echo "no stock" >&2; exit 3; }'
    done = cli.run(
        *("consume", "jobs", "--exec", command, "--max-attempts", 3, "--backoff", 0.01, "--until-empty"),
    )
    assert done.returncode == 4
    assert done.stderr.splitlines().count("no stock") == 3
    assert (cli.directory / "attempts").read_text().count("tried") == 4
    [group] = seq.parked()
    assert (group.group, group.backlog, group.attempts, group.head_id) == (("a",), 2, 3, "a-0")
    assert group.failure is not None
    assert group.failure.type == "CommandFailed"
    assert group.failure.message.endswith("ended with exit status 3: no stock")


@pytest.mark.parametrize("form", ["sequencer", "function", "project"])
def test_an_application_is_named_in_one_of_these_ways(cli: Cli, work: Work, form: str) -> None:
    work.add("a", {}, {})
    words = {"sequencer": ["--app", "shop:seq"], "function": ["--app", "shop:handle"]}.get(form, [])
    if form == "project":
        (cli.directory / "pyproject.toml").write_text('[tool.sequencer]\napp = "shop:handle"\n')
    done = cli.run("consume", "jobs", *words, "--until-empty", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["handled"] == 2
    assert [event["id"] for event in work.events("handled")] == ["a-0", "a-1"]
    assert [line.split(": ")[1] for line in done.stderr.splitlines()] == ["service started"]


def test_a_project_file_that_names_no_application_stops_before_anything_is_printed(cli: Cli, work: Work) -> None:
    work.add("a", {})
    (cli.directory / "pyproject.toml").write_text("[tool.sequencer]\napp = 3\n")
    done = cli.run("consume", "jobs", "--until-empty")
    assert done.returncode == 2, done.stderr
    assert "pyproject.toml" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert work.head("a") == ("a-0", 1)


@pytest.mark.nightly
def test_what_a_consumer_imported_is_out_of_the_collectors_way(cli: Cli, work: Work) -> None:
    """An application imports much, and a look through all of it would halt the handlers again and again."""
    work.add("a", {})
    (cli.directory / "much.py").write_text(
        "import gc, sys\nloaded = [[n] for n in range(100_000)]\n"
        "def handle(message):\n    print('seen again:', len(gc.get_objects()) > 100_000, file=sys.stderr)\n"
    )
    done = cli.run("consume", "jobs", "--app", "much:handle", "--until-empty")
    assert done.returncode == 0, done.stderr
    assert "seen again: False" in done.stderr


def test_an_app_without_a_name_is_refused_and_nothing_is_handled(cli: Cli, work: Work) -> None:
    """A variable that is not set, in quotes: to print the messages would lose them."""
    work.add("a", {})
    done = cli.run("consume", "jobs", "--until-empty", "--app", "")
    assert (done.returncode, done.stdout) == (2, "")
    assert "app=''" in done.stderr
    assert "1" in cli.call("peek", "jobs", "a").stdout


def test_what_a_handler_prints_is_seen_while_it_runs(cli: Cli, work: Work) -> None:
    """Standard output is a file here: Python would keep it until the consumer ends."""
    (cli.directory / "prints.py").write_text(
        "import shop\n\ndef handle(message):\n    print('seen')\n    shop.handle(message)\n"
    )
    work.add("a", {"gate": "gate"})
    consume = cli.start("consume", "jobs", "--app", "prints:handle", "--until-empty", PYTHONUNBUFFERED="")
    work.wait_begun("a-0")
    assert consume.stdout == "seen\n"
    cli.open("gate")
    assert consume.ended() == 0

"""`sequencer append` that a full server, a lost one, or a signal breaks off: what is stored, and how to go on."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sequencer import EmbeddedServer, Sequencer
from sequencer.net.endpoint import Endpoint
from sequencer.net.link import Link
from sequencer.testing import wait_until
from tests.support.proxy.fault_proxy import FaultProxy

if TYPE_CHECKING:
    from .conftest import Cli

LINES = 3000
ROOM = 300_000
"""Bytes that a full server had left: for some of the lines."""


@pytest.fixture
def own(tmp_path: Path) -> Iterator[EmbeddedServer]:
    """A server of the test's own, since a full one refuses everybody."""
    server = EmbeddedServer(tmp_path / "own")
    server.start()
    yield server
    server.stop()


def lines(count: int, **more: object) -> str:
    return "".join(json.dumps({"group": ["a"], "body": [n, "x" * 100], **more}) + "\n" for n in range(count))


def the_rest(said: str) -> str:
    return said.rpartition("; append the rest: ")[2].strip()


def run_in_shell(cli: Cli, line: str, **environment: str) -> str:
    """What a line for a shell says; it must be fine."""
    environment = cli.environment | {"PATH": f"{Path(cli.program).parent}:/usr/bin:/bin"} | environment
    done = subprocess.run(
        ["/bin/bash", "-c", line], cwd=cli.directory, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_full_server_is_said_with_the_first_line_not_stored_and_the_command_for_the_rest(
    cli: Cli, own: EmbeddedServer, namespace: str
) -> None:
    """Lines without ids: one that is appended again would be a second message."""
    name = "a b"
    (cli.directory / name).write_text(lines(LINES))
    link = Link(Endpoint.from_url(own.url))
    with Sequencer("jobs", own.url, namespace=namespace) as seq:
        seq.connect()
        used = int(dict(one.split(b":") for one in link.command("INFO").split() if b":" in one)[b"used_memory"])
        link.command("CONFIG", "SET", "maxmemory", used + ROOM)
        done = cli.run("append", "jobs", name, "--chunk", 10, SEQUENCER_REDIS=own.url)
        assert done.returncode == 3
        stored = seq.info().backlog
        assert 0 < stored < LINES
        (said,) = done.stderr.splitlines()
        assert said.startswith(f"error: server {own.url}: the server is full (at its maxmemory); consumers go on and ")
        assert f"sequencer doctor --redis {own.url}; the lines up to {stored:,} are stored; " in said
        info = cli.run("info", SEQUENCER_REDIS=own.url).stderr
        assert info.startswith("memory: the server is full (")
        rest = f"append jobs '{name}' --chunk 10 --from-line {stored + 1} --namespace {namespace}"
        assert the_rest(said) == f"sequencer {rest}"
        assert done.stdout.startswith(f"appended {stored:,}, duplicates 0, refused 0 in ")
        again = cli.run(*shlex.split(the_rest(said))[1:], SEQUENCER_REDIS=own.url)
        more = seq.info().backlog
        assert the_rest(again.stderr) == the_rest(said).replace(f"-line {stored + 1} ", f"-line {more + 1} ")
        stored, said = more, again.stderr
        link.command("CONFIG", "SET", "maxmemory", 0)
        assert run_in_shell(cli, the_rest(said), SEQUENCER_REDIS=own.url).startswith(f"appended {LINES - stored:,}, ")
        assert [message.body[0] for message in seq.peek("a", limit=2 * LINES)] == list(range(LINES))
    link.close()


def test_refused_lines_are_counted_and_the_options_of_the_call_are_those_of_the_rest(
    cli: Cli, seq: Sequencer, namespace: str
) -> None:
    with FaultProxy(seq.endpoint.url or "") as proxy:
        text = lines(2) + "no JSON\n\n" + '{"group": [], "body": 1}\n' + lines(2)
        seq.connect()
        proxy.add("error OOM", on=["append"], times=None)
        given = ("--on-error", "skip", "--chunk", 4, "--redis", proxy.url)
        done = cli.run("append", "jobs", *given, input=text)
        assert done.returncode == 3
        nothing = "nothing is stored yet; append the rest, given the whole input again: "
        options = f"--on-error skip --chunk 4 --from-line 1 --namespace {namespace} --redis {proxy.url}"
        assert f"{nothing}sequencer append jobs {options}\n" in done.stderr
        assert "the others are stored" not in done.stderr
        assert json.loads(cli.run("append", "jobs", *given, "--json", input=text).stdout)["appended"] == 0


def test_a_server_that_goes_away_leaves_the_lines_in_hand_unknown(cli: Cli, seq: Sequencer) -> None:
    with FaultProxy(seq.endpoint.url or "") as proxy:
        seq.connect()
        proxy.add("reply lost", on=["append"], times=None)
        done = cli.run("append", "jobs", "--chunk", 4, "--redis", proxy.url, input=lines(9))
    assert done.returncode == 3
    perhaps = "and perhaps some of the 4 lines after it; as they have no ids, those are then stored twice"
    assert f"nothing is stored yet, {perhaps}; append the rest, given " in done.stderr


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_what_ends_it_leaves_the_command_that_goes_on_and_that_adds_nothing_twice(
    cli: Cli, make: Callable[..., Sequencer], number: int, status: int
) -> None:
    """Messages of the first part were handled, and their ids are known no longer: a rerun would add them again."""
    seq = make(dedup_window=0)
    seq.connect()
    count, handled = 20_000, list[Any]()
    lines = "".join(f'{{"group": ["g{n % 50}"], "id": "m{n}", "score": {n}, "body": {n}}}\n' for n in range(count))
    (cli.directory / "orders.ndjson").write_text(lines)
    running = cli.start("append", "jobs", "orders.ndjson")
    wait_until(lambda: seq.info().backlog > 0, 30.0)
    running.signal(number)
    assert running.ended() == status
    assert running.stderr.startswith("interrupted; the lines up to ")
    assert seq.info().backlog < count
    seq.consume(lambda message: handled.append(message.body), until_empty=True)
    words = shlex.split(running.stderr.strip().rpartition("; append the rest: ")[2])
    assert words[:4] == ["sequencer", "append", "jobs", "orders.ndjson"]
    assert cli.run(*words[1:]).returncode == 0
    seq.consume(lambda message: handled.append(message.body), until_empty=True)
    assert sorted(handled) == list(range(count))


@pytest.mark.nightly
@pytest.mark.parametrize("is_second", [False, True])
def test_an_interruption_says_what_is_true_of_the_lines_in_hand(cli: Cli, seq: Sequencer, is_second: bool) -> None:
    """The server answers late: one Ctrl-C waits for what it says, a second one does not."""
    bodies: list[dict[str, object]] = [{"group": ["a"], "body": n} for n in range(6)]
    if not is_second:
        bodies[3] = {"body": "no group"}
    (cli.directory / "lines").write_text("".join(f"{json.dumps(body)}\n" for body in bodies))
    (cli.directory / "slow.py").write_text(SLOWLY)
    running = cli.script("import slow")
    wait_until((cli.directory / "sending").exists, 30.0)
    running.signal(signal.SIGINT)
    wait_until((cli.directory / "heard").exists, 30.0)
    if is_second:
        running.signal(signal.SIGINT)
    else:
        (cli.directory / "answer").touch()
    assert running.ended() == 130
    assert "; append the rest: sequencer append jobs lines " in running.stderr
    if is_second:
        perhaps = "and perhaps some of the 128 lines after it; as they have no ids, those are then stored twice"
        assert f"interrupted; nothing is stored yet, {perhaps}" in running.stderr
    else:
        assert "the lines up to 3 are stored; " in running.stderr
        assert "--from-line 4" in running.stderr
        assert [message.body for message in seq.peek(["a"])] == [0, 1, 2]


SLOWLY = """
import pathlib, sys, time
from sequencer import Sequencer
append_many = Sequencer.append_many

def slowly(*args, **options):
    pathlib.Path("sending").touch()
    while not pathlib.Path("answer").exists():
        time.sleep(0.01)
    return append_many(*args, **options)

Sequencer.append_many = slowly
from sequencer.cli import append, main
note = append.Interruption._note

def noted(self, *words):
    pathlib.Path("heard").touch()
    note(self, *words)

append.Interruption._note = noted
sys.argv = ["sequencer", "append", "jobs", "lines"]
sys.exit(main())
"""

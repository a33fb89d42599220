"""`sequencer append` that a full server, a lost one, or a signal breaks off: what is stored, and how to go on."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sequencer import EmbeddedServer, Sequencer
from sequencer.net.endpoint import Endpoint
from sequencer.net.link import Link
from sequencer.testing import wait_until
from tests.support.proxy.fault_proxy import FaultProxy

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


def first_of_the_rest(said: str) -> int:
    return int(said.split("--from-line ")[1])


def test_a_full_server_is_said_with_the_first_line_not_stored(cli: Cli, own: EmbeddedServer, namespace: str) -> None:
    """Lines without ids: one that is appended again would be a second message."""
    name = "a b"
    (cli.directory / name).write_text(lines(LINES))
    link = Link(Endpoint.from_url(own.url))
    with Sequencer("jobs", own.url, namespace=namespace) as seq:
        seq.connect()
        used = int(dict(one.split(b":") for one in link.command("INFO").split() if b":" in one)[b"used_memory"])
        link.command("CONFIG", "SET", "maxmemory", used + ROOM)
        words = ("append", "jobs", name, "--chunk", 10)
        done = cli.run(*words, SEQUENCER_REDIS=own.url)
        assert done.returncode == 3
        stored = seq.info().backlog
        assert 0 < stored < LINES
        (said,) = done.stderr.splitlines()
        assert said.startswith(f"error: server {own.url} ")
        assert first_of_the_rest(said) == stored + 1
        assert done.stdout.startswith(f"appended {stored:,}, duplicates 0, refused 0 in ")
        link.command("CONFIG", "SET", "maxmemory", 0)
        rest = cli.run(*words, "--from-line", stored + 1, SEQUENCER_REDIS=own.url)
        assert rest.stdout.startswith(f"appended {LINES - stored:,}, ")
        assert [message.body[0] for message in seq.peek("a", limit=2 * LINES)] == list(range(LINES))
    link.close()


def test_a_server_that_goes_away_leaves_the_lines_in_hand_unknown(cli: Cli, seq: Sequencer) -> None:
    with FaultProxy(seq.endpoint.url or "") as proxy:
        seq.connect()
        proxy.add("reply lost", on=["append"], times=None)
        done = cli.run("append", "jobs", "--chunk", 4, "--redis", proxy.url, input=lines(9))
    assert done.returncode == 3
    assert "the next 4 lines" in done.stderr
    assert first_of_the_rest(done.stderr) == 1


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_what_ends_it_says_where_to_go_on_and_that_adds_nothing_twice(
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
    assert running.stderr.startswith("interrupted; ")
    assert seq.info().backlog < count
    seq.consume(lambda message: handled.append(message.body), until_empty=True)
    rest = cli.run("append", "jobs", "orders.ndjson", "--from-line", first_of_the_rest(running.stderr))
    assert rest.returncode == 0
    seq.consume(lambda message: handled.append(message.body), until_empty=True)
    assert sorted(handled) == list(range(count))


SLOWLY = """
import pathlib, sys
from sequencer import Sequencer
from sequencer.cli import append, main
from sequencer.testing import wait_until

def never(*args, **options):
    pathlib.Path("sending").touch()
    wait_until(lambda: False, 60)

Sequencer.append_many = never
note = append.Interruption._note

def noted(self, *words):
    pathlib.Path("heard").touch()
    note(self, *words)

append.Interruption._note = noted
sys.argv = ["sequencer", "append", "jobs", "lines"]
sys.exit(main())
"""


@pytest.mark.nightly
def test_a_second_interruption_does_not_wait_for_an_answer(cli: Cli) -> None:
    (cli.directory / "lines").write_text(lines(6))
    running = cli.script(SLOWLY)
    for sign in ("sending", "heard"):
        wait_until((cli.directory / sign).exists, 30.0)
        running.signal(signal.SIGINT)
    assert running.ended() == 130
    assert first_of_the_rest(running.stderr) == 1

"""`sequencer append` that a full server, or one that goes away, breaks off: what is stored, and how to go on."""

from __future__ import annotations

import gzip
import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sequencer import EmbeddedServer, Sequencer
from sequencer.net.endpoint import Endpoint
from sequencer.net.link import Link
from sequencer.testing.proxy.fault_proxy import FaultProxy

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
    return said.rpartition("; to go on: ")[2].strip()


def run_in_shell(cli: Cli, line: str, **environment: str) -> str:
    """What a line for a shell says; it must be fine."""
    environment = cli.environment | {"PATH": f"{Path(cli.program).parent}:/usr/bin:/bin"} | environment
    done = subprocess.run(
        ["/bin/bash", "-c", line], cwd=cli.directory, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("is_packed", [False, True])
def test_a_full_server_is_said_with_the_first_line_not_stored_and_the_command_for_the_rest(
    cli: Cli, own: EmbeddedServer, namespace: str, is_packed: bool
) -> None:
    """Lines without ids: one that is appended again would be a second message."""
    name = "a b.gz" if is_packed else "a b"
    (cli.directory / name).write_bytes(gzip.compress(lines(LINES).encode()) if is_packed else lines(LINES).encode())
    link = Link(Endpoint.from_url(own.url))
    with Sequencer("jobs", own.url, namespace=namespace) as seq:
        seq.connect()
        used = int(dict(one.split(b":") for one in link.command("INFO").split() if b":" in one)[b"used_memory"])
        link.command("CONFIG", "SET", "maxmemory", used + ROOM)
        done = cli.run("append", "jobs", name, "--chunk", 10, SEQUENCER_REDIS=own.url)
        assert done.returncode == 3
        stored = seq.info().backlog
        assert 0 < stored < LINES
        full, said = done.stderr.splitlines()
        assert full.startswith(f"error: server {own.url}: the server is full (at its maxmemory); consumers go on and ")
        doctor = full.partition(", as this says: ")[2]
        assert doctor == f"sequencer doctor --redis {own.url}"
        assert cli.call(*shlex.split(doctor)[1:]).stdout.count("the server is full (") == 1
        info = cli.run("info", SEQUENCER_REDIS=own.url).stderr
        assert re.match(r"memory: .*[0-9,]+ bytes used of maxmemory [0-9,]+ \([0-9]+%\).* it refuses appends", info)
        assert said == (
            f"the lines up to {stored:,} are stored; line {stored + 1:,} is the first that this call "
            "did not store; to go on: sequencer "
            f"append jobs '{name}' --chunk 10 --from-line {stored + 1} --namespace {namespace}"
        )
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
        nothing = "this call stored nothing yet; line 1 is the first that this call did not store; to go on, give the "
        nothing += "whole input again to: "
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
    assert "this call stored nothing yet, and of the 4 lines behind it perhaps some; to go on, give " in done.stderr

"""Passwords: wherever they are given, they show in no output, no log, no command line and no view."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sequencer import Sequencer
from sequencer.errors import ServerError
from sequencer.server import find_binary
from sequencer.testing import wait_until

if TYPE_CHECKING:
    from .conftest import Cli

PATIENCE_S = 30.0
CANARY = "canary-7f3a"
WRONG = "kestrel-91c2"


@pytest.fixture(scope="module")
def secured() -> Iterator[str]:
    """host:port of a server that wants the password CANARY."""
    directory = Path(tempfile.mkdtemp(prefix="sqt-"))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{free.getsockname()[1]}"
    config = directory / "server.conf"
    config.write_text(f'bind 127.0.0.1\nport {place[10:]}\nrequirepass {CANARY}\nsave ""\ndir {directory}\n')
    binary = os.environ.get("SEQUENCER_TEST_BINARY") or find_binary()
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen([binary, str(config)], stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def is_up() -> bool:
        try:
            with Sequencer("probe", f"redis://:{CANARY}@{place}") as probe:
                probe.connect()
            return True
        except ServerError:
            return False

    try:
        wait_until(is_up, PATIENCE_S, (directory / "log").read_text())
        yield place
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(directory)


def clean(*texts: str) -> None:
    for text in texts:
        assert CANARY not in text
        assert WRONG not in text


@pytest.mark.parametrize("form", ["user", "query"])
def test_a_password_is_used_and_shown_nowhere(cli: Cli, secured: str, form: str) -> None:
    url = f"redis://{secured}/0?password={CANARY}" if form == "query" else f"redis://default:{CANARY}@{secured}/0"
    words = [f"--redis={url}"] if form == "query" else ["--redis", url]
    line = '{"group": ["a"], "body": {"gate": "gate"}}\n'
    debug = ("--log-level", "DEBUG")

    append = cli.run(*debug, "append", form, *words, input=line)
    assert append.returncode == 0, append.stderr
    consume = cli.start(*debug, "consume", form, "--app", "shop:handle", "-n", 2, *words)
    wait_until((cli.directory / "history.ndjson").exists, PATIENCE_S, "a handler runs")
    wait_until(lambda: len(consume.consumers()) == 2, PATIENCE_S)
    lines = [cli.command_line(pid) for pid in (consume.pid, *consume.consumers())]
    assert all(lines)
    clean(*lines)
    info = cli.run(*debug, "info", form, "--json", SEQUENCER_REDIS=url)
    assert info.returncode == 0
    clean(info.stdout, info.stderr)
    cli.open("gate")
    consume.signal()
    assert consume.ended() == 0
    clean(append.stdout, append.stderr, consume.stdout, consume.stderr)


def test_a_password_given_on_the_command_line_is_hidden_at_once(cli: Cli, secured: str) -> None:
    append = cli.start("info", "jobs", "--watch", "--json", "--redis", f"redis://:{CANARY}@{secured}")
    wait_until(lambda: append.stdout, PATIENCE_S, "it works")
    line = cli.command_line(append.pid)
    assert "info jobs --watch" in line
    clean(line)


@pytest.mark.parametrize(
    ("url", "status", "said"),
    [
        (f"redis://:{WRONG}@{{place}}", 3, "it refused user or password; check the URL"),
        ("redis://{place}", 3, "it wants a password; put it into the URL: redis://:PASSWORD@host"),
        (f"redis://:{CANARY}@127.0.0.1:1", 3, "server redis://***@127.0.0.1:1 can't be reached"),
        (f"redis://:{CANARY}@127.0.0.1:port", 2, "server URL 'redis://***' can't be read"),
        (f"redis://:{CANARY}/{WRONG}@{{place}}", 2, "can't be read"),
        (f"redis://:{CANARY}@{{place}}/0?socket_timeout=soon", 2, "can't be read"),
        (f"redis://:{CANARY}@{{place}}/0?color=red", 2, "can't be read"),
        (f"redis://:{CANARY}@{{place}}/999", 3, "DB index is out of range"),
        (f"unix://:{CANARY}@/nowhere/server.sock", 3, "server unix://***@/nowhere/server.sock can't be reached"),
    ],
)
def test_an_error_names_the_server_without_its_password(
    cli: Cli, secured: str, url: str, status: int, said: str
) -> None:
    url = url.format(place=secured)
    done = cli.run("--log-level", "DEBUG", "consume", "jobs", "--redis", url)
    clean(done.stdout, done.stderr)
    assert said in done.stderr
    assert done.returncode == status
    assert done.stderr.count("\n") == 1, "one line"

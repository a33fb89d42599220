"""Passwords: wherever they are given, they show in no output, no log, no command line and no view."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from sequencer import Sequencer
from sequencer.errors import ServerError
from sequencer.server import find_binary
from sequencer.testing import wait_until

from ..support.processes import command_line
from ..support.run_scene import PATIENCE_S
from .conftest import Cli

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


@pytest.mark.parametrize("form", ["user", pytest.param("query", marks=pytest.mark.nightly)])
def test_a_password_is_used_and_shown_nowhere(cli: Cli, secured: str, form: str) -> None:
    url = f"redis://{secured}/0?password={CANARY}" if form == "query" else f"redis://default:{CANARY}@{secured}/0"
    words = [f"--redis={url}"] if form == "query" else ["--redis", url]
    line = '{"group": ["a"], "body": {"gate": "gate"}}\n'
    debug = ("--log-level", "DEBUG")

    append = cli.run(*debug, "append", form, *words, input=line)
    assert append.returncode == 0, append.stderr
    consume = cli.start(*debug, "consume", form, "--app", "shop:handle", "-n", 2, *words)
    wait_until((cli.directory / f"{form}.ndjson").exists, PATIENCE_S, "a handler runs")
    wait_until(lambda: len(consume.consumers()) == 2, PATIENCE_S)
    lines = [command_line(pid) for pid in (consume.pid, *consume.consumers())]
    assert all(lines)
    clean(*lines)
    info = cli.run(*debug, "info", form, "--json", SEQUENCER_REDIS=url)
    assert info.returncode == 0
    clean(info.stdout, info.stderr)
    cli.open("gate")
    consume.stop()
    clean(append.stdout, append.stderr, consume.stdout, consume.stderr)


def environment_of(pid: int) -> str:
    """What a process was started with; empty when it is gone."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/environ").read_bytes().replace(b"\0", b"\n").decode(errors="replace")
    return ""


def test_commands_in_the_log_leave_a_password_to_the_variable(cli: Cli, secured: str) -> None:
    """Pasted where that is not set they are refused: they do not ask another server instead."""
    del cli.environment["SEQUENCER_REDIS"]
    url = f"redis://:{CANARY}@{secured}"
    assert cli.run("append", "named", "--redis", url, input='{"group": ["a"], "body": 1}\n').returncode == 0
    words = ("consume", "named", "--exec", "false", "--max-attempts", 1, "--until-empty")
    done = cli.run(*words, "--redis", url)
    found = re.search(r"inspect: (sequencer explain named a .*?) / ", done.stderr)
    assert found
    assert found[1].endswith(' --redis "$SEQUENCER_REDIS"')

    def paste(**variables: str) -> subprocess.CompletedProcess[str]:
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        command = ["bash", "-c", f"{found[1]} --namespace {cli.environment['SEQUENCER_NAMESPACE']}"]
        return subprocess.run(command, env={"PATH": path, **variables}, text=True, capture_output=True, check=False)

    unset, known = paste(), paste(SEQUENCER_REDIS=url)
    assert (unset.returncode, unset.stderr[:31]) == (2, "error: the server URL is empty;")
    assert "group a is parked" in known.stdout
    clean(done.stderr, known.stdout, known.stderr)


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="environments can't be read here")
def test_a_password_is_in_no_command_line_and_in_no_environment_of_a_consumer_or_a_command(
    cli: Cli, secured: str
) -> None:
    del cli.environment["SEQUENCER_REDIS"]
    url = f"redis://:{CANARY}@{secured}"
    line = '{"group": ["a"], "body": 1}\n'
    assert cli.run("append", "exec", "--redis", url, input=line).returncode == 0
    command = "env > environment; while [ ! -e gate ]; do sleep 0.05; done"
    consume = cli.start("consume", "exec", "--exec", command, "--until-empty", "--redis", url)
    try:
        wait_until((cli.directory / "environment").exists, PATIENCE_S, "the command runs")
        pids = cli.left()
        assert len(pids) >= 3, "a supervisor, a consumer and a command"
        clean(*[command_line(pid) for pid in pids])
        clean(*[environment_of(pid) for pid in pids if pid != consume.pid])
    finally:
        cli.open("gate")
    assert consume.ended() == 0
    written = (cli.directory / "environment").read_text()
    assert "SEQUENCER_REDIS" not in written
    assert "SEQUENCER_NAMESPACE" in written
    clean(written, consume.stdout, consume.stderr)


@pytest.mark.nightly
@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="environments can't be read here")
def test_run_shows_the_password_in_no_process_and_no_answer_but_its_own_environment(cli: Cli, secured: str) -> None:
    """The file names the variable that holds it, and those of a target. The app finds the server; the check has a
    process of its own.
    """
    cli.environment |= {"SHOP_REDIS": f"redis://:{CANARY}@{secured}", "SEQUENCER_HOME": str(cli.directory / "home")}
    hook = f"https://hooks.example.com/{CANARY}"
    cli.environment |= {"HOOK_URL": hook, "HOOK_SECRET": CANARY}
    del cli.environment["SEQUENCER_REDIS"]
    (cli.directory / "ops.py").write_text("def look(seen):\n    return f'{seen.due} due'\n")
    (cli.directory / "sequencer.toml").write_text(
        "redis = 'env:SHOP_REDIS'\n"
        "[queues.jobs]\napp = 'shop:handle'\ncheck = 'ops:look'\n"
        "[queues.mails]\nexec = 'env > environment'\n"
        "[alerts]\nno_consumers = '1h'\nwait = '1h'\n"
        "[targets.ours]\ntype = 'feishu'\nurl = 'env:HOOK_URL'\nsecret = 'env:HOOK_SECRET'\n"
    )
    url = cli.environment["SHOP_REDIS"]
    assert cli.run("append", "mails", input='{"group": ["a"], "body": 1}\n', SEQUENCER_REDIS=url).returncode == 0
    checked = cli.run("run", "--check", "--json")
    assert checked.returncode == 0, checked.stderr
    running = cli.start("--log-level", "DEBUG", "run")
    running.wait_for("jobs: check failed: 0 due")
    said = cli.run("run", "--status", "--json")
    assert said.returncode == 0
    wait_until((cli.directory / "environment").exists, PATIENCE_S, "the command ran")
    pids = cli.left()
    assert len(pids) >= 4, "a master, two consumers and a check"
    clean(*[command_line(pid) for pid in pids])
    others = [environment_of(pid) for pid in pids if pid != running.pid]
    clean(*[one.replace(f"SHOP_REDIS=redis://:{CANARY}", "") for one in others])
    running.stop()
    written = (cli.directory / "environment").read_text()
    assert not {"SHOP_REDIS", "HOOK_URL", "HOOK_SECRET"} & {line.partition("=")[0] for line in written.splitlines()}
    clean(written, checked.stdout, checked.stderr, said.stdout, said.stderr, running.stdout, running.stderr)


def test_a_command_is_given_the_url_where_that_is_asked_for(cli: Cli, secured: str) -> None:
    url = f"redis://:{CANARY}@{secured}"
    line = '{"group": ["a"], "body": 1}\n'
    assert cli.run("append", "passed", "--redis", url, input=line).returncode == 0
    words = ["consume", "passed", "--exec", 'echo "$SEQUENCER_REDIS" >> url', "--until-empty"]
    done = cli.run(*words, "--pass-redis", "--redis", url)
    assert done.returncode == 0, done.stderr
    assert (cli.directory / "url").read_text() == f"{url}\n"
    wrong = cli.run("consume", "passed", "--pass-redis", "--until-empty")
    assert (wrong.returncode, wrong.stdout) == (2, "")


def test_an_app_finds_the_server_that_was_named(cli: Cli, secured: str) -> None:
    url = f"redis://:{CANARY}@{secured}"
    (cli.directory / "found.py").write_text(
        "from sequencer import Sequencer\n"
        "seq = Sequencer('app')\n"
        "@seq.handler\n"
        "def handle(message):\n"
        "    import os\n"
        "    open('found', 'w').write(os.environ['SEQUENCER_REDIS'])\n"
    )
    del cli.environment["SEQUENCER_NAMESPACE"]
    assert cli.run("append", "app", "--redis", url, input='{"group": ["a"], "body": 1}\n').returncode == 0
    done = cli.run("consume", "app", "--app", "found:seq", "--until-empty", "--redis", url)
    assert done.returncode == 0, done.stderr
    assert (cli.directory / "found").read_text() == url


def test_a_password_is_hidden_before_anything_is_imported(cli: Cli, tmp_path: Path) -> None:
    """Imports take a third of a second, in which anybody may look."""
    package = tmp_path / "first" / "sequencer"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(
        "import os, sys\n"
        "open('seen', 'w').write(' '.join(sys.orig_argv) + ' ' + os.environ.get('SEQUENCER_REDIS', ''))\n"
        "os._exit(0)\n"
    )
    cli.run("info", "--redis", f"redis://:{CANARY}@nowhere", PYTHONPATH=str(package.parent))
    command_line, _, url = (tmp_path / "seen").read_text().rpartition(" ")
    assert command_line.endswith("sequencer info")
    assert CANARY in url


@pytest.mark.parametrize(
    ("url", "status", "said"),
    [
        (f"redis://:{WRONG}@{{place}}", 3, "refused the user or password; check the URL"),
        ("redis://{place}", 3, "requires a password; put it into the URL: redis://:PASSWORD@host"),
        (f"redis://:{CANARY}@127.0.0.1:1", 3, "server redis://***@127.0.0.1:1 can't be reached"),
        (f"redis://:{CANARY}/{WRONG}@{{place}}", 2, "can't be read"),
        (f"redis://:{CANARY}@{{place}}/0?socket_timeout=soon", 2, "can't be read"),
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

"""The whole command line: options and their variables, help, completion, wrong values, embedded server, demo."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import typer.main

from sequencer import Message, Sequencer, SetAside, __version__
from sequencer.cli.main import EXAMPLES
from sequencer.net.link import Link
from sequencer.testing import wait_until

from ..support.run_scene import PATIENCE_S
from .conftest import Cli

PLAIN = {"--help", "--version", "--install-completion", "--show-completion"}


@pytest.fixture
def short_path(cli: Cli) -> Iterator[Path]:
    """A directory with a short name: that of a socket holds 107 bytes. No process may be left that names it."""
    path = Path(tempfile.mkdtemp(prefix="sqt-"))
    cli.places.append(str(path))
    yield path
    cli.close()
    shutil.rmtree(path)


def walk(command: Any, path: str = "sequencer") -> Iterator[tuple[str, Any]]:
    """Every option of a command and of its subcommands."""
    for parameter in command.params:
        if parameter.param_type_name == "option":
            yield path, parameter
    for name, child in getattr(command, "commands", {}).items():
        yield from walk(child, f"{path} {name}")


def commands() -> Any:
    from sequencer.cli.app import app
    from sequencer.cli.main import import_commands

    import_commands()
    return typer.main.get_command(app)


DEPLOYMENT = {
    "--redis": "SEQUENCER_REDIS",
    "--db": "SEQUENCER_DB",
    "--directory": "SEQUENCER_HOME",
    "--namespace": "SEQUENCER_NAMESPACE",
    "--app": "SEQUENCER_APP",
    "--processes": "SEQUENCER_PROCESSES",
    "--lease": "SEQUENCER_LEASE",
    "--log-level": "SEQUENCER_LOG_LEVEL",
    "--log-format": "SEQUENCER_LOG_FORMAT",
}
"""What a variable may say: the server, the database, the namespace, the app, the processes, the lease and the log."""
ONLY_LESS = {"--dry-run": "SEQUENCER_DRY_RUN"}
"""A variable that can't make a call do more."""


def test_only_what_describes_a_deployment_has_a_variable() -> None:
    root = commands()
    options = [(path, option) for path, option in walk(root) if not PLAIN & set(option.opts)]
    assert len(options) > 100
    found = {(option.opts[0], option.envvar) for _, option in options if option.envvar}
    assert found == set((DEPLOYMENT | ONLY_LESS).items())
    trials = [option.envvar for _, option in options if option.opts == ["--dry-run"]]
    assert set(trials) == {ONLY_LESS["--dry-run"]}, "whoever set it must meet no command that does more"
    assert {path for path, option in options if option.envvar == "SEQUENCER_PROCESSES"} == {"sequencer consume"}


def test_a_call_imports_the_file_of_its_command() -> None:
    """A command that no file names could not be called; one that is named twice would be imported with another's."""
    found = [(one.callback, name) for name, one in commands().commands.items() if one.callback]
    below = [
        (next(iter(one.commands.values())).callback, name)
        for name, one in commands().commands.items()
        if not one.callback
    ]
    files = {name: callback.__module__.removeprefix("sequencer.cli.") for callback, name in found + below}
    assert files == {example.split()[0]: file for example, (file, _) in EXAMPLES.items()}
    asked = "import sys; from sequencer.cli.main import import_commands as c; c(sys.argv[1:]); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", asked, "info", "jobs"], capture_output=True, text=True, check=True)
    of_commands = {f"sequencer.cli.{file}" for file, _ in EXAMPLES.values()}
    assert of_commands & {*loaded.stdout.split()} == {"sequencer.cli.show"}


def test_a_variable_deletes_nothing(cli: Cli, seq: Sequencer) -> None:
    seq.append(1, "g", id="m")
    seq.consume(gives_up, until_empty=True)
    refused = cli.call("dead", "purge", "jobs", SEQUENCER_ALL="1", SEQUENCER_YES="1")
    assert (refused.returncode, refused.stdout) == (2, "")
    kept = cli.call("dead", "purge", "jobs", "--all", "--yes", SEQUENCER_DRY_RUN="1")
    assert (kept.returncode, kept.stdout, kept.stderr) == (0, "1 would be purged\n", "")
    looked = cli.call("delete", "jobs", "--yes", SEQUENCER_DRY_RUN="1")
    assert (looked.returncode, looked.stderr) == (0, "")
    assert seq.info().dead == 1


def gives_up(message: Message) -> None:
    raise SetAside


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("consum", "jobs"), "'consume'"),
        (("dead", "purg", "jobs"), "'purge'"),
        (("consume", "jobs", "--max-atempts", 3), "--max-attempts"),
    ],
)
def test_a_misspelt_word_is_answered_with_the_right_one(cli: Cli, words: tuple[object, ...], said: str) -> None:
    done = cli.call(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


def test_a_command_in_the_call_wins_over_an_app_in_a_variable(cli: Cli, seq: Sequencer) -> None:
    seq.append({"n": 1}, "g", id="m")
    done = cli.run("consume", "jobs", "--exec", "cat > seen.json", "--until-empty", SEQUENCER_APP="shop:handle")
    assert done.returncode == 0, done.stderr
    assert json.loads((cli.directory / "seen.json").read_text())["id"] == "m"
    assert not (cli.directory / "jobs.ndjson").exists(), "the app handled nothing"
    both = cli.run("consume", "jobs", "--exec", "cat", "--app", "shop:handle")
    assert (both.returncode, both.stdout) == (2, "")


def test_version_help_and_no_arguments(cli: Cli) -> None:
    assert cli.run("--version").stdout == f"sequencer {__version__}\n"
    told = cli.run("--help")
    assert told.returncode == 0
    assert "Exit codes: 0 success; 1 gave up" in told.stdout
    for words in ((), ("fly",), ("consume", "jobs", "--fly")):
        assert cli.run(*words).returncode == 2


@pytest.mark.parametrize("example", EXAMPLES)
def test_each_command_has_an_example_that_it_takes(example: str) -> None:
    command, words = commands(), example.split()
    while hasattr(command, "commands"):
        command = command.commands[words.pop(0)]
    epilogs = {f"Example: `sequencer {one}`" for one in EXAMPLES}  # the first one of several
    assert command.epilog in epilogs
    given, _, _ = command.make_parser(click.Context(command)).parse_args(words)
    assert set(given) <= {one.name for one in command.params}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("append", "bad name"), "bad name"),
        (("consume", "jobs", "-n", 0), "--processes"),
        (("consume", "jobs", "--max-messages", 0), "max_messages=0"),
        (("consume", "jobs", "--exec", "nosuch x"), "nosuch"),
        (("configure", "jobs", "--dedup-window", "5x"), "--dedup-window"),
        (("--log-format", "yaml", "info"), "'yaml'"),
    ],
)
def test_a_wrong_value_is_one_clear_sentence_and_stores_nothing(
    cli: Cli, link: Link, words: tuple[object, ...], said: str
) -> None:
    done = cli.call(*words, input='{"group": ["a"], "body": {}}\n')
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert link.command("KEYS", "*") == []


def test_the_embedded_server_starts_once_serves_and_stops(cli: Cli, short_path: Path) -> None:
    home = short_path / "home"
    url = f"unix://{home}/server.sock"
    del cli.environment["SEQUENCER_REDIS"]
    said = cli.run("server", "status", "--directory", home)
    assert (said.returncode, said.stdout) == (0, f"not running; data in {home}\n")
    try:
        assert cli.run("server", "start", "--directory", home).stdout == f"started: {url}\n"
        assert cli.run("server", "start", "--directory", home).stdout == f"already running: {url}\n"
        assert cli.run("server", "status", SEQUENCER_HOME=str(home)).stdout.startswith("running: ")
        assert len(cli.left()) == 1
        line = '{"group": ["a"], "body": "kept"}\n'
        assert cli.call("append", "jobs", input=line, SEQUENCER_HOME=str(home)).stdout.startswith("appended 1,")
    finally:
        stopped = cli.run("server", "stop", "--directory", home)
    assert (stopped.returncode, stopped.stdout) == (0, "stopped\n")
    assert cli.left() == []
    try:
        printed = cli.run("consume", "jobs", "--until-empty", SEQUENCER_HOME=str(home))
        assert '"body":"kept"' in printed.stdout, "it starts when needed, with the data it had"
        assert printed.stderr.count(f"started an embedded server in {home}; ") == 1
        never = cli.call("info", SEQUENCER_HOME=str(home), SEQUENCER_EMBEDDED="never")
        assert (never.returncode, "SEQUENCER_REDIS" in never.stderr) == (2, True)
        assert cli.call("info", SEQUENCER_HOME=str(home), SEQUENCER_REDIS="").returncode == 2
    finally:
        assert '"stopped":true' in cli.run("server", "stop", "--directory", home, "--json").stdout


def test_a_user_without_a_home_directory_needs_a_named_server(cli: Cli) -> None:
    """As in a container whose user no passwd file knows."""
    url = cli.environment["SEQUENCER_REDIS"]
    own = "import os\nfrom sequencer import Sequencer\nredis = os.environ.get('OWN')\n"
    own += "seq = Sequencer('jobs', redis, namespace=os.environ['SEQUENCER_NAMESPACE'])\nseq.handler(print)\n"
    (cli.directory / "own.py").write_text(own)
    cli.environment["XDG_STATE_HOME"] = "~no-such-user/state"
    consume = ("consume", "jobs", "--app", "own:seq", "--until-empty")
    assert cli.run(*consume).returncode == 0
    del cli.environment["SEQUENCER_REDIS"]
    assert cli.run(*consume, OWN=url).returncode == 0, "the app names it"
    embedded = cli.call("info")
    assert (embedded.returncode, "SEQUENCER_REDIS" in embedded.stderr) == (2, True)


def test_the_demo_is_clean_and_leaves_nothing(cli: Cli, short_path: Path) -> None:
    del cli.environment["SEQUENCER_REDIS"]
    done = cli.run("demo", "-n", 3, "--messages", 2000, timeout=90, TMPDIR=str(short_path))
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line.split(maxsplit=1) for line in done.stdout.splitlines()]
    said = {name: value for name, value in lines if name in ("messages", "losses", "verdict")}
    assert said == {"messages": "2,000", "losses": "0", "verdict": "clean"}
    assert "order violations  0\n" in done.stdout
    assert cli.left() == []
    assert list(short_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGHUP, marks=pytest.mark.nightly)])
def test_a_demo_that_is_stopped_leaves_nothing(cli: Cli, short_path: Path, number: signal.Signals) -> None:
    del cli.environment["SEQUENCER_REDIS"]
    demo = cli.start("demo", "-n", 2, "--messages", 200_000, TMPDIR=str(short_path))
    wait_until(lambda: len(demo.consumers()) == 2, PATIENCE_S, "two consumers")
    demo.signal(number)
    assert demo.ended() == 130
    assert cli.left() == []
    assert list(short_path.iterdir()) == []


def test_a_shell_completes_queues_and_states_and_starts_no_server(cli: Cli, seq: Sequencer, short_path: Path) -> None:
    def completed(*words: str, **environment: Any) -> list[str]:
        line: dict[str, Any] = {"COMP_WORDS": " ".join(["sequencer", *words]), "COMP_CWORD": str(len(words))}
        return cli.run(_SEQUENCER_COMPLETE="complete_bash", **line, **environment).stdout.split()

    seq.connect()
    assert completed("groups", "jo") == completed("info", "") == ["jobs"]
    assert completed("groups", "jobs", "--state", "pa") == ["paused", "parked"]
    assert completed("groups", "", SEQUENCER_REDIS="", SEQUENCER_HOME=str(short_path)) == []
    assert list(short_path.iterdir()) == []
    assert completed("groups", "", SEQUENCER_REDIS="redis://127.0.0.1:1") == []

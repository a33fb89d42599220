"""The canaries in real processes: what commands print, good ones and failing ones, and what `ps` shows of them."""

from __future__ import annotations

import subprocess
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from sequencer.testing import wait_until

from .search import Search
from .server import COMMAND, OwnServer, clean_environment, run_command

PATIENCE_S = 30.0


class Step(NamedTuple):
    """A command, split at spaces; {url}, {wrong}, {secret} and {password} stand for what a run knows."""

    status: int
    words: str
    lines: str = ""
    shows_payload: bool = False


GOOD = '{"group": ["h"], "id": "b", "body": {"secret": "{secret}"}, "headers": {"t": "{secret}"}}'
STEPS = (
    Step(0, "append q", GOOD),
    Step(2, "append q --redis {url}", '{"group": ["g"], "body": {"a": "{secret}"'),
    Step(2, "append q", '{"body": "{secret}"}'),
    Step(4, "consume q --app broken:handle --max-attempts 1 --until-empty"),
    Step(0, "peek q h", shows_payload=True),
    Step(3, "info q --redis {wrong}"),
    Step(2, "append q --group-by user", '{"secret": "{secret}"}'),
    Step(2, "append q --redis redis://:{password}@127.0.0.1:{password}", GOOD),
    Step(0, "doctor"),
    Step(3, "doctor --redis {wrong}"),
    Step(0, "explain q h"),
    Step(0, "get q h --id b", shows_payload=True),
    Step(0, "resume q h"),
    Step(0, "consume q --exec false --max-attempts 1 --on-failure dead_letter --until-empty"),
    Step(0, "dead show q h --id b", shows_payload=True),
    Step(0, "dead redrive q --all"),
    Step(0, "consume q --until-empty --audit", shows_payload=True),
    Step(0, "audit q"),
    Step(2, "consume q --app absent:seq"),
)


def commands(search: Search, own: OwnServer, url: str) -> None:
    """What commands print, good ones and failing ones."""
    directory = own.directory
    wrong = url.replace(search.password, f"x{search.password}")
    known = {"{url}": url, "{wrong}": wrong, "{secret}": search.payload, "{password}": search.password}
    (directory / "broken.py").write_text("def handle(message):\n    raise ValueError('no such currency')\n")
    (directory / "absent.py").write_text("from sequencer import Sequencer\nseq = Sequencer('q', 5)\n")
    for step in STEPS:
        words, lines = step.words, step.lines
        for name, value in known.items():
            words, lines = words.replace(name, value), lines.replace(name, value)
        search.command(
            words.split(),
            directory,
            lines and f"{lines}\n",
            status=step.status,
            shows_payload=step.shows_payload,
            SEQUENCER_REDIS=url,
        )


def processes(search: Search, directory: Path, url: str) -> None:
    """What `ps` shows of a supervisor, its consumers, and the command that handles a message."""
    if not Path("/proc/self/cmdline").exists():
        search.problems.append("command lines can't be read here: there is no /proc")
        return
    environment = clean_environment() | {"SEQUENCER_REDIS": url}
    words = ("consume", "ps", "--exec", "touch running; while [ ! -e gate ]; do sleep 0.1; done", "-n", "2")
    run_command(("append", "ps"), directory, f'{{"group": ["g"], "body": "{search.payload}"}}\n', SEQUENCER_REDIS=url)
    parent = subprocess.Popen(
        [*COMMAND, *words, "--redis", url, "--until-empty"],
        cwd=directory,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        wait_until((directory / "running").exists, PATIENCE_S, "the command runs")
        family = wait_until(lambda: _family(parent.pid), PATIENCE_S, "a supervisor, two consumers and a command")
        for pid in family:
            with suppress(FileNotFoundError, ProcessLookupError):
                search.look("a command line", Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace"))
    finally:
        (directory / "gate").touch()
        try:
            search.look("standard error of consume -n 2", parent.communicate(timeout=PATIENCE_S)[1])
        except subprocess.TimeoutExpired:
            parent.kill()
            parent.wait()
            raise


def _family(pid: int) -> list[int]:
    """The process and all below it, once they are four: supervisor, two consumers, a shell."""
    parents: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
    found = {pid}
    for _ in range(8):
        found |= {one for one, parent in parents.items() if parent in found}
    return sorted(found) if len(found) >= 4 else []

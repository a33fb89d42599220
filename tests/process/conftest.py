"""Real processes for the tests here: the installed command, handlers for it, and the check that nothing is left over.

`cli` runs `sequencer` in a directory of the test's own, against the test's server and namespace. `work` appends
messages for the handlers of `shop.py` (written into that directory) and reads what those wrote down. Every process
that a test starts, however deep, carries a mark in its environment, by which the end of the test finds it.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout, suppress
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

import pytest

from benchmarks.load.order_check import Handled, Verdict, check_history
from sequencer import EmbeddedServer, Sequencer
from sequencer.cli.main import run
from sequencer.testing import wait_until
from sequencer.texts.commands import name_server

from ..support.processes import children, command_line, living
from ..support.run_scene import PATIENCE_S, SHOP, RunScene, noted

MARK = "SQT_PROCESS_OF"
WORKER = re.compile(r"-m \S+\.worker\b")


class Running:
    """A process in the background; what it prints goes to files, so that it never waits for a reader."""

    def __init__(self, process: subprocess.Popen[bytes], out: Path, err: Path) -> None:
        self.process, self.pid, self._out, self._err = process, process.pid, out, err

    @property
    def stdout(self) -> str:
        return self._out.read_text()

    @property
    def stderr(self) -> str:
        return self._err.read_text()

    def lines(self) -> list[dict[str, Any]]:
        """The whole lines printed so far, as JSON."""
        return [json.loads(line) for line in self.stdout.splitlines(keepends=True) if line.endswith("\n")]

    def consumers(self) -> list[int]:
        """Its consumer processes, once each has become an interpreter of its own."""
        return [pid for pid in children(self.pid) if WORKER.search(command_line(pid))]

    def wait_for(self, text: str) -> None:
        """Wait until it said so on standard error."""
        wait_until(lambda: text in self.stderr, PATIENCE_S, f"{text!r} on standard error")

    def signal(self, number: int = signal.SIGTERM) -> None:
        self.process.send_signal(number)

    def ended(self, timeout_s: float = PATIENCE_S) -> int:
        """Wait for its end; the exit status."""
        return self.process.wait(timeout_s)

    def stop(self) -> None:
        """Ask it to end, and wait until it has, with status 0."""
        self.signal()
        assert self.ended() == 0, self.stderr

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        if self.process.stdout:
            self.process.stdout.close()


class Cli:
    """The installed command in `directory`."""

    def __init__(self, directory: Path, environment: dict[str, str]) -> None:
        self.directory, self.environment = directory, environment
        self.places: list[str] = []
        """Paths by which to know processes that write over their environment, as servers do."""
        self.program = str(Path(sysconfig.get_path("scripts")) / "sequencer")
        self._started: list[Running] = []

    def run(
        self, *words: object, input: str = "", timeout: float = PATIENCE_S, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Run the command to its end; keywords are further environment variables."""
        return subprocess.run(
            [self.program, *map(str, words)],
            input=input,
            text=True,
            capture_output=True,
            timeout=timeout,
            cwd=self.directory,
            env=self.environment | environment,
            check=False,
        )

    def call(self, *words: object, input: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
        """As `run`, but in this process, in a tenth of the time: for a command that starts nothing and ends by itself.

        The log is the test's own, so nothing of it is on standard error.
        """
        given, out, err = (TextIOWrapper(BytesIO(text.encode()), write_through=True) for text in (input, "", ""))
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err), chdir(self.directory):
            for name, value in (self.environment | environment).items():
                patch.setenv(name, value)
            patch.setattr("sys.stdin", given)
            patch.setattr("sys.argv", [self.program, *map(str, words)])
            hears = signal.getsignal(signal.SIGINT)
            try:
                status = run()
            finally:
                signal.signal(signal.SIGINT, hears)
                name_server("")
        said = (stream.buffer.getvalue().decode() for stream in (out, err))
        return subprocess.CompletedProcess([*map(str, words)], status, *said)

    def start(self, *words: object, **environment: str) -> Running:
        """Start the command in the background; it is killed at the end of the test."""
        return self._start([self.program, *map(str, words)], environment)

    def script(self, source: str) -> Running:
        """Start a Python program in the background."""
        return self._start([sys.executable, "-c", source], {"PYTHONUNBUFFERED": "1"})

    def piped(self, *words: object) -> Running:
        """As `start`, its standard output being a pipe that the test reads."""
        return self._start([self.program, *map(str, words)], {}, stdout=subprocess.PIPE)

    def _start(
        self, command: list[str], environment: dict[str, str], *, stdout: Any = None, stderr: Any = None
    ) -> Running:
        out, err = (self.directory / f"{name}-{len(self._started)}" for name in ("out", "err"))
        with out.open("wb") as to_out, err.open("wb") as to_err:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=to_out if stdout is None else stdout,
                stderr=to_err if stderr is None else stderr,
                cwd=self.directory,
                env=self.environment | environment,
            )
        self._started.append(Running(process, out, err))
        return self._started[-1]

    def open(self, gate: str) -> None:
        """Let handlers go on that wait for this gate."""
        (self.directory / gate).touch()

    def left(self) -> list[int]:
        """The living processes that this test started, directly or not."""
        mark = f"{MARK}={self.environment[MARK]}".encode()
        found = set()
        for pid, _ in living():
            with suppress(OSError):
                if mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                    found.add(pid)
            line = command_line(pid)
            if any(place in line for place in self.places):
                found.add(pid)
        return sorted(found)

    def close(self) -> None:
        for running in self._started:
            running.kill()
        with suppress(AssertionError):
            wait_until(lambda: not self.left(), 10.0)
        left = {pid: command_line(pid) for pid in self.left()}
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        assert not left, f"processes left over at the end of the test: {left}"


class Work:
    """Messages for the handlers of `shop.py`, and what these wrote down."""

    def __init__(self, queue: Sequencer, history: Path) -> None:
        self._queue, self._history = queue, history
        self._added: dict[str, int] = {}

    def add(self, group: str, *bodies: dict[str, Any]) -> None:
        """Append messages with ids group-0, group-1, ... and scores in that order."""
        first = self._added.get(group, 0)
        self._added[group] = first + len(bodies)
        self._queue.append_many(
            {"group": [group], "id": f"{group}-{n}", "score": n, "body": body} for n, body in enumerate(bodies, first)
        )

    def events(self, what: str, message_id: str | None = None) -> list[dict[str, Any]]:
        return noted(self._history, what, message_id)

    def wait_begun(self, message_id: str, times: int = 1) -> dict[str, Any]:
        """Wait until a handler began this message for the so-manieth time; the event."""
        wait_until(lambda: len(self.events("begun", message_id)) >= times, PATIENCE_S, f"{message_id} begun")
        return self.events("begun", message_id)[times - 1]

    def wait_handled(self, *message_ids: str) -> None:
        wait_until(lambda: all(self.events("handled", one) for one in message_ids), PATIENCE_S, f"{message_ids}")

    def handled(self) -> list[Handled]:
        fields = ("group", "id", "score", "stamp", "token", "started", "ended", "pid")
        return [Handled(*(event[name] for name in fields)) for event in self.events("handled")]

    def verdict(self, handled: list[Handled] | None = None) -> Verdict:
        expected = [(group, f"{group}-{n}") for group, count in self._added.items() for n in range(count)]
        return check_history(expected, self.handled() if handled is None else handled)

    def states(self) -> dict[str, str]:
        """Each group that has messages, with its state."""
        return {info.group[0]: info.state for info in self._queue.groups()}

    def head(self, group: str) -> tuple[str, int] | None:
        """The id of the next message of a group, and which attempt it would be."""
        messages = self._queue.peek([group], limit=1)
        return (messages[0].id, messages[0].attempt) if messages else None


@pytest.fixture
def cli(server: EmbeddedServer, namespace: str, tmp_path: Path) -> Iterator[Cli]:
    """The installed command, in the test's own directory, where `shop.py` is."""
    (tmp_path / "shop.py").write_text(SHOP)
    own = {"SEQUENCER_REDIS": server.url, "SEQUENCER_NAMESPACE": namespace, MARK: namespace}
    cli = Cli(tmp_path, {**os.environ, **own})
    yield cli
    cli.close()


@pytest.fixture
def scene(cli: Cli, make: Callable[..., Sequencer]) -> RunScene:
    """Queues of one file, for the installed command."""
    cli.environment |= {"SEQUENCER_HOME": str(cli.directory / "home"), "PYTHONDONTWRITEBYTECODE": "1"}
    return RunScene(cli.directory, make)


@pytest.fixture
def here(cli: Cli, scene: RunScene, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same for this process: its consumers find what those of the command would find."""
    monkeypatch.chdir(cli.directory)
    for name, value in cli.environment.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def work(cli: Cli, seq: Sequencer) -> Work:
    """Messages in queue `jobs`."""
    return Work(seq, cli.directory / "jobs.ndjson")

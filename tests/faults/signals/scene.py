"""One run of a case: a directory, a namespace, the real command in real processes, and an end of all of that.

`expect` is for what must come: with a negative control that is not waited for long. `wait` is for what a case needs
before
it can judge.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, TypeVar

from sequencer.client import Sequencer
from sequencer.testing import wait_until
from sequencer.values.views import GroupInfo

from ..server.host import go_on
from ..strays import end_strays
from .processes import children, command_line, kill
from .settings import CONTROLS, HISTORY, MARK

T = TypeVar("T")
PROGRAM = ("-P", "-c", "import sys; from sequencer_start import main; sys.exit(main())")
"""What the console script does."""
CHANGED = ("-P", "-m", "tests.faults.signals.command")
"""The same with what CONTROLS names changed."""
WORKERS = ("sequencer.processes.worker.run", "tests.faults.signals.worker")
APP = "tests.faults.signals.app:handle"
PATIENCE_S, CONTROL_S = 30.0, 3.0
"""How long to wait for what must come; from a control it is not to come at all."""
QUEUE = "jobs"
NOTHING: Mapping[str, str] = {}


class NotReady(Exception):
    """A case did not come to the point at which it judges."""


class LeftOut(Exception):
    """Something is not to be had here that a case needs."""


class Running:
    """A command in the background. What it says goes to files, unless the case gave it something else."""

    def __init__(self, process: subprocess.Popen[bytes], out: Path, err: Path) -> None:
        self.process, self.pid, self._out, self._err = process, process.pid, out, err

    @property
    def printed(self) -> str:
        return self._out.read_text(errors="replace")

    @property
    def said(self) -> str:
        return self._err.read_text(errors="replace")

    def told(self, name: str) -> int:
        """How many lines told of this event."""
        return self.said.count(f"{QUEUE}: {name}")

    @property
    def status(self) -> int | None:
        """Its exit status; None while it runs."""
        return self.process.poll()

    def consumers(self) -> list[int]:
        """Its consumer processes, once each has become an interpreter of its own."""
        return [child for child in children(self.pid) if any(f"-m {name}" in command_line(child) for name in WORKERS)]


class Scene:
    """What one run of a case works with; `close` ends and removes all of it."""

    def __init__(self, url: str, directory: Path, control: str = "", *, namespace: str | None = None) -> None:
        self.url, self.directory, self.control = url, directory, control
        self.namespace = namespace or f"signals{uuid.uuid4().hex[:12]}"
        self.faults = Counter[str]()
        self._running: list[Running] = []
        self._open: list[IO[bytes]] = []
        directory.mkdir(parents=True)
        self.queue = Sequencer(QUEUE, url, namespace=self.namespace, backoff=0.01)

    def close(self) -> None:
        for running in self._running:
            for pid in (*running.consumers(), running.pid):
                kill(pid)
            running.process.wait()
        end_strays(f"{MARK}={self.directory}")
        for file in self._open:
            file.close()
        self.queue.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    # -- processes --------------------------------------------------------------------------------------------

    def consume(
        self,
        *words: str,
        n: int = 1,
        app: bool = True,
        changed: Sequence[str] = (),
        before: Sequence[str] = (),
        python: str = sys.executable,
        stdout: Any = None,
        stderr: Any = None,
        environment: Mapping[str, str] = NOTHING,
    ) -> Running:
        """Start `sequencer consume` in the background, with the application of the cases if that is wanted; with the
        control, and with what else of controls.py is to be `changed`. `before` stands before it, as `nohup` does.
        """
        words = ("consume", QUEUE, "-n", str(n), *(("--app", APP) if app else ()), *words)
        changes = [*changed, *([self.control] if self.control else [])]
        own = {"SEQUENCER_REDIS": self.url, "SEQUENCER_NAMESPACE": self.namespace, MARK: str(self.directory)}
        own |= {CONTROLS: ",".join(changes)} if changes else {}
        kept = {name: value for name, value in os.environ.items() if not name.startswith("SEQUENCER_")}
        out, err = (self.directory / f"{name}-{len(self._running)}" for name in ("out", "err"))
        with out.open("ab") as to_out, err.open("ab") as to_err:
            process = subprocess.Popen(
                [*before, python, *(CHANGED if changes else PROGRAM), *words],
                stdin=subprocess.DEVNULL,
                stdout=to_out if stdout is None else stdout,
                stderr=to_err if stderr is None else stderr,
                cwd=self.directory,
                env={**kept, **own, **environment},
            )
        self._running.append(Running(process, out, err))
        return self._running[-1]

    def keep(self, file: IO[bytes]) -> IO[bytes]:
        """Closed at the end."""
        self._open.append(file)
        return file

    def signal(self, number: signal.Signals, pids: Iterable[int], what: str) -> None:
        """Send it to all of these; `what` is the kind of fault that is counted."""
        for pid in pids:
            kill(pid, number)
        self.faults[f"{number.name} {what}"] += 1

    # -- waiting ----------------------------------------------------------------------------------------------

    def wait(self, predicate: Callable[[], T], what: str, timeout_s: float = PATIENCE_S) -> T:
        """Wait for what the case needs. Raises NotReady."""
        try:
            return self._wait(predicate, what, timeout_s)
        except AssertionError as error:
            said = " / ".join(line for running in self._running for line in running.said.splitlines()[-3:])
            raise NotReady(f"{error}; it said: {said}") from error

    def expect(self, predicate: Callable[[], T], what: str, *, control_s: float = CONTROL_S) -> T:
        """Wait for what must come. Raises AssertionError; with a control that takes `control_s`."""
        return self._wait(predicate, what, control_s if self.control else PATIENCE_S)

    def _wait(self, predicate: Callable[[], T], what: str, timeout_s: float) -> T:
        def look() -> T:
            go_on()
            return predicate()

        return wait_until(look, timeout_s, what)

    def pass_time(self, seconds: float) -> None:
        """For a case in which nothing must happen for so long."""
        until = time.monotonic() + seconds
        self.wait(lambda: time.monotonic() >= until, "time passes", seconds + PATIENCE_S)

    def expect_end(self, running: Running, status: int, *, control_s: float = PATIENCE_S) -> None:
        """It must end, and with this exit status; `control_s` where a control does not end at all."""
        self.expect(lambda: running.status is not None, "the command ends", control_s=control_s)
        said = " / ".join(running.said.splitlines()[-3:])
        assert running.status == status, f"exit status {running.status}, not {status}; it said: {said}"

    def consumers(self, running: Running, count: int) -> list[int]:
        """Wait until it has so many consumers."""
        self.wait(lambda: len(running.consumers()) == count, f"{count} consumers")
        return running.consumers()

    # -- messages ---------------------------------------------------------------------------------------------

    def append(self, group: str, *bodies: dict[str, Any]) -> None:
        """Append messages with the ids group-0, group-1, ..."""
        self.queue.append_many(
            {"group": [group], "id": f"{group}-{number}", "score": number, "body": body}
            for number, body in enumerate(bodies)
        )

    def open(self, admission: str) -> None:
        """Let those go on that wait for this gate."""
        (self.directory / admission).touch()

    def events(self, what: str, message_id: str | None = None) -> list[dict[str, Any]]:
        """What the application wrote down."""
        history = self.directory / HISTORY
        lines = history.read_bytes().splitlines(keepends=True) if history.exists() else []
        events = [json.loads(line) for line in lines if line.endswith(b"\n")]
        return [event for event in events if event["what"] == what and message_id in (None, event.get("id"))]

    def wait_begun(self, *message_ids: str) -> None:
        """Wait until a handler began each of them."""
        self.wait(lambda: all(self.events("begun", one) for one in message_ids), f"{', '.join(message_ids)} begun")

    def beat(self, pids: Sequence[int]) -> None:
        """Wait until all of these that wait at a gate have looked there again, so that their signals took effect."""

        def beats(pid: int) -> int:
            path = self.directory / f"beats-{pid}"
            return path.stat().st_size if path.exists() else 0

        before = {pid: beats(pid) for pid in pids}
        cut = {event["pid"] for event in self.events("cut")}

        def have_looked() -> bool:
            gone = cut | {event["pid"] for event in self.events("cut")}
            return all(pid in gone or beats(pid) > before[pid] + 1 for pid in pids)

        self.wait(have_looked, "handlers that go on")

    def is_handled(self, *message_ids: str) -> bool:
        return all(self.events("handled", one) for one in message_ids)

    def group(self, name: str) -> GroupInfo | None:
        """A group as the server has it; None when it has no messages."""
        return next((info for info in self.queue.groups() if info.group == (name,)), None)

    def attempts(self, name: str) -> int:
        """How often the head of a group was tried and did not succeed; the group must be free."""
        info = self.group(name)
        assert info is not None, f"group {name} has no message left"
        assert info.state != "leased", f"group {name} was not released"
        return info.attempts

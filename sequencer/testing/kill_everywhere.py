"""Runs an app with a kill at every passage of every point, and judges each run; see `points` for how to use it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..client import Sequencer
from ..errors import ConfigurationError, StepUnknown
from ..processes.handlers.apps import load_app
from ..server import EmbeddedServer
from ..settings.options import settings_of
from ..store.group import encode_group
from ..texts.words import many
from ..values.message import Message
from .judge.history import Event, Recorder, read_events
from .judge.judgement import judge
from .points import APP, ARMED, DIRECTORY

MODULE = "sequencer_recorded_app"
_SOURCE = "from sequencer.testing.points import recorded_app\n\napp = recorded_app()\n"
MAX_MESSAGES = 10_000
FINE = (0, 4)
"""How `sequencer consume` ends when nothing is left, or parked groups only."""


@dataclass(slots=True)
class KillReport:
    """What `kill_everywhere` showed."""

    kills: int = 0
    """Runs in which a process died at its point."""
    passages: dict[str, int] = field(default_factory=dict)
    """Point -> the highest passage at which it was killed."""
    questions: int = 0
    """Groups that were parked at the end of a run, as a person has to say how a `once` step ended."""
    duplicates: int = 0
    """Messages handled again; each explained by the fault of its run, or it is among the problems."""
    recovery_s: list[float] = field(default_factory=list)
    """From each kill to the end of its run, in seconds."""
    problems: list[str] = field(default_factory=list)
    """What is wrong, each with point and passage."""

    @property
    def is_clean(self) -> bool:
        """No problem, and at least one kill."""
        return self.kills > 0 and not self.problems


def kill_everywhere(
    app: str,
    messages: Iterable[Any],
    *,
    queue: str | None = None,
    points: Sequence[str] | None = None,
    before: Callable[[], object] | None = None,
    check: Callable[[], object] | None = None,
    lease: float = 1.0,
    most: int = 100,
    timeout: float = 60.0,
    env: Mapping[str, str] | None = None,
) -> KillReport:
    """Run the app once without a fault, then with `kill -9` at each passage of each point, and judge every run.

    `app` is `module:attribute` as for `sequencer consume`, importable from the working directory; a function needs the
    name of its `queue`. `messages` are items of `append_many`, small in number: each run handles them all. `points`:
    those to kill at; None takes all that the first run passes. `before` is called before each run, `check` after it:
    an AssertionError of its is a problem that names point and passage. `lease` and `timeout` of a run in
    seconds; `most`: the highest passage tried. `env` is added to the consumers' environment.

    Raises HandlerNotFound, ConfigurationError, ServerNotUsable without a server to start.
    """
    runs = _Runs(app, list(messages), queue, before, check, lease, timeout, dict(env or {}))
    passed = sorted({event.id for event in runs.run() if event.kind == "passage"})
    for point in passed if points is None else points:
        for passage in range(1, most + 1):
            if not any(event.what == "fault" for event in runs.run(point, passage)):
                break
        if point not in runs.report.passages:
            runs.report.problems.append(f"point {point!r} was never reached; the handler passes: {', '.join(passed)}")
    return runs.report


@dataclass(slots=True)
class _Runs:
    """Run after run, each on a server of its own, and what they showed so far."""

    app: str
    messages: list[Any]
    queue: str | None
    before: Callable[[], object] | None
    check: Callable[[], object] | None
    lease_s: float
    timeout_s: float
    environment: dict[str, str]
    report: KillReport = field(default_factory=KillReport)
    left: int | None = None
    """Messages left by the first run, without a kill: of groups that the handler parked, say. Not those behind a
    question.
    """

    def run(self, point: str = "", passage: int = 0) -> list[Event]:
        """One run, with a kill unless the point is ""; what its processes wrote down."""
        if self.before:
            self.before()
        with tempfile.TemporaryDirectory(prefix="sqk-") as name:
            directory = Path(name)
            (directory / f"{MODULE}.py").write_text(_SOURCE)
            with EmbeddedServer(directory / "server") as server, self._client(server.url) as seq:
                seq.append_many(self.messages)
                _record(seq, directory)
                status, said = self._consume(seq, server.url, directory, f"{point}:{passage}" if point else "")
                ended = time.monotonic()
                left = _names(_messages_in(seq))
                parked = [one for one in seq.parked() if one.failure and one.failure.type == StepUnknown.__name__]
                dead = _names(letter.message for letter in seq.dead())
            events = read_events(sorted(directory.glob("*.ndjson")))
        fault = next((one for one in events if one.what == "fault"), None)
        verdict = judge(events, dead=dead, pending=left)
        problems = list(verdict.cases)
        if fault and "(signal SIGKILL)" not in said:  # whether a process was really killed is what its parent saw
            problems.append(
                f"a process says that it died at the point, and the supervisor saw no such death; {said[-500:]}"
            )
        if status not in FINE:
            problems.append(f"sequencer consume ended with status {status}: {said[-500:]}")
        try:
            if self.check:
                self.check()
        except AssertionError as error:
            problems.append(f"check: {(str(error) or 'failed').splitlines()[0]}")
        asked = {encode_group(one.group) for one in parked}
        waiting = sum(group not in asked for group, _ in left)
        self.left = waiting if self.left is None else self.left
        if waiting != self.left:
            problems.append(f"{many(waiting, 'message')} left, {self.left} without a kill; {said[-500:]}")
        where = f"killed at {point}, passage {passage}" if fault else "without a kill"
        self.report.problems += [f"{where}: {problem}" for problem in problems]
        self.report.questions += len(asked)
        self.report.duplicates += verdict.duplicates
        if fault:
            self.report.kills += 1
            self.report.passages[point] = passage
            self.report.recovery_s.append(ended - fault.at)
        return events

    def _client(self, url: str) -> Sequencer:
        """The app's queue, with what it says about groups, ids and scores, on another server."""
        own = load_app(self.app).sequencer
        if own is not None:
            return Sequencer(own.queue, url, namespace=own.options.namespace, **settings_of(own.options))
        if self.queue is None:
            raise ConfigurationError("queue_missing", app=self.app)
        return Sequencer(self.queue, url)

    def _consume(self, seq: Sequencer, url: str, directory: Path, armed: str) -> tuple[int, str]:
        """The real supervisor with real consumers, until nothing is left; what it said."""
        paths = [str(directory), os.getcwd(), os.environ.get("PYTHONPATH", "")]
        own = {"SEQUENCER_REDIS": url, DIRECTORY: str(directory), APP: self.app, ARMED: armed}
        own["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
        own["SEQUENCER_NAMESPACE"] = seq.options.namespace
        source = "import sys; from sequencer.cli import main; sys.exit(main())"
        options = ["-n", "1", "--lease", f"{self.lease_s:g}", "--until-empty", "--app", f"{MODULE}:app"]
        try:
            done = subprocess.run(
                [sys.executable, "-c", source, "consume", seq.queue, *options],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env={**os.environ, **self.environment, **own},
                timeout=self.timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired:  # it was killed: its consumers see their standard input end, and stop
            return -signal.SIGKILL, f"not done within {self.timeout_s:g} s"
        return done.returncode, done.stderr.decode(errors="replace")


def _record(seq: Sequencer, directory: Path) -> None:
    """What is in the queue was appended."""
    recorder = Recorder(directory / "appended.ndjson", "producer")
    for message in _messages_in(seq):
        name = {"group": encode_group(message.group), "id": message.id, "score": message.score}
        recorder.note("appending", **name)
        recorder.note("appended", kind="stored", stamp=message.stamp, **name)
    recorder.close()


def _messages_in(seq: Sequencer) -> Iterator[Message]:
    for info in seq.groups(limit=MAX_MESSAGES):
        yield from seq.peek(info.group, limit=MAX_MESSAGES)


def _names(messages: Iterable[Message]) -> list[tuple[str, str]]:
    return [(encode_group(message.group), message.id) for message in messages]

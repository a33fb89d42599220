"""Kill points in handlers of your own: a process that dies just where you say; see docs/testing.md.

`kill_here("charged")` in a handler names a point; it does nothing in production, for about 0.1 us. `kill_everywhere`
kills there in a test. By hand: `SEQUENCER_KILL_HERE=charged:2` kills a process at its second passage of the point.
"""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from ..drain.steps.declared import PassWatcher, Steps
from ..drain.steps.functions import BatchHandler, Function, InlineHandler
from ..errors import ConfigurationError
from ..processes.handlers.apps import load_app
from ..values.batch import Batch
from ..values.message import Message
from .judge.history import Recorder, run_fields

ARMED, DIRECTORY, APP = "SEQUENCER_KILL_HERE", "SEQUENCER_KILL_HERE_DIRECTORY", "SEQUENCER_KILL_HERE_APP"
"""What is armed; where passages are recorded, and that the point fired; the app whose handler is recorded."""


class KillPoints:
    """Counts the passages of this process, and kills it at the one that is armed."""

    def __init__(self, armed: str, directory: str) -> None:
        self._passages: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._recorder = Recorder(Path(directory) / f"points-{os.getpid()}.ndjson") if directory else None
        self._armed = parse_armed(armed) if armed else None

    def at(self, point: str) -> None:
        """Pass the point."""
        with self._lock:
            self._passages[point] += 1
            if self._recorder:
                self._recorder.note("seen", kind="passage", id=point)
            if (point, self._passages[point]) == self._armed and self._is_first():
                if self._recorder:
                    self._recorder.note("fault", kind="kill", id=point)
                os.kill(os.getpid(), signal.SIGKILL)

    def _is_first(self) -> bool:
        """Whether no process did it before: a run has one fault, or its successors would die of it as well."""
        try:
            if self._recorder:
                self._recorder.path.with_name("fired").touch(exist_ok=False)
        except FileExistsError:
            return False
        return True


def parse_armed(text: str) -> tuple[str, int]:
    """`POINT:PASSAGE` as its parts; a point may hold colons. Raises ConfigurationError."""
    point, _, passage = text.rpartition(":")
    if not point or not passage.isdecimal() or int(passage) < 1:
        raise ConfigurationError("point_invalid", name=ARMED, value=text)
    return point, int(passage)


@cache
def _kill_points() -> KillPoints | None:
    """The points of this process; None in production. Read once: what changes the environment later changes nothing."""
    armed, directory = os.environ.get(ARMED, ""), os.environ.get(DIRECTORY, "")
    return KillPoints(armed, directory) if armed or directory else None


def kill_here(point: str) -> None:
    """A named point in a handler: does nothing unless the environment says so (see the top of this file).

    Raises ConfigurationError where `SEQUENCER_KILL_HERE` can't be read.
    """
    points = _kill_points()
    if points is not None:
        points.at(point)


def recorded_app() -> Any:
    """The app that `SEQUENCER_KILL_HERE_APP` names, with each handler run recorded, and points around it.

    For the consumers of `kill_everywhere`. The points are `handler:before` and `handler:after`, or those of each step:
    `step:NAME:before`, `step:NAME:after`, and `step:NAME:saved`, where its start or its end is in the server.

    Raises HandlerNotFound; ConfigurationError for an app with a server of its own, on which nobody shall be killed by
    mistake.
    """
    app = load_app(os.environ[APP])
    if app.sequencer and app.sequencer.endpoint.url != os.environ["SEQUENCER_REDIS"]:
        raise ConfigurationError("app_names_server", app=os.environ[APP])
    recorder = Recorder(Path(os.environ[DIRECTORY]) / f"runs-{os.getpid()}.ndjson")
    if isinstance(app.handler, Steps):
        app.handler.watcher = _Watcher(recorder)
        for steps in app.handler.kinds.values():
            for step in steps.values():
                step.run = Function(_pointed(f"step:{step.name}", step.run))
        return app.sequencer
    handler: Any
    if isinstance(app.handler, BatchHandler):
        handler = replace(app.handler, function=_recorded_batches(recorder, _pointed("handler", app.handler.function)))
    else:
        handler = recorder.run(_pointed("handler", app.handler))
        handler = InlineHandler(handler) if isinstance(app.handler, InlineHandler) else handler
    if app.sequencer is None:
        return handler
    app.sequencer._handler = handler
    return app.sequencer


def _pointed(name: str, run: Callable[..., Any]) -> Callable[..., Any]:
    """A handler or step, with its points."""

    def pointed(*given: Any) -> Any:
        kill_here(f"{name}:before")
        result = run(*given)
        kill_here(f"{name}:after")
        return result

    return pointed


def _recorded_batches(recorder: Recorder, run: Callable[[Batch], Any]) -> Callable[[Batch], Any]:
    """The handler, with each message of its batches recorded as a run of its own, one after the other."""

    def recorded(batch: Batch) -> Any:
        def note(what: str, position: int) -> None:
            recorder.note(what, **run_fields(batch[position]))

        def done(message: Message) -> None:
            before = batch.done_count
            Batch.done(batch, message)
            for position in range(before, batch.done_count):
                note("ended", position)
                if position + 1 < len(batch):
                    note("begun", position + 1)

        batch.done = done  # type: ignore[method-assign]
        note("begun", 0)
        try:
            result = run(batch)
        except BaseException:
            recorder.note("failed", **run_fields(batch.failing))
            raise
        done(batch[-1])
        return result

    return recorded


class _Watcher(PassWatcher):
    """Records each pass as the run of a handler, and passes a point where a note is in the server."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def begun(self, message: Message) -> None:
        self._recorder.note("begun", **run_fields(message))

    def noted(self, names: Sequence[str]) -> None:
        for name in names:
            kill_here(f"step:{name}:saved")

    def ended(self, message: Message, *, is_finished: bool) -> None:
        self._recorder.note("ended" if is_finished else "failed", **run_fields(message))

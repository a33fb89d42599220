"""Kill points in handlers of your own: a process that dies, or stands still, just where you say; and a run over all of
them.

In the handler, `kill_here` names a point. It does nothing in production, for about 0.1 us:

    # orders.py
    from sequencer import Sequencer
    from sequencer.testing.points import kill_here

    seq = Sequencer("orders", group_by=("order",), id_by="id")

    @seq.handler
    def handle(message):
        bank.charge(message.body["amount"], idempotency_key=message.id)
        kill_here("charged")
        shop.confirm(message.body["order"])

In a test, `kill_everywhere` runs that app as `sequencer consume` does, on a server of its own, once without a fault and
then with `kill -9` at the first, second, third ... passage of each point, until a run ends without reaching it. After
each run nothing may be lost, out of order, or handled again without the kill explaining it; `check` then looks at your
own effects:

    def test_nobody_is_charged_twice(tmp_path):
        report = kill_everywhere(
            "orders:seq",
            [{"order": 7, "id": "e1", "amount": 5}, {"order": 7, "id": "e2", "amount": 3}],
            before=bank.reset,
            check=lambda: bank.assert_total(8),
        )
        assert report.is_clean, report

By hand: `SEQUENCER_KILL_HERE=charged:2` kills a process at its second passage of the point, and `charged:2:stop`
stops it there (`kill -CONT` lets it go on).
"""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from ..drain.steps.declared import PassWatcher, Steps
from ..drain.steps.functions import Function, InlineHandler
from ..errors import ConfigurationError
from ..processes.handlers.apps import load_app
from ..values.message import Message
from .judge.history import Recorder, run_fields

ARMED, DIRECTORY, APP = "SEQUENCER_KILL_HERE", "SEQUENCER_KILL_HERE_DIRECTORY", "SEQUENCER_KILL_HERE_APP"
"""What is armed; where passages are recorded, and that the point fired; the app whose handler is recorded."""
BEFORE, AFTER = "handler:before", "handler:after"
"""Points that every handler has: when it begins, and when it has returned. A step has `step:NAME:before` and
`step:NAME:after`, and `step:NAME:saved`, where its start or its end is in the server.
"""
FIRED = "fired"


class KillPoints:
    """Counts the passages of this process, and kills or stops it at the one that is armed."""

    def __init__(self, armed: str, directory: str) -> None:
        self._passages: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._recorder = Recorder(Path(directory) / f"points-{os.getpid()}.ndjson") if directory else None
        self._fired_path = Path(directory) / FIRED if directory else None
        self._point, self._passage, self._is_stop = parse_armed(armed) if armed else ("", 0, False)

    def at(self, point: str) -> None:
        """Pass the point."""
        with self._lock:
            self._passages[point] += 1
            if self._recorder:
                self._recorder.note("seen", kind="passage", id=point)
            if point == self._point and self._passages[point] == self._passage and self._is_first():
                if self._recorder:
                    self._recorder.note("fault", kind="stop" if self._is_stop else "kill", id=point)
                os.kill(os.getpid(), signal.SIGSTOP if self._is_stop else signal.SIGKILL)

    def _is_first(self) -> bool:
        """Whether no process did it before: a run has one fault, or its successors would die of it as well."""
        if self._fired_path is None:
            return True
        try:
            os.close(os.open(self._fired_path, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True


def parse_armed(text: str) -> tuple[str, int, bool]:
    """`POINT:PASSAGE` or `POINT:PASSAGE:stop` as its parts; a point may hold colons. Raises ConfigurationError."""
    rest, _, last = text.rpartition(":")
    is_stop = last == "stop"
    if is_stop:
        rest, _, last = rest.rpartition(":")
    if not rest or not last.isdecimal() or int(last) < 1:
        raise ConfigurationError(f"{ARMED}={text!r} must be POINT:PASSAGE or POINT:PASSAGE:stop, like charged:2")
    return rest, int(last), is_stop


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

    For the consumers of `kill_everywhere`. Raises HandlerNotFound; ConfigurationError for an app with a server of its
    own, on which nobody shall be killed by mistake.
    """
    app = load_app(os.environ[APP])
    if app.sequencer and app.sequencer.endpoint.url != os.environ["SEQUENCER_REDIS"]:
        raise ConfigurationError(f"app {os.environ[APP]} names its server itself; leave redis= to SEQUENCER_REDIS")
    recorder = Recorder(Path(os.environ[DIRECTORY]) / f"runs-{os.getpid()}.ndjson")
    if isinstance(app.handler, Steps):
        app.handler.watcher = _Watcher(recorder)
        for steps in app.handler.kinds.values():
            for step in steps.values():
                step.run = _pointed(step.name, step.run)
        return app.sequencer
    plain = app.handler

    def pointed(message: Message, *steps: Any) -> Any:
        kill_here(BEFORE)
        result = plain(message, *steps)
        kill_here(AFTER)
        return result

    def with_steps(message: Message, steps: Any) -> Any:
        return recorder.run(lambda one: pointed(one, steps))(message)

    handler: Any = with_steps if isinstance(plain, InlineHandler) else recorder.run(pointed)
    if app.sequencer is None:
        return handler
    app.sequencer.handler(handler)
    return app.sequencer


def _pointed(name: str, run: Function) -> Function:
    """The function of a step, with its points."""

    def pointed(message: Message, call: Any) -> Any:
        kill_here(f"step:{name}:before")
        result = run(message, call)
        kill_here(f"step:{name}:after")
        return result

    return Function(pointed)


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
        if is_finished:
            self._recorder.note("ended", **run_fields(message))
        else:
            self._recorder.note("failed", kind="unfinished", **run_fields(message))

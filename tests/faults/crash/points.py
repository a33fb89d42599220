"""The named points of a process, and the fault at one of them.

A point is named `PARTY.CALL:MOMENT`. The party is the process's role, or `renewer` for the thread that keeps leases.
The
call is one of our scripts, `wait` (for a dispatch hint), `command` (a round trip of plain commands, as at the first use
of a queue), `connect`, or `handler`; calls of one kind in one round trip are one passage. The moments of a call:

    before  the call is about to be sent             kill, stop, request lost
    sent    it was sent, its reply is not read yet   kill, stop, reply lost
    after   its reply was read, nobody saw it yet    kill, stop

A process that is told so in a `Case` meets its fault at the n-th passage of the point. What it writes about that is
only half of the evidence: the other half is the status with which it ended, seen by its parent.
"""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import redis

from sequencer.net.endpoint import Connection
from sequencer.testing.wire import Wire, Words, name_of

from ...support.judge.history import Recorder

Kind = Literal["kill", "stop", "request lost", "reply lost"]
KINDS: tuple[Kind, ...] = get_args(Kind)
RENEWER = "sequencer-renewer"
REPLY_S = 1.5
"""How long to wait for the reply that is to be lost: a blocking read takes up to 1 s."""


@dataclass(frozen=True, slots=True)
class Case:
    """One fault: what happens at which passage of which point."""

    variant: str
    point: str
    passage: int
    kind: Kind

    @property
    def role(self) -> str:
        """The process that meets it."""
        party = self.point.partition(".")[0]
        return "consumer" if party == "renewer" else party

    @property
    def command(self) -> str:
        """What repeats it."""
        words = f"--point {self.point} --passage {self.passage} --kind '{self.kind}' --variant {self.variant}"
        return f"python -m tests.faults crash {words}"


def kinds_at(point: str) -> tuple[Kind, ...]:
    """The faults that can happen at a point."""
    call, _, moment = point.partition(".")[2].partition(":")
    if call == "handler" or moment == "after":
        return ("kill", "stop")
    return ("kill", "stop", "request lost" if moment == "before" else "reply lost")


def calls_of(commands: Sequence[Words]) -> list[str]:
    """What each command of a round trip is called in the name of a point."""
    names = [name_of(words) for words in commands]
    if names[0] == "BLPOP" and "".join(names[1:]).islower() is bool(names[1:]):
        return ["wait", *names[1:]]
    return [name if name.islower() else "command" for name in names]


class Points:
    """Counts the passages of one process, and makes its fault happen. Threads may share it."""

    def __init__(self, role: str, recorder: Recorder, case: Case | None = None) -> None:
        self.passages: Counter[str] = Counter()
        self._role, self._recorder, self._case = role, recorder, case
        self._lock = threading.Lock()

    def at(self, name: str) -> Kind | None:
        """Pass the point. Kills or stops this process if that is due; else returns the fault that is."""
        party = "renewer" if threading.current_thread().name == RENEWER else self._role
        point, case = f"{party}.{name}", self._case
        with self._lock:
            self.passages[point] += 1
            if case is None or point != case.point or self.passages[point] != case.passage:
                return None
            self._recorder.note("fault", kind=case.kind, group="", id=point)
            if case.kind == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            elif case.kind == "stop":
                os.kill(os.getpid(), signal.SIGSTOP)
        return case.kind


class PointWire(Wire):
    """The connection of a process with points: each command and each reply passes some."""

    def __init__(self, connection: Connection, points: Points) -> None:
        super().__init__(connection)
        self._points = points
        self._names: deque[str] = deque()
        """Calls whose replies are not read yet; "" for one that is followed by another of its kind."""

    def connect(self) -> None:
        self._pass("connect:before")
        super().connect()
        self._pass("connect:after")

    def disconnect(self, *_: Any) -> None:
        self._names.clear()
        super().disconnect()

    def sending(self, commands: list[Words]) -> list[Words]:
        names = calls_of(commands)
        for name in dict.fromkeys(names):
            self._pass(f"{name}:before")
        self._names.extend("" if name in names[place + 1 :] else name for place, name in enumerate(names))
        return commands

    def send_command(self, *words: Any, **_: Any) -> None:
        super().send_command(*words)
        for name in calls_of([words]):
            self._pass(f"{name}:sent")

    def send_packed_command(self, packed: list[Words], **_: Any) -> None:
        super().send_packed_command(packed)
        for name in dict.fromkeys(calls_of(packed)):
            self._pass(f"{name}:sent")

    def received(self, reply: Any) -> Any:
        if name := self._names.popleft():
            self._pass(f"{name}:after")
        return reply

    def _pass(self, name: str) -> None:
        """Pass a point; a request or reply that is to be lost goes with its connection, as lost ones do."""
        kind = self._points.at(name)
        if kind == "reply lost":
            self.can_read(REPLY_S)  # the server has carried it out by then
        if kind in ("request lost", "reply lost"):
            self.disconnect()
            raise redis.ConnectionError(f"{kind}, on purpose")

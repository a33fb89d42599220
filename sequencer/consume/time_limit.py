"""The time limit of a handler: past it, an exception ends the handler. It never comes into what is not the handler.

Two threads use a TimeLimit. The one that runs handlers calls what `limited` made, and `outcome` behind each failure.
The renewer calls `check` at each tick, and sends what interrupts.

That is a signal (`interruption.SIGNAL`), which also ends what the handler waits for. Python takes notice of it between
two instructions, maybe when the handler is over and the next one runs. So it asks where it came, and not what was
meant: only above the frame of a handler that has run too long it raises. Late or from others, it changes nothing. Until
it has raised it is repeated, as one that comes just before a wait ends nothing. Signals come to the main thread alone.
PyThreadState_SetAsyncExc reaches others (ThreadTimeLimit), but not while they wait. (To take it back leaves a flag set
in CPython 3.11: from then on every call is slow.)
"""

from __future__ import annotations

import ctypes
import math
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType, TracebackType

from ..drain.steps.functions import Handler
from ..errors import ConfigurationError, HandlerTimeout, StopConsuming
from ..values.message import Message
from . import interruption

IGNORED_S = 5.0  # a handler that goes on for so long after it was interrupted is stuck
REPEAT_S = 0.1  # how often a signal is repeated that has not raised yet
PACKAGE = "sequencer."
CALLERS = "sequencer.consume.", "sequencer.drain.", "sequencer.testing.memory_queue."
"""Whose frames stand above a handler's in its traceback."""


class TimeIsUp(BaseException):
    """The time of this handler is over. A BaseException, so that its own `except Exception` does not swallow it."""


class TimeLimit:
    """The limit of one consumer; None: it has none. `own`: those that steps have in its place."""

    def __init__(self, seconds: float | None, own: Iterable[float] = ()) -> None:
        self.seconds = math.inf if seconds is None else seconds
        self._limit_s = self.seconds  # of the run that is in progress, or was last
        self._least_s = min([self.seconds, *own])
        self._since: float | None = None  # when the handler began that runs now
        self._is_raised = False  # whether it was interrupted already: what it does about that is left alone
        self._code: CodeType | None = None
        self._seen: float | None = None
        """The renewer's: beginning of the run that it found too long, when it did so, and when it sends again."""
        self._seen_at = self._next_at = 0.0
        self._is_reported = False

    @contextmanager
    def in_force(self) -> Iterator[None]:
        """Within, handlers can be interrupted. Raises ConfigurationError where they can't be."""
        least_s = self._least_s
        if least_s == math.inf:
            yield
            return
        if threading.current_thread() is not threading.main_thread():
            raise ConfigurationError("main_thread_needed", limit_s=least_s)
        if not interruption.is_free():
            raise ConfigurationError("signal_taken", signal=interruption.SIGNAL.name, limit_s=least_s)
        interruption.hear(self._on_signal)
        try:
            yield
        finally:
            interruption.forget(self._on_signal)

    def limited(self, handler: Handler, own_s: float | None = None) -> Handler:
        limit_s = self.seconds if own_s is None else own_s
        if limit_s == math.inf:
            return handler

        def run(message: Message) -> None:
            self._is_raised, self._limit_s, self._since = False, limit_s, time.monotonic()
            handler(message)
            self._since = None

        self._code = run.__code__
        return run

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Within a limited handler: nothing comes in here, and its time begins again behind it."""
        self._leave()
        try:
            yield
        finally:
            self._is_raised, self._since = False, time.monotonic()

    def _leave(self) -> None:
        """Nothing comes to this run any more."""
        self._since = None

    def outcome(self, error: BaseException) -> BaseException:
        """What a handler ended with, as it is recorded: HandlerTimeout where it was interrupted."""
        self._since = None
        return timed_out(error, self._limit_s) if isinstance(error, TimeIsUp) else error

    def check(self, now: float) -> bool:
        """By the renewer: interrupt a handler that runs too long. True, once, where it ignored that for IGNORED_S."""
        since = self._since
        if since is None or now - since < self._limit_s:
            return False
        if since != self._seen:
            self._seen, self._seen_at, self._next_at, self._is_reported = since, now, now, False
        if now >= self._next_at and not self._is_raised:
            self._next_at = now + REPEAT_S
            self._interrupt()
        if self._is_reported or now - self._seen_at < IGNORED_S:
            return False
        self._is_reported = True
        return True

    def _interrupt(self) -> None:
        interruption.send()

    def _on_signal(self, frame: FrameType | None) -> None:
        since = self._since
        if since is None or self._is_raised or time.monotonic() - since < self._limit_s:
            return
        while frame is not None and frame.f_code is not self._code:
            frame = frame.f_back
        if frame is not None:
            self._is_raised = True
            raise TimeIsUp


class ThreadTimeLimit(TimeLimit):
    """The same for the handlers of a worker slot's thread, which a stop interrupts, too.

    The exception comes with the next instruction of Python there, and not while that thread waits. It is sent once. A
    handler that ends meanwhile lets it come before it is left. Both threads write what they are about before they read
    what the other is about:

        who interrupts: _send                      the thread that handles: _leave
        ---------------------                      -------------------------------
        1  writes  _is_sending = True              1  writes  _since = None
        2  reads   _since                          2  waits   while _is_sending
        3  sends, unless that is another run       3  lets it come
        4  writes  _is_sending = False
    """

    _thread = 0
    _is_sending = False

    @contextmanager
    def in_force(self) -> Iterator[None]:
        yield

    def limited(self, handler: Handler, own_s: float | None = None) -> Handler:
        self._thread, limit_s = threading.get_ident(), self.seconds if own_s is None else own_s

        def run(message: Message) -> None:
            problem: BaseException | None = None
            try:
                self._is_raised, self._limit_s, self._since = False, limit_s, time.monotonic()
                handler(message)
            except BaseException as error:
                problem = error
            while True:
                try:
                    self._leave()
                    break
                except (TimeIsUp, StopConsuming):  # it came just now, and comes once
                    pass
            if problem is not None:
                raise problem

        return run

    def interrupt(self) -> bool:
        """Raise StopConsuming in the handler that runs; whether one runs."""
        return self._send(StopConsuming, self._since)

    def _leave(self) -> None:
        self._since = None
        while self._is_sending:
            time.sleep(0)
        if self._is_raised:
            time.sleep(0)  # behind a call it comes, if it is still to come

    def _interrupt(self) -> None:
        self._send(TimeIsUp, self._seen)

    def _send(self, kind: type[BaseException], since: float | None) -> bool:
        self._is_sending = True
        try:
            if is_running := since is not None and self._since == since:
                self._is_raised = True
                thread = ctypes.c_ulong(self._thread)
                ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, ctypes.py_object(kind))
            return is_running
        finally:
            self._is_sending = False


def timed_out(error: BaseException, seconds: float | None) -> HandlerTimeout:
    """The failure of an interrupted handler: it ran longer than `seconds`; None: its consumer is too old."""
    theirs = trace = error.__traceback__
    while trace is not None:
        if not _is_of(trace, PACKAGE):
            theirs = trace
        trace = trace.tb_next
    if theirs is not None:
        theirs.tb_next = None  # the signal, or the client that the handler was using then
    timeout = HandlerTimeout(limit_s=seconds)
    timeout.__context__ = error.__context__
    return timeout.with_traceback(error.__traceback__)


def without_ours(error: BaseException) -> BaseException:
    """The error with its traceback from the handler on, if that ran."""
    trace = error.__traceback__
    while trace is not None and _is_of(trace, *CALLERS):
        trace = trace.tb_next
    return error.with_traceback(trace or error.__traceback__)


def _is_of(trace: TracebackType, *modules: str) -> bool:
    return f"{trace.tb_frame.f_globals.get('__name__')}.".startswith(modules)

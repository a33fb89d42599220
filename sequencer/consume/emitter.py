"""Gives events to observers and to the log, and counts them.

Of one name at most LINES lines are logged in a second. Then one line says how many more there were, by type of error.
Any thread may emit: the lock guards counts and limits, and is not held while an observer runs or a line is written.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..calls.claim import Claimed, Halted, LeasedGroup
from ..calls.outage import Began, Ended
from ..drain import consumer_events
from ..drain.outcome import Failed
from ..errors import ServerUnavailable, StopConsuming
from ..settings.options import QueueOptions
from ..texts.events import EVENTS, Event
from ..texts.words import plain
from ..values.message import Message
from ..values.score_units import UnitsMet
from .forks import not_in_a_copy
from .interruption import is_ctrl_c

log = logging.getLogger("sequencer")

LINES = 10
"""Of one event's name in WINDOW_S."""
WINDOW_S = 1.0
REMEMBERED = 1_000
"""Some events are emitted once for one thing: this number of things is remembered."""
OURS = (
    "sequencer.consume.threads",
    "sequencer.consume.step_calls",
    "sequencer.consume.time_limit",
    "sequencer.drain.steps.declared",
    "sequencer.testing.memory_run",
)
"""Modules whose frames stand above a handler's in its traceback."""

Observer = Callable[[Event], Any]


@dataclass(slots=True)
class Counts:
    """What was emitted so far, of messages and groups."""

    failed: int = 0
    """Attempts that failed: also the last one, after which the message is not retried."""
    outages: int = 0
    """Those of them that were told as an outage."""
    parked: int = 0
    dead: int = 0
    dropped: int = 0


@dataclass(slots=True)
class _Window:
    """What was logged of one name in the current second."""

    began: float
    queue: str
    lines: int = 0
    suppressed: Counter[str] = field(default_factory=Counter)
    fix_all: str = ""  # of what was suppressed: the command that fixes all of it, and more
    fix_same_error: str = ""  # that which fixes all of one error


class EventEmitter:
    """Emits events. `forward` may give an event to another process, which logs it, and then returns true."""

    def __init__(
        self,
        queue: str,
        *,
        observers: Sequence[Observer] = (),
        log: logging.Logger = log,
        clock: Callable[[], float] = time.monotonic,
        forward: Callable[[Event], bool] | None = None,
    ) -> None:
        self.queue, self.forward, self.counts = queue, forward, Counts()
        self._observers, self._log, self.clock = observers, log, clock
        self._lock = threading.Lock()
        self._windows: dict[str, _Window] = {}
        self._seen: OrderedDict[tuple[Any, ...], None] = OrderedDict()
        self._broken: list[Observer] = []

    def emit(self, event: Event) -> None:
        """Call the observers, then log it or forward it. Raises StopConsuming that an observer raises, and Ctrl-C."""
        with self._lock:
            if event.once is not None and self._was_seen(event.once):
                return
            self._count(event)
        if EVENTS[event.name].is_observed:
            self._call_observers(event)
        if not self._is_forwarded(event):
            self._log_within_limit(event)

    def tick(self, now: float | None = None) -> None:
        """Log how many lines were suppressed, for seconds that are over."""
        if not self._windows:
            return
        at = self.clock() if now is None else now
        with self._lock:
            over = [name for name, window in self._windows.items() if at - window.began >= WINDOW_S]
            ended = [(name, self._windows.pop(name)) for name in over]
        for name, window in ended:
            self._log_suppressed(name, window, at - window.began)

    def close(self) -> None:
        """Log at once how many lines were suppressed. More may be emitted after it."""
        with self._lock:
            ended, self._windows = list(self._windows.items()), {}
        now = self.clock()
        for name, window in ended:
            self._log_suppressed(name, window, now - window.began)

    # -- parts of emit ------------------------------------------------------------------------------------------

    def _was_seen(self, what: tuple[Any, ...]) -> bool:
        was_seen = what in self._seen
        self._seen[what] = None
        self._seen.move_to_end(what)
        if len(self._seen) > REMEMBERED:
            self._seen.popitem(last=False)
        return was_seen

    def _count(self, event: Event) -> None:
        counts, name = self.counts, event.name
        is_attempt = "attempt" in event.fields and event.error is not None and name != "step failed"
        counts.failed += name == "message failed" or is_attempt
        counts.outages += event.fields.get("outage") is True
        counts.parked += name in ("group parked", "group broken")
        counts.dead += name == "dead letter"
        counts.dropped += name == "message dropped"

    def _call_observers(self, event: Event) -> None:
        for observer in list(self._observers):
            try:
                with not_in_a_copy():
                    observer(event)
            except BaseException as error:
                if isinstance(error, StopConsuming) or is_ctrl_c(error):
                    raise
                if not any(one is observer for one in self._broken):
                    self._broken.append(observer)
                    self.emit(consumer_events.observer_failed(event.queue, observer, error))

    def _is_forwarded(self, event: Event) -> bool:
        try:
            return self.forward is not None and self.forward(event)
        except Exception:  # then it is logged here
            return False

    def _log_within_limit(self, event: Event) -> None:
        now = self.clock()
        self.tick(now)
        with self._lock:
            window = self._windows.setdefault(event.name, _Window(now, event.queue))
            window.lines += 1
            if is_over := window.lines > LINES:
                window.suppressed[event.fields.get("error_type", "")] += 1
                window.fix_all = event.fields.get("fix_all", window.fix_all)
                window.fix_same_error = event.fields.get("fix_same_error", window.fix_same_error)
        if not is_over:
            self._log_line(event.level, event.text, event.name, event.queue, event.fields, event.error)

    def _log_suppressed(self, name: str, window: _Window, elapsed_s: float) -> None:
        count = window.suppressed.total()
        if not count:
            return
        errors = {kind: number for kind, number in window.suppressed.most_common(10) if kind}
        kinds = [f"{kind} {number:,}" for kind, number in errors.items()]
        said = f"{window.queue}: {count:,} more of '{name}' in {elapsed_s:.1f} s"
        said = plain(f"{said}: {', '.join(kinds)}" if kinds else said)
        if window.fix_all:
            is_one = len(window.suppressed) == 1
            said += f"; all of them: {window.fix_same_error}" if is_one else f"; all that is parked: {window.fix_all}"
        self._log_line(EVENTS[name].level, said, name, window.queue, {"suppressed": count, "errors": errors}, None)

    def _log_line(self, level: int, text: str, name: str, queue: str, fields: Any, error: BaseException | None) -> None:
        has_trace = error is not None and level >= logging.ERROR
        try:
            self._log.log(
                level,
                text,
                exc_info=_exc_info(error) if error is not None and has_trace else None,
                extra={"event": name, "queue": queue, **fields},
            )
        except Exception:  # a handler of the application's own that is broken: the work goes on
            return


def _exc_info(error: BaseException) -> tuple[type[BaseException], BaseException, Any]:
    """The error with its traceback from the handler on."""
    trace = error.__traceback__
    while trace and trace.tb_next and trace.tb_frame.f_globals.get("__name__") in OURS:
        trace = trace.tb_next
    return type(error), error, trace


class ConsumerEvents:
    """Emits the events of one consumer. That its server is lost is emitted once, until it is back."""

    def __init__(self, emitter: EventEmitter, options: QueueOptions, owner: str) -> None:
        self.emitter, self._options, self._owner = emitter, options, owner
        self._units = UnitsMet()
        self._away_since: float | None = None
        self._lock = threading.Lock()

    def failed(self, one: Failed) -> None:
        """A message failed; emitted before the server learns it, of an outage behind that. Raises no Exception."""
        parked = self.emitter.counts.parked
        self.emitter.emit(consumer_events.failed(self._options, self._owner, one, parked=parked))

    def interrupted(self, message: Message, step: str = "") -> None:
        """A handler or a step was interrupted, or said itself that its consumer is to stop."""
        self.emitter.emit(consumer_events.interrupted(self.emitter.queue, self._owner, message, step))

    def runs_long(self, message: Message, seconds: float, *, is_stopping: bool) -> None:
        """A handler runs long."""
        told = consumer_events.runs_long(self._options, self._owner, message, seconds, is_stopping=is_stopping)
        self.emitter.emit(told)

    def stuck(self, message: Message, seconds: float, *, is_ended: bool) -> None:
        """A handler ignored the end of its time; `is_ended`: a supervisor kills this process."""
        self.emitter.emit(consumer_events.stuck(self._options, self._owner, message, seconds, is_ended=is_ended))

    def claimed(self, claimed: Claimed) -> None:
        """What a claim found."""
        self.halted(claimed.halted)
        self.took(claimed.groups)

    def took(self, groups: Sequence[LeasedGroup]) -> None:
        """A claim took these groups."""
        for event in consumer_events.expired(self.emitter.queue, self._owner, groups):
            self.emitter.emit(event)
        if not groups:
            return
        ends = groups[0].messages
        if examples := self._units.learn(groups[0].group, ends[0].score, ends[-1].score):
            self.emitter.emit(consumer_events.mixed_scores(self._options, self._owner, examples))

    def halted(self, groups: Iterable[Halted]) -> None:
        """A claim put these off, or parked them."""
        for one in groups:
            self.emitter.emit(consumer_events.halted(self._options, self._owner, one))

    def outages(self, told: Iterable[Began | Ended]) -> None:
        """Outages that a failure of this consumer began, or a probe of it ended."""
        for one in told:
            if isinstance(one, Began):
                self.emitter.emit(consumer_events.outage_began(self._options, self._owner, one))
            else:
                self.emitter.emit(consumer_events.outage_over(self.emitter.queue, self._owner, one))

    def refused(self, refusals: Iterable[tuple[str, str, bool]]) -> None:
        """Acknowledgements were refused: group, token, and whether the call was repeated."""
        for group, token, is_repeat in refusals:
            name = self.emitter.queue, self._owner, group
            lost = consumer_events.answer_repeated(*name) if is_repeat else consumer_events.lease_lost(*name, token)
            self.emitter.emit(lost)

    def unreachable(self, error: ServerUnavailable) -> None:
        """A call failed."""
        now = self.emitter.clock()
        with self._lock:
            is_new, self._away_since = self._away_since is None, self._away_since or now
        if is_new:
            self.emitter.emit(consumer_events.server_lost(self.emitter.queue, error, owner=self._owner))
        else:
            log.debug("%s: the server is still away: %s", self.emitter.queue, error)

    def reached(self) -> None:
        """A call was answered."""
        if self._away_since is None:
            return
        with self._lock:
            since, self._away_since = self._away_since, None
        if since is not None:
            away_s = self.emitter.clock() - since
            self.emitter.emit(consumer_events.server_back(self.emitter.queue, away_s, owner=self._owner))

    def not_kept(self, error: Exception) -> None:
        """What is done beside a handler failed."""
        self.emitter.emit(consumer_events.leases_not_kept(self.emitter.queue, self._owner, error))

    def not_released(self, error: Exception) -> None:
        """The groups could not be released at the end."""
        self.emitter.emit(consumer_events.groups_not_released(self.emitter.queue, self._owner, error))

    def not_recorded(self, group: tuple[str, ...], error: Exception) -> None:
        """The server does not know that a message failed."""
        self.emitter.emit(consumer_events.failure_not_recorded(self.emitter.queue, self._owner, group, error))

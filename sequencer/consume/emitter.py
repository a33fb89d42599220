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
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from ..calls.claim import Claimed, Halted, LeasedGroup
from ..calls.outage import Began, Ended
from ..drain.effects import Run, Tell
from ..drain.outcome import Failed, event_of
from ..errors import ServerUnavailable, StopConsuming
from ..settings.options import QueueOptions
from ..store.failure import decode_failure
from ..store.group import decode_group
from ..texts.events import EVENTS, Event, more_of
from ..texts.events import event as make_event
from ..values.message import Message
from .forks import not_in_a_copy
from .interruption import is_ctrl_c

log = logging.getLogger("sequencer")

LINES = 10  # of one event's name in WINDOW_S
WINDOW_S = 1.0
REMEMBERED = 1_000  # some events are emitted once for one thing: this number of things is remembered
Observer = Callable[[Event], Any]


@dataclass(slots=True)
class Counts:
    failed: int = 0  # attempts that failed: also the last one, after which the message is not retried
    outages: int = 0  # of those: by an outage
    parked: int = 0
    dead: int = 0
    dropped: int = 0


@dataclass(slots=True)
class _Window:
    began: float
    last: Event
    lines: int = 0
    suppressed: Counter[str] = field(default_factory=Counter)


class EventEmitter:
    """Emits events. `forward` may give an event to another process, which logs it, and then returns true."""

    def __init__(
        self,
        queue: str,
        *,
        observers: Sequence[Observer] = (),
        success_observers: Sequence[Observer] = (),
        log: logging.Logger = log,
        clock: Callable[[], float] = time.monotonic,
        forward: Callable[[Event], bool] | None = None,
    ) -> None:
        self.queue, self.forward, self.counts = queue, forward, Counts()
        self._observers, self._success_observers, self._log, self.clock = observers, success_observers, log, clock
        self._lock = threading.Lock()
        self._windows: dict[str, _Window] = {}
        self._seen: OrderedDict[tuple[Any, ...], None] = OrderedDict()

    def emit(self, event: Event) -> None:
        """Call the observers, then log it or forward it. Raises StopConsuming that an observer raises, and Ctrl-C."""
        with self._lock:
            if event.once is not None and self._was_seen(event.once):
                return
            self._count(event)
        if (kind := EVENTS[event.name]).is_observed:
            self._call_observers(event, self._success_observers if kind.is_success else self._observers)
        with suppress(Exception):  # then it is logged here
            if self.forward is not None and self.forward(event):
                return
        self._log_within_limit(event)

    @property
    def hears_successes(self) -> bool:
        return bool(self._success_observers)

    def tick(self, now: float | None = None, *, window_s: float = WINDOW_S) -> None:
        """Log how many lines were suppressed, for seconds that are over."""
        if not self._windows:
            return
        at = self.clock() if now is None else now
        with self._lock:
            over = [name for name, window in self._windows.items() if at - window.began >= window_s]
            ended = [self._windows.pop(name) for name in over]
        for window in ended:
            self._log_suppressed(window, at - window.began)

    def close(self) -> None:
        """Log at once how many lines were suppressed. More may be emitted after it."""
        self.tick(window_s=0.0)

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

    def _call_observers(self, event: Event, observers: Sequence[Observer]) -> None:
        for observer in list(observers):
            try:
                with not_in_a_copy():
                    observer(event)
            except BaseException as error:
                if isinstance(error, StopConsuming) or is_ctrl_c(error):
                    raise
                name = str(getattr(observer, "__qualname__", "") or type(observer).__name__)
                once = "observer failed", id(observer)
                self.emit(make_event("observer failed", event.queue, error=error, observer=name, once=once))

    def _log_within_limit(self, event: Event) -> None:
        if not self._log.isEnabledFor(event.level):
            return
        now = self.clock()
        self.tick(now)
        with self._lock:
            window = self._windows.setdefault(event.name, _Window(now, event))
            window.lines += 1
            if is_over := window.lines > LINES:
                window.last = event
                window.suppressed[event.fields.get("error_type", "")] += 1
        if not is_over:
            with suppress(Exception):  # a handler of the application's own that is broken: the work goes on
                self._log.log(event.level, event.line, exc_info=event.cause, extra=event.record)

    def _log_suppressed(self, window: _Window, elapsed_s: float) -> None:
        if not (count := window.suppressed.total()):
            return
        last = window.last
        errors = {kind: number for kind, number in window.suppressed.most_common(10) if kind}
        text = more_of(last.name, last.queue, errors, count, elapsed_s)
        record = {"event": last.name, "queue": last.queue, "suppressed": count, "errors": errors}
        with suppress(Exception):
            self._log.log(last.level, text, extra=record)


class ServerAway:
    """Emits that the server is lost, once for each kind of reason, and that it is back when all users have it."""

    def __init__(self, emit: Callable[..., None]) -> None:
        """`emit`: takes the name of an event, and its fields."""
        self._emit, self._lock = emit, threading.Lock()
        self._without: set[int] = set()
        self._since: float | None = None
        self._logged: set[str] = set()  # codes of the errors that were logged since then

    def lost(self, error: str, code: str, now: float, who: int = 0) -> None:
        with self._lock:
            self._without.add(who)
            is_new, self._since = code not in self._logged, self._since or now
            self._logged.add(code)
        if is_new:
            self._emit("server lost", error=error, code=code)

    def back(self, now: float, who: int = 0) -> None:
        if self._since is None:
            return
        with self._lock:
            self._without.discard(who)
            if self._without or (since := self._since) is None:
                return
            self._since = None
            self._logged.clear()
        self._emit("server back", away_s=round(now - since, 3))

    @property
    def is_away(self) -> bool:
        return bool(self._without)

    def forget(self, who: int) -> None:
        """This one waits for nothing any more."""
        self._without.discard(who)


class ConsumerEvents:
    def __init__(self, emitter: EventEmitter, options: QueueOptions, owner: str) -> None:
        self.emitter, self._options, self._owner = emitter, options, owner
        self._away = ServerAway(self.emit)

    def emit(self, name: str, message: Message | None = None, /, **fields: Any) -> None:
        if message is not None:
            fields |= {"group": list(message.group), "id": message.id}
        options = self._options
        self.emitter.emit(make_event(name, options.queue, namespace=options.namespace, owner=self._owner, **fields))

    def failed(self, one: Failed) -> None:
        """A message failed; emitted before the server learns it, of an outage behind that. Raises no Exception."""
        self.emitter.emit(event_of(self._options, self._owner, one, parked=self.emitter.counts.parked))

    def released(self, message: Message, run: Run | None) -> None:
        """Its handler, or this call of another function, was interrupted."""
        step = {"step": run.step} if run and run.step else {}
        self.emit("message released", run.failing if run else message, **step)

    def tell(self, effect: Tell | Failed) -> None:
        if isinstance(effect, Failed):
            self.failed(effect)
        else:
            self.emit(effect.name, effect.message, **effect.fields)

    def claimed(self, claimed: Claimed) -> None:
        self.halted(claimed.halted)
        self.took(claimed.groups)

    def took(self, groups: Sequence[LeasedGroup]) -> None:
        for group in groups:
            if group.expired_owner:
                head = group.messages[0]
                self.emit("lease expired", head, expired_owner=group.expired_owner, attempt=head.attempt - 1)

    def halted(self, groups: Iterable[Halted]) -> None:
        """A claim put these off, or parked them itself."""
        for one in groups:
            group = list(one.group)
            if one.error:
                self.emit("group broken", group=group, error=one.error)
                continue
            first, last = one.missing or (None, None)
            gap = {"id": one.id, "number": one.number, "first_missing": first, "last_missing": last}
            once = (one.group, one.id, one.number, one.missing, one.until_us)
            if one.until_us is None:
                self.emit("group parked", group=group, once=once, **gap)
            else:
                self.emit("gap wait", group=group, once=once, until=one.until_us / 1e6, **gap)

    def outages(self, changes: Iterable[Began | Ended]) -> None:
        """Outages that a failure of this consumer began, or a probe of it ended."""
        for one in changes:
            if isinstance(one, Ended):
                self.emit("outage ended", lasted_s=round(one.lasted_s, 3), probes=one.probes)
                continue
            failure, outage = decode_failure(one.failure)[0], one.outage
            fields = {"since": outage.since_us / 1e6, "retry_in_s": round(outage.probe_s, 3)}
            self.emit("outage began", error=failure.message, error_type=failure.type, **fields)

    def refused(self, refusals: Iterable[tuple[str, str, bool]]) -> None:
        """Acknowledgements were refused: group, token, and whether the call was repeated."""
        for key, token, is_repeat in refusals:
            group = list(decode_group(key))
            if is_repeat:
                self.emit("ack repeated", group=group)
            else:
                self.emit("lease lost", group=group, token=token)

    def unreachable(self, error: ServerUnavailable) -> None:
        self._away.lost(str(error), error.code, self.emitter.clock())

    def reached(self) -> None:
        self._away.back(self.emitter.clock())

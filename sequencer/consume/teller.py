"""Teller: tells events to observers and to the log, and counts them. A storm of events stays readable there.

Of one name at most LINES lines are written in a second; then one line says how many more there were, by type of error.
Any thread may tell: the lock guards counts and limits, and is not held while an observer runs or a line is written.
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
from ..drain import consumer_events
from ..drain.outcome import Failed
from ..errors import ServerUnavailable
from ..settings.events import EVENTS, Event, plain
from ..settings.options import QueueOptions
from ..values.message import Message

log = logging.getLogger("sequencer")

LINES = 10
"""Of one event's name in WINDOW_S."""
WINDOW_S = 1.0
REMEMBERED = 1_000
"""Things that were told once, and are not told again while they are among so many."""
OURS = ("sequencer.consume.threads", "sequencer.testing.memory_queue")
"""Modules whose frames stand above a handler's in its traceback."""

Observer = Callable[[Event], Any]


@dataclass(slots=True)
class Counts:
    """What was told so far, of messages and groups."""

    failed: int = 0
    """Tries that failed: also the last one, after which the message is not tried again."""
    parked: int = 0
    dead: int = 0
    dropped: int = 0


@dataclass(slots=True)
class _Window:
    """What was told of one name in the second in hand."""

    began: float
    queue: str
    lines: int = 0
    suppressed: Counter[str] = field(default_factory=Counter)


class Teller:
    """Says what happens. `route` may take an event to somebody else who says it, and then returns true."""

    def __init__(
        self,
        queue: str,
        *,
        observers: Sequence[Observer] = (),
        log: logging.Logger = log,
        clock: Callable[[], float] = time.monotonic,
        route: Callable[[Event], bool] | None = None,
    ) -> None:
        self.queue, self.route, self.counts = queue, route, Counts()
        self._observers, self._log, self.clock = observers, log, clock
        self._lock = threading.Lock()
        self._windows: dict[str, _Window] = {}
        self._known: OrderedDict[tuple[Any, ...], None] = OrderedDict()
        self._broken: list[Observer] = []

    def tell(self, event: Event) -> None:
        """Tell observers, then whoever says it. Raises nothing but what is no Exception, from an observer."""
        with self._lock:
            if event.once is not None and self._is_known(event.once):
                return
            self._count(event)
        if EVENTS[event.name].is_observed:
            self._observe(event)
        if not self._is_routed(event):
            self._say(event)

    def tick(self, now: float | None = None) -> None:
        """Write the lines that count, of seconds that are over."""
        if not self._windows:
            return
        at = self.clock() if now is None else now
        with self._lock:
            over = [name for name, window in self._windows.items() if at - window.began >= WINDOW_S]
            ended = [(name, self._windows.pop(name)) for name in over]
        for name, window in ended:
            self._say_rest(name, window, at - window.began)

    def close(self) -> None:
        """Write the lines that count, at once. More may be told behind it."""
        with self._lock:
            ended, self._windows = list(self._windows.items()), {}
        now = self.clock()
        for name, window in ended:
            self._say_rest(name, window, now - window.began)

    # -- in hand ------------------------------------------------------------------------------------------------

    def _is_known(self, what: tuple[Any, ...]) -> bool:
        is_known = what in self._known
        self._known[what] = None
        self._known.move_to_end(what)
        if len(self._known) > REMEMBERED:
            self._known.popitem(last=False)
        return is_known

    def _count(self, event: Event) -> None:
        counts, name = self.counts, event.name
        counts.failed += name == "message failed" or ("attempt" in event.fields and event.error is not None)
        counts.parked += name in ("group parked", "group broken")
        counts.dead += name == "dead letter"
        counts.dropped += name == "message dropped"

    def _observe(self, event: Event) -> None:
        for observer in list(self._observers):
            try:
                observer(event)
            except (Exception, SystemExit) as error:
                if not any(one is observer for one in self._broken):
                    self._broken.append(observer)
                    self.tell(consumer_events.observer_failed(event.queue, observer, error))

    def _is_routed(self, event: Event) -> bool:
        try:
            return self.route is not None and self.route(event)
        except Exception:  # then it is said here
            return False

    def _say(self, event: Event) -> None:
        now = self.clock()
        self.tick(now)
        with self._lock:
            window = self._windows.setdefault(event.name, _Window(now, event.queue))
            window.lines += 1
            if is_over := window.lines > LINES:
                window.suppressed[event.fields.get("error_type", "")] += 1
        if not is_over:
            self._write(event.level, event.text, event.name, event.queue, event.fields, event.error)

    def _say_rest(self, name: str, window: _Window, elapsed_s: float) -> None:
        count = window.suppressed.total()
        if not count:
            return
        errors = {kind: number for kind, number in window.suppressed.most_common(10) if kind}
        kinds = [f"{kind} {number:,}" for kind, number in errors.items()]
        said = f"{window.queue}: {count:,} more of '{name}' in {elapsed_s:.1f} s"
        said = plain(f"{said}: {', '.join(kinds)}" if kinds else said)
        self._write(EVENTS[name].level, said, name, window.queue, {"suppressed": count, "errors": errors}, None)

    def _write(self, level: int, text: str, name: str, queue: str, fields: Any, error: BaseException | None) -> None:
        has_trace = error is not None and level >= logging.ERROR
        try:
            self._log.log(
                level,
                text,
                exc_info=_shown(error) if error is not None and has_trace else None,
                extra={"event": name, "queue": queue, **fields},
            )
        except Exception:  # a handler of the application's own that is broken: the work goes on
            return


def _shown(error: BaseException) -> tuple[type[BaseException], BaseException, Any]:
    """The error with its traceback from the handler on."""
    trace = error.__traceback__
    while trace and trace.tb_next and trace.tb_frame.f_globals.get("__name__") in OURS:
        trace = trace.tb_next
    return type(error), error, trace


class ConsumerTeller:
    """Tells what one consumer meets. That its server is lost is told once, until it is back."""

    def __init__(self, teller: Teller, options: QueueOptions, owner: str) -> None:
        self.teller, self._options, self._owner = teller, options, owner
        self._away_since: float | None = None
        self._lock = threading.Lock()

    def failed(self, one: Failed) -> None:
        """A message failed; told before the server learns it. Raises nothing but what is no Exception."""
        self.teller.tell(consumer_events.failed(self._options, self._owner, one))

    def interrupted(self, message: Message) -> None:
        """A handler was interrupted, or said itself that its consumer is to stop."""
        self.teller.tell(consumer_events.interrupted(self.teller.queue, self._owner, message))

    def runs_long(self, message: Message, seconds: float, *, is_stopping: bool) -> None:
        """A handler runs long."""
        queue, owner = self.teller.queue, self._owner
        self.teller.tell(consumer_events.runs_long(queue, owner, message, seconds, is_stopping=is_stopping))

    def claimed(self, claimed: Claimed) -> None:
        """What a claim found."""
        self.halted(claimed.halted)
        self.took(claimed.groups)

    def took(self, groups: Sequence[LeasedGroup]) -> None:
        """A claim took these groups."""
        for event in consumer_events.expired(self.teller.queue, self._owner, groups):
            self.teller.tell(event)

    def halted(self, groups: Iterable[Halted]) -> None:
        """A claim put these off, or parked them."""
        for one in groups:
            self.teller.tell(consumer_events.halted(self._options, self._owner, one))

    def refused(self, refusals: Iterable[tuple[str, str, bool]]) -> None:
        """Acknowledgements were refused: group, token, and whether the call was repeated."""
        for group, token, is_repeat in refusals:
            name = self.teller.queue, self._owner, group
            lost = consumer_events.answer_repeated(*name) if is_repeat else consumer_events.lease_lost(*name, token)
            self.teller.tell(lost)

    def unreachable(self, error: ServerUnavailable) -> None:
        """A call failed."""
        now = self.teller.clock()
        with self._lock:
            is_new, self._away_since = self._away_since is None, self._away_since or now
        if is_new:
            self.teller.tell(consumer_events.server_lost(self.teller.queue, self._owner, error))
        else:
            log.debug("%s: the server is still away: %s", self.teller.queue, error)

    def reached(self) -> None:
        """A call was answered."""
        if self._away_since is None:
            return
        with self._lock:
            since, self._away_since = self._away_since, None
        if since is not None:
            away_s = self.teller.clock() - since
            self.teller.tell(consumer_events.server_back(self.teller.queue, self._owner, away_s))

    def not_kept(self, error: Exception) -> None:
        """What is done beside a handler failed."""
        self.teller.tell(consumer_events.leases_not_kept(self.teller.queue, self._owner, error))

    def not_released(self, error: Exception) -> None:
        """The groups could not be given back at the end."""
        self.teller.tell(consumer_events.groups_not_released(self.teller.queue, self._owner, error))

    def not_recorded(self, group: tuple[str, ...], error: Exception) -> None:
        """The server could not be told that a message failed."""
        self.teller.tell(consumer_events.failure_not_recorded(self.teller.queue, self._owner, group, error))

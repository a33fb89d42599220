"""One snapshot of all queues for all viewers. Nothing is asked while nobody looks."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

from ..client import Sequencer
from ..errors import SequencerError, ServerUnavailable
from ..values.alerts import Incident
from ..values.views import QueueInfo, QueueSnapshot
from .queues import QueueGone, Queues

T = TypeVar("T")
PERIOD_S = 2.0
SHARE = 20
"""The next snapshot waits this many times as long as the last one took: at most 5 % of a connection's time."""
KEPT_S = 15 * 60.0
"""How long rates are kept for the pictures, since somebody looks."""
BACKLOG_S = 30.0
"""How often backlog and lag are estimated, from SAMPLE groups; a queue with FEW groups is counted each time."""
SAMPLE, FEW = 1000, 200
SHARED_S = 1.5
"""How long viewers of one page share what it read."""


class Rates(NamedTuple):
    at: float
    appended: float
    handled: float


@dataclass(frozen=True)
class QueueSample:
    """One queue; without `info` it can't be read, and `error` says why."""

    queue: str
    info: QueueInfo | None = None
    snapshot: QueueSnapshot | None = None
    incidents: tuple[Incident, ...] = ()
    rates: tuple[Rates, ...] = ()
    error: str = ""

    @property
    def trouble(self) -> tuple[float, ...]:
        """The worst first, by what needs an operator, then by how long groups wait."""
        info, snapshot = self.info, self.snapshot
        if info is None or snapshot is None:
            return (-9.0,)
        held = bool(info.outage) + bool(info.no_consumers)
        return (-held, -float(snapshot.parked > 0), -float(bool(self.incidents)), -snapshot.waits_s, -info.dead)


@dataclass(frozen=True)
class Overview:
    queues: tuple[QueueSample, ...] = ()
    at: float = 0.0
    """When it was read, in seconds since 1970; 0 before the first time."""
    error: str = ""
    """Why the server could not be read since then."""


@dataclass
class _Shared:
    lock: threading.Lock = field(default_factory=threading.Lock)
    until: float = 0.0
    value: Any = None


class Sampler:
    def __init__(self, queues: Queues, clock: Callable[[], float] = time.monotonic) -> None:
        self._queues, self._clock = queues, clock
        self._lock, self._next, self._last = threading.Lock(), 0.0, Overview()
        self._rates: dict[str, deque[Rates]] = {}
        self._known: dict[str, QueueInfo] = {}
        self._counted_at: dict[str, float] = {}
        self._shared: dict[tuple[str, str], _Shared] = {}

    def overview(self) -> Overview:
        """The last snapshot, or a new one when it is time; only one request takes it, the others get the last."""
        if self._clock() >= self._next and self._lock.acquire(blocking=not self._last.at):
            try:
                if (began := self._clock()) >= self._next:
                    self._last = self._taken()
                    ended = self._clock()
                    # One that failed cost the server nothing: it may be back soon.
                    self._next = ended + (PERIOD_S if self._last.error else max(PERIOD_S, SHARE * (ended - began)))
            finally:
                self._lock.release()
        return self._last

    def once(self, queue: str, name: str, view: Callable[[], T]) -> T:
        """What several viewers of a queue's page share for SHARED_S. Raises what `view` raises."""
        if len(self._shared) > 1000:
            self._shared.clear()
        one = self._shared.setdefault((queue, name), _Shared())
        with one.lock:
            if self._clock() >= one.until:
                one.value, one.until = view(), self._clock() + SHARED_S
            value: T = one.value
            return value

    def changed(self, queue: str) -> None:
        """Something was changed: the next viewer sees it."""
        for key in [key for key in [*self._shared] if key[0] == queue]:
            self._shared.pop(key, None)
        self._next = 0.0

    def _taken(self) -> Overview:
        try:
            names = self._queues.names()
            found = [self._sample(name) for name in names]
        except QueueGone:
            self._queues.forget()
            return replace(self._last, at=self._last.at or time.time())
        except SequencerError as error:
            return replace(self._last, error=str(error))
        for gone in self._rates.keys() - set(names):
            del self._rates[gone]
            self._known.pop(gone, None)
        return Overview(tuple(sorted(found, key=lambda one: (one.trouble, one.queue))), time.time())

    def _sample(self, name: str) -> QueueSample:
        """Raises ServerUnavailable, QueueGone."""
        try:
            client = self._queues.client(name, is_listed=True)
            info, snapshot, incidents = self._info(client), client.snapshot(), tuple(client.alerts())
        except (ServerUnavailable, QueueGone):
            raise
        except SequencerError as error:
            return QueueSample(name, error=str(error))
        self._known[name] = info
        rates = self._rates.setdefault(name, deque(maxlen=int(KEPT_S / PERIOD_S)))
        if info.append_rate is not None and info.handle_rate is not None:
            rates.append(Rates(time.time(), info.append_rate, info.handle_rate))
        return QueueSample(name, info, snapshot, incidents, tuple(rates))

    def _info(self, client: Sequencer) -> QueueInfo:
        """With backlog and lag as they were counted last."""
        known, now = self._known.get(client.queue), self._clock()
        if known is None or known.groups <= FEW or now - self._counted_at[client.queue] >= BACKLOG_S:
            self._counted_at[client.queue] = now
            return client.info(sample=SAMPLE)
        return replace(client.info(sample=0), backlog=known.backlog, lag_s=known.lag_s)

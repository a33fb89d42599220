"""What viewers share: one snapshot of all queues, and what a page reads. Nothing is asked while nobody looks."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

from starlette.exceptions import HTTPException
from starlette.requests import Request

from ..client import QueueClients, QueueGone, Sequencer
from ..errors import SequencerError, ServerUnavailable
from ..values.alerts import Incident
from ..values.views import QueueInfo, QueueSnapshot

T = TypeVar("T")
PERIOD_S = 2.0
SHARE = 20
"""What is shared is read again after this many times as long as it took: at most 5 % of a connection's time."""
KEPT_S = 15 * 60.0
"""How long rates are kept for the pictures, since somebody looks."""
BACKLOG_S = 30.0
"""How often backlog and lag are estimated, from SAMPLE groups; a queue with FEW groups is counted each time."""
SAMPLE, FEW = 1000, 200
MOST_SHARED = 200  # views that are kept


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
    counted_at: float = 0.0
    """When backlog and lag were counted."""

    @property
    def order(self) -> tuple[Any, ...]:
        """The worst first, by what needs an operator, then by how long groups wait."""
        if self.info is None or self.snapshot is None:
            return (-9, 0, 0, self.queue)
        held = bool(self.info.outage) + bool(self.info.no_consumers) + bool(self.info.unreachable)
        return (-held, -bool(self.snapshot.parked), -self.snapshot.waits_s, self.queue)


@dataclass(frozen=True)
class Overview:
    queues: tuple[QueueSample, ...] = ()
    at: float = 0.0
    """When it was read, in seconds since 1970; 0 before the first time."""
    error: str = ""
    """Why the server could not be read since then."""

    def of(self, queue: str) -> QueueSample:
        """Without numbers for a queue that is newer."""
        return next((one for one in self.queues if one.queue == queue), QueueSample(queue))


@dataclass
class _Shared:
    lock: threading.Lock = field(default_factory=threading.Lock)
    until: float = 0.0
    value: Any = None


class Sampler:
    def __init__(self, clients: QueueClients, clock: Callable[[], float] = time.monotonic) -> None:
        self.clients, self._clock, self._last = clients, clock, Overview()
        self._shared: dict[str, _Shared] = {}

    def overview(self) -> Overview:
        """All queues; while the server is away, as they were read last."""
        return self.once("overview", self._taken)

    def once(self, name: str, view: Callable[[], T]) -> T:
        """What all viewers share for a while; only one of them reads it again, and the others get the last one. Raises
        what `view` raises.
        """
        if len(self._shared) > MOST_SHARED:
            self.changed()
        one = self._shared.setdefault(name, _Shared())
        if self._clock() >= one.until and one.lock.acquire(blocking=not one.until):
            try:
                if (began := self._clock()) >= one.until:
                    one.value = view()
                    ended = self._clock()
                    # A server that was away may be back soon, and asking it cost it nothing.
                    share = 0 if getattr(one.value, "error", "") else SHARE
                    one.until = ended + max(PERIOD_S, share * (ended - began))
            finally:
                one.lock.release()
        value: T = one.value
        return value

    def changed(self) -> None:
        """Something was changed: the next viewer sees it."""
        self._shared.clear()

    def _taken(self) -> Overview:
        try:
            found = [self._sample(name, self._last.of(name)) for name in self.clients.names()]
            self._last = Overview(tuple(sorted(found, key=lambda one: one.order)), time.time())
        except QueueGone:
            self.clients.forget()
        except SequencerError as error:
            return replace(self._last, error=str(error))
        return self._last

    def _sample(self, name: str, last: QueueSample) -> QueueSample:
        """With backlog and lag as they were counted last, for BACKLOG_S. Raises ServerUnavailable, QueueGone."""
        client, known, rates, counted_at = self.clients.client(name), last.info, last.rates, last.counted_at
        try:
            if known is None or known.groups <= FEW or self._clock() - counted_at >= BACKLOG_S:
                info, counted_at = client.info(sample=SAMPLE), self._clock()
            else:
                info = replace(client.info(sample=0), backlog=known.backlog, lag_s=known.lag_s)
            snapshot, incidents = client.snapshot(), tuple(client.alerts())
        except (ServerUnavailable, QueueGone):
            raise
        except SequencerError as error:
            return QueueSample(name, error=str(error))
        if info.append_rate is not None and info.handle_rate is not None:
            rates = (*rates, Rates(time.time(), info.append_rate, info.handle_rate))[-int(KEPT_S / PERIOD_S) :]
        return QueueSample(name, info, snapshot, incidents, rates, "", counted_at)


def sampler_of(request: Request) -> Sampler:
    sampler: Sampler = request.app.state.sampler
    return sampler


def client_of(request: Request) -> Sequencer:
    """Of the queue in the address. Raises HTTPException 404 for one that is not shown, ServerError."""
    clients, name = sampler_of(request).clients, request.path_params["queue"]
    if name not in clients.known and name not in clients.names():
        raise HTTPException(404, f"There is no queue {name} here.")
    return clients.client(name)

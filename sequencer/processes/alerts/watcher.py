"""The thread that looks at queues, lets incidents begin and end, and has them told; and cleans each minute.

It dies with its process and loses nothing: what holds is in the server, and so is what was told. Others that watch the
same queues do the same; the server lets one at a time tell a target.
"""

from __future__ import annotations

import logging
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from ...calls.alerts import AlertTimes, Grant
from ...consume.emitter import EventEmitter
from ...drain import consumer_events
from ...errors import ServerUnavailable
from ...queue.alerts.conditions import PendingNews, QueueFacts, conditions, may_open
from ...queue.alerts.pending_news import heads_text
from ...texts.events import Event
from ...texts.words import error_text
from ...values.views import QueueSnapshot
from .. import service_events
from ..signals import stop_signals_in_use
from .notices import Origin, away_notice, notice_of
from .sender import ALL_ATTEMPTS_S, Sender
from .server_away import HOLD_S, AwayGrant, ServerAway
from .server_away import KIND as AWAY
from .settings import QueueAlerts
from .targets.table import Target
from .watched_queue import WatchState

if TYPE_CHECKING:
    from ..master.plan import RunPlan

log = logging.getLogger("sequencer.supervisor.watch")

MINUTE_S = 60.0
LOOK_PAGES = 20
"""Hundreds of parked groups, in a shard, that one look goes through for those that were not told. The first look of a
watcher and a message go through all.
"""
WHOLE_S = 600.0
"""So often all is gone through even where no total says that there is something new."""
END_S = 10.0
"""So long an end waits for the answer to what is being sent: one attempt of a target."""


class Local(NamedTuple):
    """What the master knows of a queue, and nobody else."""

    down_s: float | None = None
    check: str | None = None


class Watcher:
    """Watches the queues: `round` once, or `start` in a thread of its own until `close`.

    `alerts`: of each queue, what is told and to whom; None: nothing, it is only cleaned. `local`: what is known of a
    queue on this host. `emit` takes events, from any thread. `away`: what this process knows of a server that does not
    answer; without it, nobody is told of that.
    """

    def __init__(
        self,
        alerts: Mapping[str, QueueAlerts | None],
        targets: Iterable[Target],
        *,
        url: str | None,
        origin: Origin,
        every_s: float,
        emit: Callable[[Event], object],
        local: Callable[[str], Local] = lambda _: Local(),
        away: ServerAway | None = None,
    ) -> None:
        self._origin, self._every_s, self._emit, self._local = origin, every_s, emit, local
        self._queues = [
            WatchState(name, url, origin.namespace, one or QueueAlerts(), is_first=position == 0)
            for position, (name, one) in enumerate(alerts.items())
        ]
        self._told = {name: one for name, one in alerts.items() if one is not None}
        self._away = away
        self._senders = {one.name: Sender(one, self._say_failed) for one in targets}
        self._ends = threading.Event()
        self._lost_at: float | None = None
        """When it was told that the server is away; None while it is there."""

    def start(self) -> None:
        """Watch from now on, in a thread."""
        threading.Thread(target=self._run, name="sequencer-watcher", daemon=True).start()

    def run(self) -> None:
        """Watch until the process is told to stop, in the main thread."""
        stop = threading.Event()
        for number in stop_signals_in_use():
            signal.signal(number, lambda *_: stop.set())
        self.start()
        stop.wait()
        self.close(END_S)

    def close(self, longest_s: float = 0.0) -> None:
        """It ends by itself, after what it is at. What is not sent is told by others, or after the next start.

        What is being sent is waited for, at most so long: who ends sooner marks nothing, and it is told twice.
        """
        self._ends.set()
        for sender in self._senders.values():
            sender.close()
        self.wait_sent(longest_s)

    def _run(self) -> None:
        while not self._ends.is_set():
            self.round()
            self._ends.wait(self._every_s)
        for one in self._queues:
            one.client.close()

    def round(self) -> None:
        """Look at each queue once. Raises nothing: what fails is told by an event, once until it is over."""
        for one in self._queues:
            if self._ends.is_set():
                return
            trouble: Exception | None = None
            try:
                self._watch(one, time.monotonic())
            except Exception as error:
                trouble = error
            self._tell_trouble(one, trouble)

    @property
    def trouble(self) -> Exception | None:
        """Why the last look at a queue failed: of the first for which it did."""
        return next((one.trouble for one in self._queues if one.trouble), None)

    def _tell_trouble(self, one: WatchState, trouble: Exception | None) -> None:
        now, is_away = time.monotonic(), isinstance(trouble, ServerUnavailable)
        if is_away and self._lost_at is None:
            self._lost_at = now
            self._emit(consumer_events.server_lost("", str(trouble)))
        elif not is_away and self._lost_at is not None:
            self._emit(consumer_events.server_back("", now - self._lost_at))
            self._lost_at = None
        if trouble and not is_away and (one.trouble is None or isinstance(one.trouble, ServerUnavailable)):
            self._emit(service_events.supervisor_trouble(one.client.queue, trouble, what="watching the queue"))
        one.trouble = trouble
        if self._away is not None:
            self._tell_away(self._away, now, error_text(trouble) if trouble and is_away else "")

    def wait_sent(self, longest_s: float) -> None:
        """Until what was to be told is sent, or could not be."""
        ends_at = time.monotonic() + longest_s
        while any(not one.is_idle for one in self._senders.values()) and time.monotonic() < ends_at:
            time.sleep(0.05)

    # -- one look -----------------------------------------------------------------------------------------------

    def _watch(self, one: WatchState, now: float) -> None:
        client, is_told = one.client, one.client.queue in self._told
        is_minute = now >= one.minute_at
        if is_minute:
            one.minute_at = now + MINUTE_S
            client.sweep()
        if not is_told:
            return
        if is_minute:
            client.forget_told()
        counted = self._counted(one, now, is_minute=is_minute)
        snapshot, local = client.snapshot(), self._local(client.queue)
        limits, host = one.alerts.limits, self._origin.host
        waits_long = snapshot.due and snapshot.waits_s >= limits.no_consumers > 0
        no_consumers_s = client.no_consumers_s() if waits_long else 0.0
        known = counted._replace(snapshot=snapshot, no_consumers_s=no_consumers_s, **local._asdict(), host=host)
        news = self._news(one, snapshot, now)
        times = AlertTimes(settle=0.9 * self._every_s, again=one.alerts.repeat_s)
        asked_at = time.monotonic()
        for grant in client.take_seen(conditions(known, limits, news), one.alerts.to, times):
            self._tell(one, grant, _start_by(asked_at, times.hold))

    def _counted(self, one: WatchState, now: float, *, is_minute: bool) -> QueueFacts:
        """What is counted each minute, and where that may open an incident; else nothing is known."""
        arrived, last = one.client.arrived(), one.counted
        since = (arrived - one.arrived, now - one.counted_at)
        if not is_minute and not (last.info and may_open(last.info, one.alerts.limits, *since)):
            return QueueFacts()
        found = one.client.counted(has_memory=one.tells_memory)
        one.counted = QueueFacts(**found._asdict(), tried=one.attempts.note(now, found.info.totals))
        one.counted_at, one.arrived = now, arrived
        return one.counted

    def _news(self, one: WatchState, snapshot: QueueSnapshot, now: float) -> dict[str, PendingNews]:
        """Of which conditions a target was not told all."""
        found: dict[str, list[tuple[int, str, str]]] = {}
        if now >= one.progress_at:
            one.progress_at = now + WHOLE_S
            one.begin_again()
        if snapshot.parked or snapshot.dead:
            known = one.client.amounts()
            for target, progress in one.progress.items():
                news = one.client.news_of(target, progress, pages=LOOK_PAGES if progress else None, known=known)
                for kind, count in news.counts().items():
                    found.setdefault(kind, []).append((count, target, heads_text(news.heads_of(kind))))
        return {kind: PendingNews([target for _, target, _ in some], max(some)[2]) for kind, some in found.items()}

    # -- what is told -------------------------------------------------------------------------------------------

    def _tell(self, one: WatchState, grant: Grant, start_by: float) -> None:
        news, has_heads = None, grant.kind in ("parked", "dead") and grant.what in ("open", "news")
        if has_heads:
            news = one.client.news_of(grant.target, {})
            if grant.what == "news" and grant.kind not in news.counts():
                return  # another told it meanwhile

        errors = one.client.parked_errors() if grant.kind == "parked" and grant.what != "resolved" else {}

        def on_sent() -> None:
            if news is not None:
                one.client.mark_notified(grant.target, news, grant.kind)
            one.client.sent(grant)
            self._emit(service_events.alert_sent(one.client.queue, grant.kind, grant.what, grant.target))

        notice = notice_of(self._origin, one.client.queue, one.alerts, grant, news, errors)
        self._senders[grant.target].offer(start_by, notice, on_sent)

    def _tell_away(self, away: ServerAway, now: float, error: str) -> None:
        """All targets are told, as the first queue of the file says."""
        first = next(iter(self._told.values()), QueueAlerts())
        away.note(now, time.time(), error, first.limits.away)
        targets = {name for one in self._told.values() for name in one.to}
        for grant in away.grants(now, targets, first.repeat_s):

            def on_sent(grant: AwayGrant = grant) -> None:
                away.sent(grant, time.monotonic())
                self._emit(service_events.alert_sent("", AWAY, grant.what, grant.target))

            notice = away_notice(self._origin, next(iter(self._told)), first.limits, grant)
            self._senders[grant.target].offer(_start_by(now, HOLD_S), notice, on_sent)

    def _say_failed(self, target: str, error: str) -> None:
        self._emit(service_events.alert_not_sent(target, error))


def _start_by(asked_at: float, hold_s: float) -> float:
    """Until when to begin with what may be told: all attempts end within the hold, or the next who gets the right tells
    it
    too.
    """
    return asked_at + hold_s - ALL_ATTEMPTS_S


def watcher_of(
    plan: RunPlan,
    emit: Callable[[Event], object] | None = None,
    local: Callable[[str], Local] = lambda _: Local(),
    away: ServerAway | None = None,
) -> Watcher:
    """The watcher of a file's queues. Without `emit`, what happens goes to the log."""
    return Watcher(
        {pool.queue: pool.alerts for pool in plan.pools},
        plan.targets,
        url=plan.url,
        origin=Origin(
            plan.namespace,
            plan.environment,
            socket.gethostname(),
            str(plan.path),
            {pool.queue: pool.config.app for pool in plan.pools if pool.config.app},
        ),
        every_s=plan.check_every_s,
        emit=emit or EventEmitter("", log=log).emit,
        local=local,
        away=away,
    )

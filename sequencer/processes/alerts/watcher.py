"""The thread that checks queues, for scaling their pools and for alerts, and that sweeps each minute.

It opens and closes incidents, and has them sent.

It dies with its process and loses nothing: what holds is in the server, and so is what was sent. Others that watch the
same queues do the same; the server lets one at a time notify a target.
"""

from __future__ import annotations

import logging
import signal
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ...calls.alerts import AlertTimes, Grant
from ...client import Sequencer, find_server
from ...consume.emitter import EventEmitter, ServerAway
from ...errors import ServerUnavailable
from ...net.endpoint import Endpoint
from ...net.faces import operation
from ...queue import views
from ...queue.alerts import facts, incidents, pending_news
from ...queue.alerts.conditions import QueueFacts, conditions
from ...queue.session import QueueGone
from ...texts.events import Event, event
from ...texts.words import error_text
from ...values.pools import OutboxBacklog
from ...values.views import QueueSnapshot
from ..signals import stop_signals_in_use
from .notice import DeliveryFailed, Notice, Origin, notice_of
from .sender import ALL_ATTEMPTS_S, Sender
from .server_away import HOLD_S, AwayIncident
from .settings import QueueAlerts

if TYPE_CHECKING:
    from ..master.plan import PoolPlan, RunPlan

log = logging.getLogger("sequencer.supervisor.watch")

MINUTE_S = 60.0
CHECK_PAGES = 20
"""Hundreds of parked groups, in a shard, that one check goes through for those not notified of. The first check of a
watcher and a message go through all.
"""
START_WITHIN_S = HOLD_S - ALL_ATTEMPTS_S
"""A notice is begun this soon: all attempts end within the hold, or the next who gets the right sends it too."""
END_S = 10.0
"""How long an end waits for the answer to what is being sent: one attempt of a target."""


class Local(NamedTuple):
    """What the master knows of a queue, and nobody else."""

    down_s: float | None = None
    check: str | None = None
    outbox: OutboxBacklog | None = None


class WatchedQueue(Sequencer):
    """The client of one queue, with what a watcher asks and what it saw. It does not restore what was deleted."""

    def __init__(self, pool: PoolPlan, server: Endpoint) -> None:
        super().__init__(pool.queue, server, namespace=pool.config.namespace)
        self._session.restores = False
        self.pool = pool
        self.settings = pool.alerts or QueueAlerts()
        self.attempts = facts.Attempts()
        self.seen: tuple[float, QueueSnapshot] | None = None
        self.progress: dict[str, dict[str, pending_news.ShardProgress]] = {name: {} for name in self.settings.to}
        """By target and shard: how far parked groups were read."""
        self.minute_at = 0.0
        self.trouble: Exception | None = None

    take_seen = operation(incidents.take_seen)
    sent = operation(incidents.sent)
    amounts = operation(pending_news.amounts)
    news_of = operation(pending_news.news_of)
    parked_errors = operation(pending_news.parked_errors)
    mark_notified = operation(pending_news.mark_notified)
    forget_resumed = operation(pending_news.forget_resumed)
    counted = operation(facts.counted)
    no_consumers = operation(views.no_consumers)


class Watcher:
    """`round` once, or `start` in a thread of its own until `close`.

    `local`: what is known of a queue on this host. `emit` takes events, from any thread; without it, they go to the
    log. `away`: what this process knows of a server that does not answer; without it, that is not reported.
    """

    def __init__(
        self,
        plan: RunPlan,
        *,
        emit: Callable[[Event], None] | None = None,
        local: Callable[[str], Local] = lambda _: Local(),
        away: AwayIncident | None = None,
    ) -> None:
        apps = {pool.queue: pool.config.app for pool in plan.pools if pool.config.app}
        self._origin = Origin(plan.namespace, plan.environment, socket.gethostname(), str(plan.path), apps)
        self._every_s, self._local, self._away = plan.check_every_s, local, away
        self._emit = emit or EventEmitter("", log=log).emit
        self._endpoint = find_server(plan.redis)  # of all: what one learned of a cluster's nodes, the others know
        self._queues = {pool.queue: WatchedQueue(pool, self._endpoint) for pool in plan.pools}
        self._alerting = {pool.queue: pool.alerts for pool in plan.pools if pool.alerts}
        self._senders = {one.name: Sender(one, self._say_failed) for one in plan.targets}
        self._ends, self._lost = threading.Event(), ""
        self._server = ServerAway(lambda name, **fields: self._emit(event(name, "", **fields)))

    def start(self) -> None:
        threading.Thread(target=self._run, name="sequencer-watcher", daemon=True).start()

    def run(self) -> None:
        """Until the process is asked to stop, in the main thread."""
        stop = threading.Event()
        for number in stop_signals_in_use():
            signal.signal(number, lambda *_: stop.set())
        self.start()
        stop.wait()
        self.close(END_S)

    def close(self, longest_s: float = 0.0) -> None:
        """It ends by itself, after what it is at. What is not sent is sent by others, or after the next start.

        What is being sent is waited for, at most this long: who ends sooner marks nothing, and it is sent twice.
        """
        self._ends.set()
        for sender in self._senders.values():
            sender.close()
        self.wait_sent(longest_s)

    def _run(self) -> None:
        while not self._ends.is_set():
            self.round()
            self._ends.wait(self._every_s)
        for one in self._queues.values():
            one.close()

    def round(self) -> None:
        """Check each queue once. Raises nothing: what fails is logged as an event, once until it is over."""
        for name, one in self._queues.items():
            if self._ends.is_set():
                return
            try:
                self._watch(one, time.monotonic())
                self._report_trouble(one, None)
            except QueueGone:
                one.close()
                self._queues[name] = WatchedQueue(one.pool, self._endpoint)
            except Exception as error:
                self._report_trouble(one, error)

    @property
    def trouble(self) -> Exception | None:
        """Why the last check of a queue failed: of the first for which it did."""
        return next((one.trouble for one in self._queues.values() if one.trouble), None)

    def last_snapshot(self, queue: str, now: float) -> QueueSnapshot | None:
        """The last snapshot of a queue; None where it is too old to say anything: the server is away."""
        one = self._queues.get(queue)
        at, snapshot = one.seen if one and one.seen else (0.0, None)
        return snapshot if now - at < 3 * self._every_s + 1.0 else None

    def _report_trouble(self, one: WatchedQueue, trouble: Exception | None) -> None:
        now, away = time.monotonic(), trouble if isinstance(trouble, ServerUnavailable) else None
        if away:  # of a cluster, perhaps only the node with what this queue needs
            self._server.lost(str(away), away.code, now, id(one.pool))
            self._lost = error_text(away)
        else:
            self._server.back(now, id(one.pool))
        if trouble and not away and (one.trouble is None or isinstance(one.trouble, ServerUnavailable)):
            self._emit(event("supervisor error", one.queue, error=trouble, what="watching the queue"))
        one.trouble = trouble
        if self._away is not None:
            self._send_away(self._away, now, self._lost if self._server.is_away else "")

    def wait_sent(self, longest_s: float) -> None:
        """Until what was to be sent is sent, or could not be."""
        ends_at = time.monotonic() + longest_s
        while any(not one.is_idle for one in self._senders.values()) and time.monotonic() < ends_at:
            time.sleep(0.05)

    # -- one check -----------------------------------------------------------------------------------------------

    def _watch(self, one: WatchedQueue, now: float) -> None:
        snapshot = one.snapshot()
        one.seen = now, snapshot
        is_minute, has_alerts = now >= one.minute_at, one.queue in self._alerting
        if is_minute:
            one.minute_at = now + MINUTE_S
            one.sweep()
            if has_alerts:
                one.forget_resumed()
        if not has_alerts:
            return
        limits, has_memory = one.settings.limits, one is next(iter(self._queues.values()))
        counted = one.counted(one.attempts, now, has_memory=has_memory) if is_minute else QueueFacts()
        waits_long = snapshot.due and snapshot.waits_s >= limits.no_consumers > 0
        nobody = one.no_consumers() if waits_long else None
        no_consumers_s = nobody.waits_s if nobody else 0.0
        local = self._local(one.queue)._asdict()
        known = counted._replace(snapshot=snapshot, no_consumers_s=no_consumers_s, **local, host=self._origin.host)
        news = self._news(one, snapshot)
        times = AlertTimes(settle=0.9 * self._every_s, again=one.settings.repeat_s)
        asked_at = time.monotonic()
        for grant in one.take_seen(conditions(known, limits, news), one.settings.to, times):
            self._notify(one, grant, asked_at + START_WITHIN_S)

    def _news(self, one: WatchedQueue, snapshot: QueueSnapshot) -> dict[str, list[str]]:
        """Of which conditions which targets were not notified in full."""
        found: dict[str, list[str]] = {}
        if snapshot.parked or snapshot.dead:
            known = one.amounts()
            for target, progress in one.progress.items():
                news = one.news_of(target, progress, pages=CHECK_PAGES if progress else None, known=known)
                for kind in news.counts:
                    found.setdefault(kind, []).append(target)
        return found

    # -- what is sent -------------------------------------------------------------------------------------------

    def _notify(self, one: WatchedQueue, grant: Grant, start_by: float) -> None:
        news = None
        if grant.kind in ("parked", "dead") and grant.what in ("open", "news"):
            news = one.news_of(grant.target, {})
            if grant.what == "news" and grant.kind not in news.counts:
                return  # another sent it meanwhile
        errors = one.parked_errors() if grant.kind == "parked" and grant.what != "resolved" else {}

        def on_sent() -> None:
            with suppress(QueueGone):
                if news is not None:
                    one.mark_notified(grant.target, news, grant.kind)
                one.sent(grant)

        notice = notice_of(self._origin, one.queue, grant, news, errors, texts=one.settings.texts)
        self._send(start_by, notice, grant.target, on_sent)

    def _send_away(self, away: AwayIncident, now: float, error: str) -> None:
        """All targets are notified, as the first queue of the file says."""
        if not self._alerting:
            return
        queue, first = next(iter(self._alerting.items()))
        targets = {name for one in self._alerting.values() for name in one.to}
        limits = {"limit_s": first.limits.away, "repeat_s": first.repeat_s}
        for grant in away.check(now, time.time(), error, targets, **limits):
            own = grant._replace(kind=f"{grant.kind}@{self._origin.host}")
            notice = notice_of(self._origin, "", own, shown_by=queue)
            self._send(now + START_WITHIN_S, notice, grant.target, partial(away.sent, grant))

    def _send(self, start_by: float, notice: Notice, target: str, on_sent: Callable[[], object]) -> None:
        def then() -> None:
            on_sent()
            self._emit(event("alert sent", notice.queue, target=target, kind=notice.kind, what=notice.what))

        self._senders[target].offer(start_by, notice, then)

    def _say_failed(self, target: str, error: DeliveryFailed) -> None:
        self._emit(event("alert not sent", "", target=target, error=error))

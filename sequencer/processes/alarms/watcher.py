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

from ...calls.alarms import AlarmTimes, Grant
from ...client import Sequencer
from ...consume.emitter import EventEmitter
from ...drain import consumer_events
from ...errors import ServerUnavailable
from ...net.blocking import blocking
from ...queue.alarms import facts, incidents, untold
from ...queue.alarms.conditions import Facts, commands_for, conditions, limit_of, unit_of
from ...queue.alarms.incidents import key_of
from ...queue.alarms.untold import NamedHead, News
from ...settings.events import Event
from ...values.text import error_text, named
from ...values.views import QueueLook
from .. import service_events
from ..signals import stop_signals_in_use
from .notice import Item, Notice
from .sender import Sender
from .settings import QueueAlarms
from .targets.table import Target

if TYPE_CHECKING:
    from ..pools.plan import RunPlan

log = logging.getLogger("sequencer.supervisor.watch")

MINUTE_S = 60.0
LOOK_PAGES = 20
"""Hundreds of parked groups, in a lane, that one look goes through for those that were not told. The first look of a
watcher and a message go through all.
"""
END_S = 10.0
"""So long an end waits for the answer to what is being sent: one try of a target."""
SEND_S = 18.0
"""A message may take so long to be sent, with its repeats: one that is not begun by then before the end of the hold is
left to the next who gets the right."""


class Local(NamedTuple):
    """What the master knows of a queue, and nobody else."""

    down_s: float | None = None
    check: str | None = None


class WatchedQueue(Sequencer):
    """The client of one queue, with what a watcher asks."""

    take_seen = blocking(incidents.take_seen)
    sent = blocking(incidents.sent)
    news_of = blocking(untold.news_of)
    keep_told = blocking(untold.keep_told)
    forget_told = blocking(untold.forget_told)
    minute_facts = blocking(facts.minute_facts)
    unserved_s = blocking(facts.unserved_s)


class _Queue:
    """A queue that is watched, and what was seen of it."""

    def __init__(self, name: str, url: str | None, namespace: str, alarms: QueueAlarms, *, is_first: bool) -> None:
        self.client = WatchedQueue(name, url, namespace=namespace)
        self.alarms = alarms
        self.tells_memory, self.tries = is_first, facts.Tries()
        """Of the server's memory one queue tells, the first of the file."""
        self.minute: Facts = Facts()
        """What was seen at the last minute, until it was told."""
        self.places: dict[str, dict[str, int]] = {name: {} for name in alarms.to}
        """By target and lane: how many parked groups were looked at."""
        self.minute_at = 0.0
        self.trouble: Exception | None = None
        """Why the last look failed."""


class Watcher:
    """Watches the queues: `round` once, or `start` in a thread of its own until `close`.

    `alarms`: of each queue, what is told and to whom; None: nothing, it is only cleaned. `local`: what is known of a
    queue on this host. `emit` takes events, from any thread.
    """

    def __init__(
        self,
        alarms: Mapping[str, QueueAlarms | None],
        targets: Iterable[Target],
        *,
        url: str | None,
        namespace: str,
        environment: str,
        every_s: float,
        emit: Callable[[Event], object],
        local: Callable[[str], Local] = lambda _: Local(),
    ) -> None:
        self._namespace, self._environment, self._every_s = namespace, environment, every_s
        self._emit, self._local, self._host = emit, local, socket.gethostname()
        self._queues = [
            _Queue(name, url, namespace, one or QueueAlarms(), is_first=position == 0)
            for position, (name, one) in enumerate(alarms.items())
        ]
        self._is_told = {name for name, one in alarms.items() if one is not None}
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

    def _tell_trouble(self, one: _Queue, trouble: Exception | None) -> None:
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

    def wait_sent(self, longest_s: float) -> None:
        """Until what was to be told is sent, or could not be."""
        ends_at = time.monotonic() + longest_s
        while any(not one.is_idle for one in self._senders.values()) and time.monotonic() < ends_at:
            time.sleep(0.05)

    # -- one look -----------------------------------------------------------------------------------------------

    def _watch(self, one: _Queue, now: float) -> None:
        client, is_told = one.client, one.client.queue in self._is_told
        if now >= one.minute_at:
            one.minute_at = now + MINUTE_S
            self._each_minute(one, now, is_told=is_told)
        if not is_told:
            return
        look, local = client.look(), self._local(client.queue)
        limits, host = one.alarms.limits, self._host
        waits_long = look.due and look.waits_s >= limits.unserved > 0
        unserved_s = client.unserved_s() if waits_long else 0.0
        known = one.minute._replace(look=look, unserved_s=unserved_s, **local._asdict(), host=host)
        one.minute = Facts()
        news = self._kinds_with_news(one, look)
        times = AlarmTimes(settle=0.9 * self._every_s, again=one.alarms.repeat_s)
        asked_at = time.monotonic()
        for grant in client.take_seen(conditions(known, limits, news), one.alarms.to, times):
            self._tell(one, grant, asked_at + times.hold - SEND_S)

    def _each_minute(self, one: _Queue, now: float, *, is_told: bool) -> None:
        one.client.sweep()
        if is_told:
            one.client.forget_told()
            found = one.client.minute_facts(has_memory=one.tells_memory)
            one.minute = Facts(**found._asdict(), tried=one.tries.note(now, found.info.totals))

    def _kinds_with_news(self, one: _Queue, look: QueueLook) -> dict[str, list[str]]:
        """Of which conditions a target was not told all."""
        found: dict[str, list[str]] = {}
        if look.parked or look.dead:
            for target, places in one.places.items():
                pages = LOOK_PAGES if places else None
                for kind in one.client.news_of(target, places, pages=pages).kinds():
                    found.setdefault(kind, []).append(target)
        return found

    # -- what is told -------------------------------------------------------------------------------------------

    def _tell(self, one: _Queue, grant: Grant, start_by: float) -> None:
        news, has_heads = None, grant.kind in ("parked", "dead") and grant.what in ("open", "news")
        if has_heads:
            news = one.client.news_of(grant.target, {})
            if grant.what == "news" and grant.kind not in news.kinds():
                return  # another told it meanwhile

        def on_sent() -> None:
            if news is not None:
                one.client.keep_told(grant.target, news, grant.kind)
            one.client.sent(grant)
            self._emit(service_events.alarm_sent(one.client.queue, grant.kind, grant.what, grant.target))

        self._senders[grant.target].offer(start_by, self._notice(one, grant, news), on_sent)

    def _notice(self, one: _Queue, grant: Grant, news: News | None) -> Notice:
        kind, _, host = grant.kind.partition("@")
        heads = [] if news is None else news.heads if kind == "parked" else news.dead_heads
        count = 0 if news is None else len(news.groups) if kind == "parked" else news.dead
        return Notice(
            incident=key_of(self._namespace, one.client.queue, grant.kind, grant.opened_us),
            number=grant.number,
            what=grant.what,
            namespace=self._namespace,
            queue=one.client.queue,
            kind=kind,
            environment=self._environment,
            host=host or self._host,
            opened_at=grant.opened_us / 1e6,
            at=grant.now_us / 1e6,
            value=float(grant.value) if grant.value else None,
            limit=limit_of(kind, one.alarms.limits),
            unit=unit_of(kind),
            text=grant.text,
            items=tuple(_item(head, texts=one.alarms.texts) for head in heads),
            more=max(0, count - len(heads)),
            commands=commands_for(kind, one.client.queue, self._namespace),
            news="" if news is None else news.digest(kind),
        )

    def _say_failed(self, target: str, error: str) -> None:
        self._emit(service_events.alarm_not_sent(target, error))


def _item(head: NamedHead, *, texts: bool) -> Item:
    failure = head.failure
    error = f"{failure.type}: {failure.message}" if texts and failure.message else failure.type
    return Item(group=named(head.group), id=head.id, error=error_text(error), at=failure.at, commands=head.commands)


def watcher_of(
    plan: RunPlan, emit: Callable[[Event], object] | None = None, local: Callable[[str], Local] = lambda _: Local()
) -> Watcher:
    """The watcher of a file's queues. Without `emit`, what happens goes to the log."""
    return Watcher(
        {pool.queue: pool.alarms for pool in plan.pools},
        plan.targets,
        url=plan.url,
        namespace=plan.namespace,
        environment=plan.environment,
        every_s=plan.check_every_s,
        emit=emit or EventEmitter("", log=log).emit,
        local=local,
    )

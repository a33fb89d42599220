"""A queue that is watched, with targets that keep what they are told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from sequencer import Message, Sequencer
from sequencer.processes.alerts.notice import DeliveryFailed, Notice
from sequencer.processes.alerts.settings import QueueAlerts
from sequencer.processes.alerts.targets import Target
from sequencer.processes.alerts.watcher import Local, WatchedQueue, Watcher
from sequencer.processes.master.plan import PoolPlan, RunPlan
from sequencer.processes.worker.config import WorkerConfig
from sequencer.settings.thresholds import Thresholds
from sequencer.testing import wait_until
from sequencer.texts.events import Event

MakeSequencer = Callable[..., Sequencer]


def plan_of(seq: Sequencer, queue: str, alerts: QueueAlerts | None = None, *targets: Target) -> RunPlan:
    """A file that names one queue on the server of a client, and its targets."""
    url, namespace = seq.endpoint.url, seq.options.namespace
    pool = PoolPlan(config=WorkerConfig(queue=queue, url=url, namespace=namespace), alerts=alerts)
    given = {"redis": url, "namespace": namespace, "environment": "test", "check_every_s": 0.1}
    return RunPlan(path=Path("sequencer.toml"), pools=(pool,), targets=targets, **given)  # type: ignore[arg-type]


def watched(seq: Sequencer, queue: str = "jobs") -> WatchedQueue:
    """A watcher's client of a queue on the server of another client."""
    return WatchedQueue(plan_of(seq, queue).pools[0], seq.endpoint)


class Recorder:
    """A target that keeps what it is told."""

    kind, timeout_s = "recorder", 5.0

    def __init__(self, name: str) -> None:
        self.name = name
        self.took: list[Notice] = []
        self.refuses = self.loses = False
        """Whether it takes nothing; whether it takes a message, and its answer is lost."""

    def send(self, notice: Notice) -> None:
        if self.refuses:
            raise DeliveryFailed("it does not want to")
        self.took.append(notice)
        if self.loses:
            raise DeliveryFailed("no answer")

    def whats(self, kind: str = "") -> list[str]:
        return [one.what for one in self.took if kind in ("", one.kind)]


class Watching:
    """A queue of two shards, and watchers of it that look when they are told."""

    def __init__(self, seq: Sequencer, make: MakeSequencer) -> None:
        self.seq, self.make = seq, make
        self.targets = [Recorder("chat"), Recorder("mail")]
        self.events: list[Event] = []
        self.local = Local()
        self.watchers: list[Watcher] = []

    def watcher(self, **limits: Any) -> Watcher:
        alerts = QueueAlerts(limits=Thresholds(**limits), to=("chat", "mail"))
        plan = plan_of(self.seq, self.seq.queue, alerts, *cast(list[Target], self.targets))
        found = Watcher(plan, emit=self.events.append, local=lambda _: self.local)
        self.watchers.append(found)
        return found

    def fail(self, error: Exception, *groups: str, id: str = "m") -> None:
        """A message of each group fails for good."""
        for group in groups:
            self.seq.append({"card": "SECRET"}, group, id=id)

        def handle(message: Message) -> None:
            raise error

        self.seq.consume(handle, until_empty=True)

    def look(self, watcher: Watcher) -> None:
        watcher.round()
        watcher.wait_sent(20.0)
        assert [one for one in self.events if one.name == "supervisor error"] == []

    def look_until(self, watcher: Watcher, is_seen: Callable[[], bool], what: str) -> None:
        def looked() -> bool:
            self.look(watcher)
            return is_seen()

        wait_until(looked, what=what)

    def close(self) -> None:
        for one in self.watchers:
            one.close()

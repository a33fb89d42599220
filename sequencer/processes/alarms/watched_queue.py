"""One queue that is watched: its client, and what its watcher saw of it."""

from __future__ import annotations

from ...client import Sequencer
from ...net.blocking import blocking
from ...queue.alarms import facts, incidents, untold
from ...queue.alarms.conditions import QueueFacts
from .settings import QueueAlarms


class WatchedQueue(Sequencer):
    """The client of one queue, with what a watcher asks. It does not bring back what was deleted."""

    def __init__(self, queue: str, url: str | None, *, namespace: str) -> None:
        super().__init__(queue, url, namespace=namespace)
        self._session.restores = False

    take_seen = blocking(incidents.take_seen)
    sent = blocking(incidents.sent)
    amounts = blocking(untold.amounts)
    news_of = blocking(untold.news_of)
    parked_errors = blocking(untold.parked_errors)
    keep_told = blocking(untold.keep_told)
    forget_told = blocking(untold.forget_told)
    counted = blocking(facts.counted)
    arrived = blocking(facts.arrived)
    unserved_s = blocking(facts.unserved_s)


class WatchState:
    """What a watcher knows of one queue."""

    def __init__(self, name: str, url: str | None, namespace: str, alarms: QueueAlarms, *, is_first: bool) -> None:
        self.client = WatchedQueue(name, url, namespace=namespace)
        self.alarms = alarms
        self.tells_memory, self.tries = is_first, facts.Tries()
        """Of the server's memory one queue tells, the first of the file."""
        self.counted: QueueFacts = QueueFacts()
        """What was counted last."""
        self.counted_at, self.arrived = 0.0, 0
        """When that was, and how many messages had come then."""
        self.progress: dict[str, dict[str, untold.LaneProgress]] = {name: {} for name in alarms.to}
        """By target and lane: how far parked groups were looked through."""
        self.progress_at = self.minute_at = 0.0
        self.trouble: Exception | None = None
        """Why the last look failed."""

    def begin_again(self) -> None:
        """All parked groups are gone through again, by the looks to come."""
        for lanes in self.progress.values():
            for lane in lanes.values():
                lane.quiet = None

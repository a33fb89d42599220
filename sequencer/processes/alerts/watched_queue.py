"""One queue that is watched: its client, and what its watcher saw of it."""

from __future__ import annotations

from ...client import Sequencer
from ...net.blocking import blocking
from ...queue.alerts import facts, incidents, pending_news
from ...queue.alerts.conditions import QueueFacts
from .settings import QueueAlerts


class WatchedQueue(Sequencer):
    """The client of one queue, with what a watcher asks. It does not bring back what was deleted."""

    def __init__(self, queue: str, url: str | None, *, namespace: str) -> None:
        super().__init__(queue, url, namespace=namespace)
        self._session.restores = False

    take_seen = blocking(incidents.take_seen)
    sent = blocking(incidents.sent)
    amounts = blocking(pending_news.amounts)
    news_of = blocking(pending_news.news_of)
    parked_errors = blocking(pending_news.parked_errors)
    mark_notified = blocking(pending_news.mark_notified)
    forget_told = blocking(pending_news.forget_told)
    counted = blocking(facts.counted)
    arrived = blocking(facts.arrived)
    no_consumers_s = blocking(facts.no_consumers_s)


class WatchState:
    """What a watcher knows of one queue."""

    def __init__(self, name: str, url: str | None, namespace: str, alerts: QueueAlerts, *, is_first: bool) -> None:
        self.client = WatchedQueue(name, url, namespace=namespace)
        self.alerts = alerts
        self.tells_memory, self.attempts = is_first, facts.Attempts()
        """Of the server's memory one queue tells, the first of the file."""
        self.counted: QueueFacts = QueueFacts()
        """What was counted last."""
        self.counted_at, self.arrived = 0.0, 0
        """When that was, and how many messages had come then."""
        self.progress: dict[str, dict[str, pending_news.ShardProgress]] = {name: {} for name in alerts.to}
        """By target and shard: how far parked groups were looked through."""
        self.progress_at = self.minute_at = 0.0
        self.trouble: Exception | None = None
        """Why the last look failed."""

    def begin_again(self) -> None:
        """All parked groups are gone through again, by the looks to come."""
        for shards in self.progress.values():
            for shard in shards.values():
                shard.quiet = None

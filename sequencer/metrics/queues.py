"""What a server holds of its queues. It is the same wherever it is asked: export it once."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from ..client import QueueClients, QueueGone, Sequencer
from ..errors import SequencerError
from .families import BUILD_INFO, Metric, TableCollector

SAMPLE = 1000
OUTCOMES = ("handled", "expired", "skipped", "dropped", "dead", "purged", "cancelled", "overtaken")
STATES = ("due", "leased", "waiting", "parked", "paused")
COUNTERS = {
    "sequencer_messages_appended_total": ("appended", "Messages appended."),
    "sequencer_attempts_failed_total": ("failed", "Attempts that failed."),
    "sequencer_groups_parked_total": ("parked", "How often a group was parked."),
    "sequencer_messages_late_total": ("late", "Messages that came after one with a higher score was handled."),
    "sequencer_messages_refused_total": ("refused", "Messages refused because they were late."),
    "sequencer_messages_redriven_total": ("redriven", "Dead letters put back."),
    "sequencer_outages_total": ("outages", "Outages that held the queue back."),
}
GAUGES = {
    "sequencer_backlog_messages": ("backlog", "Pending messages; from a sample above 1,000 groups."),
    "sequencer_oldest_head_seconds": (
        "lag_s",
        "Age of the oldest message in front of a group that waits for no operator; from the same sample.",
    ),
    "sequencer_dead_letters": ("dead", "Dead letters."),
    "sequencer_queue_paused": ("is_paused", "1 while the whole queue is paused."),
    "sequencer_outage": ("outage", "1 while an outage holds the queue back."),
    "sequencer_no_consumers": ("no_consumers", "1 while groups are due and no consumer is there."),
}
"""By field of QueueInfo; what is no number is there, or None."""


class QueueCollector(TableCollector):
    """Reads queues when it is collected: `REGISTRY.register(QueueCollector())`.

    `queues`: the names of those to read; without them all of the namespace. `redis` and `namespace`: as for Sequencer.
    Nothing connects before the first collection; a queue that can't be read has `sequencer_queue_up` 0. Threads may
    share it. Raises ConfigurationError for a wrong name.
    """

    METRICS = (
        *(Metric(name, "counter", help) for name, (_, help) in COUNTERS.items()),
        Metric("sequencer_messages_total", "counter", "Messages by what became of them.", "outcome", OUTCOMES),
        Metric("sequencer_groups", "gauge", "Groups that have messages, by state.", "state", STATES),
        *(Metric(name, "gauge", help) for name, (_, help) in GAUGES.items()),
        Metric("sequencer_oldest_due_seconds", "gauge", "How long the group that waits longest has been due."),
        Metric("sequencer_queue_up", "gauge", "1 where the queue could be read."),
        Metric(
            "sequencer_shards_unreachable",
            "gauge",
            "Shards that did not answer: gauges leave them out, and counters are missing.",
        ),
        Metric("sequencer_collect_duration_seconds", "gauge", "Time that reading all queues took.", is_of_queue=False),
        BUILD_INFO,
    )

    def __init__(
        self, queues: QueueClients | Iterable[str] | None = None, redis: Any = None, *, namespace: str = "sequencer"
    ) -> None:
        self._clients = queues if isinstance(queues, QueueClients) else QueueClients(queues, redis, namespace)

    def close(self) -> None:
        """Close the connections; the collector can still be used."""
        self._clients.forget()

    def _fill(self, found: dict[str, Any]) -> None:
        began = time.monotonic()
        try:
            names = self._clients.names()
        except SequencerError:  # while the server is away, those that are known
            names = self._clients.known
        for queue in names:
            labels = [queue, self._clients.namespace]
            try:
                self._read(found, labels, self._clients.client(queue))
                found["sequencer_queue_up"].add_metric(labels, 1)
            except QueueGone:
                self._clients.forget()
            except SequencerError:
                found["sequencer_queue_up"].add_metric(labels, 0)
        found["sequencer_collect_duration_seconds"].add_metric([], time.monotonic() - began)

    def _read(self, found: dict[str, Any], labels: list[str], client: Sequencer) -> None:
        """Raises SequencerError, with nothing added."""
        info, snapshot = client.info(sample=SAMPLE), client.snapshot()
        if not info.unreachable:  # a counter must not fall
            for name, (total, _) in COUNTERS.items():
                found[name].add_metric(labels, info.totals[total])
            for outcome in OUTCOMES:
                found["sequencer_messages_total"].add_metric([*labels, outcome], info.totals[outcome])
        for state in STATES:
            found["sequencer_groups"].add_metric([*labels, state], getattr(info, state))
        for name, (field, _) in GAUGES.items():
            value = getattr(info, field)
            found[name].add_metric(labels, value if isinstance(value, int | float) else value is not None)
        found["sequencer_oldest_due_seconds"].add_metric(labels, snapshot.waits_s)
        away = len(info.unreachable.shards) if info.unreachable else 0
        found["sequencer_shards_unreachable"].add_metric(labels, away)

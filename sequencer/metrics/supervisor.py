"""What the consumers of one supervisor do."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..values.pools import ENDS, STATES, PoolNumbers
from .families import BUILD_INFO, Metric, TableCollector, add_runs


class SupervisorCollector(TableCollector):
    """`read`: the pools as they are now, from any thread."""

    METRICS = (
        Metric("sequencer_consumers", "gauge", "Consumer processes, by state.", "state", STATES),
        Metric("sequencer_consumers_wanted", "gauge", "Consumer processes that there should be."),
        Metric("sequencer_consumer_ends_total", "counter", "Ends of consumer processes.", "how", ENDS),
        Metric("sequencer_leases_lost_total", "counter", "Leases that ended before their acknowledgement."),
        Metric(
            "sequencer_handler_duration_seconds",
            "histogram",
            "Time of a call of the handler; of a message with steps, in all that it ran of them at once.",
        ),
        Metric("sequencer_outbox_unsent_rows", "gauge", "Rows of the outbox that are not sent, counted to 100,000."),
        Metric("sequencer_outbox_oldest_seconds", "gauge", "Age of the oldest of them."),
        Metric("sequencer_outbox_held_rows", "gauge", "Rows of the outbox that the queue refused."),
        BUILD_INFO,
    )

    def __init__(self, read: Callable[[], Iterable[PoolNumbers]]) -> None:
        self._read = read

    def _fill(self, found: dict[str, Any]) -> None:
        for pool in self._read():
            labels = [pool.queue, pool.namespace]
            for state in STATES:
                found["sequencer_consumers"].add_metric([*labels, state], pool.consumers.get(state, 0))
            for how in ENDS:
                found["sequencer_consumer_ends_total"].add_metric([*labels, how], pool.ends[how])
            found["sequencer_consumers_wanted"].add_metric(labels, pool.wanted)
            found["sequencer_leases_lost_total"].add_metric(labels, pool.leases_lost)
            add_runs(found["sequencer_handler_duration_seconds"], labels, pool.runs)
            if pool.outbox is not None:
                found["sequencer_outbox_unsent_rows"].add_metric(labels, pool.outbox.unsent)
                found["sequencer_outbox_oldest_seconds"].add_metric(labels, pool.outbox.oldest_s)
                found["sequencer_outbox_held_rows"].add_metric(labels, pool.outbox.held)

"""The negative control: the naive version of list, guard and lock loses and disorders, and the checker says so.

Scripts of steps show each fault without any chance in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from benchmarks.load.history import Row
from benchmarks.load.naive import NaiveMessage, NaiveQueue
from benchmarks.load.order_check import Handled, check_history
from sequencer import EmbeddedServer

NOON_MS = 1_700_000_000_000


@pytest.fixture
def naive(server: EmbeddedServer, namespace: str) -> Iterator[Callable[[str], NaiveQueue]]:
    made: list[NaiveQueue] = []

    def make(name: str = "naive") -> NaiveQueue:
        made.append(NaiveQueue(server.url, f"{namespace}:{name}"))
        return made[-1]

    yield make
    for queue in made:
        queue.close()


def drain_all(queue: NaiveQueue) -> list[Handled]:
    """One consumer works until the dispatch list is empty; nothing else will ever be handled."""
    rows: list[Row] = []
    queue.consume(rows.append, "late", lambda: True)
    return [Handled(*row) for row in rows]


def take_first(queue: NaiveQueue) -> NaiveMessage:
    """A consumer's steps up to the removal of the only message of group `g`."""
    assert queue.pop(0) == "g"
    assert queue.lock("g", "a")
    first = queue.head("g")
    assert first is not None
    queue.remove(first)
    return first


def test_lost_wake_up(naive: Callable[[], NaiveQueue]) -> None:
    producer, consumer = naive(), naive()
    producer.append("g", "m1", NOON_MS, {"number": 1})
    first = take_first(consumer)
    assert consumer.head("g") is None
    producer.append("g", "m2", NOON_MS + 1, {"number": 2})  # the guard is still there: nobody is told
    consumer.unguard("g")
    consumer.unlock("g")

    handled = [Handled("g", first.id, first.score, 1, 0, 1.0, 2.0), *drain_all(naive())]
    verdict = check_history([("g", "m1"), ("g", "m2")], handled)
    assert (verdict.losses, verdict.order_violations, verdict.duplicates) == (1, 0, 0)
    assert verdict.cases == ["lost: group g, id m2"]
    assert naive().head("g") == ("g", "m2", float(NOON_MS + 1), {"number": 2})  # stored, and left behind


def test_wedged_group(naive: Callable[[], NaiveQueue]) -> None:
    producer, consumer, other = naive(), naive(), naive()
    producer.append("g", "m1", NOON_MS, {"number": 1})
    take_first(consumer)
    assert consumer.head("g") is None
    consumer.unguard("g")
    producer.append("g", "m2", NOON_MS + 1, {"number": 2})  # pushed
    assert drain_all(other) == []  # popped while the lock is taken, and dropped
    consumer.unlock("g")
    producer.append("g", "m3", NOON_MS + 2, {"number": 3})  # the guard stays: no later append helps

    verdict = check_history([("g", "m2"), ("g", "m3")], drain_all(other))
    assert verdict.losses == 2


def test_ties_fall_back_to_the_order_of_ids(naive: Callable[[], NaiveQueue]) -> None:
    queue = naive()
    queue.append("g", "b", NOON_MS, {"number": 1})
    queue.append("g", "a", NOON_MS, {"number": 2})

    handled = drain_all(queue)
    assert [record.id for record in handled] == ["a", "b"]
    verdict = check_history([("g", "a"), ("g", "b")], handled)
    assert (verdict.order_violations, verdict.losses, verdict.duplicates) == (1, 0, 0)

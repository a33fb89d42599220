"""The negative control: the naive version of list, guard and lock loses and disorders, and the checker says so.

Two scripts of steps show each fault without any chance in it. A crowd of four producers and four consumers shows that
the checker sees both in a real run, and that Sequencer handles the very same messages cleanly.
"""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from benchmarks.load.history import Row
from benchmarks.load.naive import NaiveMessage, NaiveQueue
from benchmarks.load.workload import Planned, Spread, Workload
from sequencer import EmbeddedServer, Message, Sequencer
from sequencer.consume.threads import Consumer
from sequencer.testing import Handled, Verdict, check_history, wait_until

PRODUCERS = CONSUMERS = 4
ROUNDS = 20
WORKLOADS = [Workload(Spread(PRODUCERS), messages=400, producers=PRODUCERS, seed=seed) for seed in range(ROUNDS)]
WAIT_S = 30.0
ANSWER_S = 0.01
"""How long a producer waits for its answer: the naive version may never give it."""
NOON_MS = 1_700_000_000_000

MakeAppend = Callable[[], Callable[[Planned, int], object]]


@pytest.fixture
def naive(server: EmbeddedServer, namespace: str) -> Iterator[Callable[[str], NaiveQueue]]:
    """Makes parties of naive queues in the test's namespace."""
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


class Crowd:
    """Four producers and four consumers at once, in threads.

    A producer appends one to four messages, then waits for the last of them to be handled, as one does who reacts to an
    answer. So groups often become empty just when more is coming, and messages often share a millisecond.
    """

    def __init__(self, workload: Workload) -> None:
        self.workload = workload
        self.numbers = workload.numbers()
        self._answers = {message_id: threading.Event() for _, message_id in self.numbers}
        self._handled: list[Handled] = []

    def record(self, row: Row) -> None:
        """A consumer handled a message; the order of arrival is the producer's, whatever stamp the system gave."""
        self._handled.append(Handled(*row)._replace(stamp=self.numbers[row[0], row[1]]))
        self._answers[row[1]].set()

    def produce(self, index: int, append: Callable[[Planned, int], object]) -> None:
        chance = random.Random(index)
        messages = self.workload.planned(index)
        while some := list(itertools.islice(messages, chance.choice((1, 1, 1, 4)))):
            for message in some:
                append(message, int(time.time() * 1000))
            self._answers[some[-1].id].wait(ANSWER_S)

    def run(self, make_append: MakeAppend, consume: Callable[[int], object], end: Callable[[], object]) -> Verdict:
        """Run to the end, and judge; `end` tells the consumers that the producers are done."""
        with ThreadPoolExecutor(PRODUCERS + CONSUMERS) as pool:
            consuming = [pool.submit(consume, index) for index in range(CONSUMERS)]
            try:
                producing = [pool.submit(self.produce, index, make_append()) for index in range(PRODUCERS)]
                for future in producing:
                    future.result(WAIT_S)
            finally:
                end()
            for consumer in consuming:
                consumer.result(WAIT_S)
        return check_history(self.numbers, self._handled)


def run_naive(crowd: Crowd, make: Callable[[], NaiveQueue]) -> Verdict:
    ending = threading.Event()

    def make_append() -> Callable[[Planned, int], object]:
        queue = make()
        return lambda message, score: queue.append(message.group, message.id, score, message.body())

    return crowd.run(
        make_append, lambda index: make().consume(crowd.record, f"consumer-{index}", ending.is_set), ending.set
    )


def run_sequencer(crowd: Crowd, make: Callable[[], Sequencer]) -> Verdict:
    consumers: list[Consumer] = []

    def make_append() -> Callable[[Planned, int], object]:
        queue = make()
        return lambda message, score: queue.append(message.body(), [message.group], id=message.id, score=score)

    def handle(message: Message) -> None:
        now = time.monotonic()
        crowd.record((message.group[0], message.id, message.score, message.stamp, message.token, now, now))

    def end() -> None:
        wait_until(lambda: len(consumers) == CONSUMERS, what="all consumers began")
        view = make()
        wait_until(lambda: view.info().groups == 0, WAIT_S, "the queue is empty")
        for consumer in consumers:
            consumer.stop()

    return crowd.run(make_append, lambda _: make().consume(handle, on_start=consumers.append), end)


def test_a_crowd_turns_the_checker_red_for_loss_and_for_order(naive: Callable[[str], NaiveQueue]) -> None:
    losses = order_violations = 0
    for number, workload in enumerate(WORKLOADS):
        verdict = run_naive(Crowd(workload), partial(naive, f"naive{number}"))
        assert verdict.inventions == 0
        losses, order_violations = losses + verdict.losses, order_violations + verdict.order_violations
        if losses and order_violations:
            return
    pytest.fail(f"{ROUNDS} rounds of the naive version: {losses} losses, {order_violations} order violations")


def test_the_same_crowd_on_sequencer_is_clean(make: Callable[[], Sequencer]) -> None:
    verdict = run_sequencer(Crowd(WORKLOADS[0]), make)
    assert verdict.is_clean(), verdict
    assert verdict.messages == WORKLOADS[0].messages

"""Many worker slots in one process, on a real server: plain handlers in threads, coroutines on a loop."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from sequencer import InlineSteps, Message, Sequencer
from sequencer.consume import on_loop, time_limit
from sequencer.drain.slots import Slots
from sequencer.errors import StopConsuming
from sequencer.net.link import Link
from sequencer.net.wait import Waiter
from sequencer.settings.options import consumer_options
from sequencer.settings.pace import IDLE_S
from sequencer.store.keys import shard_keys
from sequencer.testing import wait_until

from ..support.background import Background

PATIENCE_S = 8.0
Make = Callable[..., Sequencer]
KINDS = pytest.mark.parametrize("kind", ["threads", "loop"])


def as_kind(kind: str, handle: Callable[[Message], Any], pause_s: float = 0.0) -> Callable[[Message], Any]:
    """The handler, in a thread or as a coroutine; it begins with a pause."""

    def plain(message: Message) -> None:
        if pause_s:
            time.sleep(pause_s)
        handle(message)

    async def coroutine(message: Message) -> None:
        await asyncio.sleep(pause_s)
        handle(message)

    return plain if kind == "threads" else coroutine


def stays(kind: str, begun: list[Message], ends: list[BaseException]) -> Callable[[Message], Any]:
    """A handler that runs until it is interrupted."""

    def plain(message: Message) -> None:
        begun.append(message)
        try:
            while True:
                time.sleep(0.001)
        except BaseException as error:
            ends.append(error)
            raise

    async def coroutine(message: Message) -> None:
        begun.append(message)
        try:
            await asyncio.sleep(60)
        except BaseException as error:
            ends.append(error)
            raise

    return plain if kind == "threads" else coroutine


class Book:
    """What handlers did: each group in order, and how many at once."""

    def __init__(self) -> None:
        self.seen: dict[Any, list[Any]] = defaultdict(list)
        self.running, self.most, self.lock = Counter[Any](), 0, threading.Lock()

    def begin(self, message: Message) -> None:
        with self.lock:
            self.running[message.group] += 1
            assert self.running[message.group] == 1, "two handlers of a group"
            self.most = max(self.most, self.running.total())

    def end(self, message: Message) -> None:
        with self.lock:
            self.running[message.group] -= 1
            self.seen[message.group].append(message.body)

    @property
    def is_in_order(self) -> bool:
        return all(numbers == sorted(set(numbers)) for numbers in self.seen.values())

    @property
    def total(self) -> int:
        return sum(map(len, self.seen.values()))


@KINDS
@pytest.mark.parametrize("shards", [1, 4])
def test_groups_run_at_once_and_each_in_order(make: Make, kind: str, shards: int) -> None:
    seq, book = make(shards=shards), Book()
    seq.append_many({"body": n, "group": n % 40, "id": str(n)} for n in range(800))

    def plain(message: Message) -> None:
        book.begin(message)
        time.sleep(0.002)
        book.end(message)

    async def coroutine(message: Message) -> None:
        book.begin(message)
        await asyncio.sleep(0.002)
        book.end(message)

    summary = seq.consume(plain if kind == "threads" else coroutine, concurrency=8, until_empty=True)
    assert (summary.reason, summary.handled, summary.failed, summary.lost) == ("drained", 800, 0, 0)
    assert (book.is_in_order, book.total, book.most) == (True, 800, 8)


@KINDS
def test_a_failure_parks_its_group_alone(make: Make, kind: str) -> None:
    seq = make(max_attempts=1)
    seq.append_many({"body": n, "group": n % 10, "id": str(n)} for n in range(30))

    def handle(message: Message) -> None:
        if message.body == 13:
            raise SystemExit("no")

    summary = seq.consume(as_kind(kind, handle), concurrency=4, until_empty=True)
    assert (summary.handled, summary.failed) == (28, 1)
    assert [(group.group, group.failure.type) for group in seq.parked() if group.failure] == [(("3",), "SystemExit")]


@KINDS
@pytest.mark.parametrize("shards", [1, 4])
def test_it_waits_for_messages_and_stops(make: Make, kind: str, shards: int) -> None:
    seq = make(shards=shards)
    seq.connect()
    delays: list[float] = []
    handler = as_kind(kind, lambda message: delays.append(time.time() - message.body))
    with Background(seq, handler, concurrency=5) as running:
        for n in range(20):
            seq.append(time.time(), group=n)
            wait_until(lambda n=n: len(delays) > n, PATIENCE_S)  # type: ignore[misc]
    assert running.summary.reason == "stopped"
    assert max(delays) < 2.0, "no hint is lost"
    assert seq.info().backlog == 0


@KINDS
def test_max_messages_counts_all_slots(make: Make, kind: str) -> None:
    seq = make(max_attempts=1)
    seq.append_many({"body": n, "group": n % 20, "id": str(n)} for n in range(200))

    def handle(message: Message) -> None:
        if message.body == 7:
            raise ValueError("no")

    handler = as_kind(kind, handle)
    one = seq.consume(handler, concurrency=8, max_messages=37)
    assert (one.reason, one.handled + one.failed) == ("recycled", 37)
    two = seq.consume(handler, concurrency=8, max_messages=500, until_empty=True)
    assert (two.reason, one.handled + two.handled + one.failed + two.failed) == ("drained", 191)


@KINDS
@pytest.mark.parametrize("concurrency", [1, 3])
def test_max_age_ends_slots_that_wait(make: Make, kind: str, concurrency: int) -> None:
    began = time.monotonic()
    assert make().consume(as_kind(kind, print), concurrency=concurrency, max_age=0.2).reason == "recycled"
    assert 0.2 <= time.monotonic() - began < IDLE_S, "not only when the wait is over"


@pytest.mark.parametrize("is_kept", [False, pytest.param(True, marks=pytest.mark.nightly, id="control")])
def test_a_hint_for_which_no_slot_is_free_wakes_another_consumer(
    make: Make, link: Link, namespace: str, monkeypatch: pytest.MonkeyPatch, is_kept: bool
) -> None:
    """The wait that is still out when the only slot gets a group pops the hint of the next one."""
    if is_kept:
        monkeypatch.setattr(Waiter, "push_back", lambda _: None)
    seq, other, may_end, lost = make("q"), make("q"), threading.Event(), 0
    seq.connect()
    dispatch = shard_keys(namespace, "q", 0).dispatch

    async def handle(message: Message) -> None:
        if message.body == "first":
            other.append("second", group="second")
            while not may_end.is_set():
                await asyncio.sleep(0.001)

    def is_waiting() -> bool:
        return bool(re.search(rb" flags=\w*b", link.command("CLIENT", "LIST", "TYPE", "normal")))

    with Background(seq, handle, concurrency=1):
        for _ in range(20):
            wait_until(lambda: seq.info().backlog == 0 and is_waiting(), PATIENCE_S)
            may_end.clear()
            seq.append("first", group="first")
            wait_until(lambda: seq.info().backlog == 2 and not is_waiting(), PATIENCE_S)
            try:
                wait_until(lambda: link.command("LLEN", dispatch) == 1, 0.5 if is_kept else PATIENCE_S)
            except AssertionError:
                lost += 1
            may_end.set()
    assert (lost > 0) == is_kept


# -- leases -----------------------------------------------------------------------------------------------------------


@KINDS
def test_leases_are_renewed_beside_handlers(make: Make, kind: str) -> None:
    seq = make()
    seq.append_many({"body": n, "group": n, "id": str(n)} for n in range(5))
    handler = as_kind(kind, lambda message: None, 1.0)
    assert seq.consume(handler, concurrency=5, until_empty=True, lease=0.3).lost == 0


def blocks(message: Message) -> None:
    """As code does that should have been awaited."""
    time.sleep(2.0)


@pytest.mark.parametrize("renews", [True, pytest.param(False, id="control")])
def test_a_blocked_loop_loses_no_lease_and_is_named(
    make: Make, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, renews: bool
) -> None:
    if not renews:
        monkeypatch.setattr(Slots, "_plan_renewal", lambda *_: None)
    monkeypatch.setattr(on_loop, "BLOCKED_S", 0.4)
    seq, thief = make(), make()
    seq.append_many({"body": n, "group": n, "id": str(n)} for n in range(50))
    stolen: list[Message] = []
    begun, is_over = set[int](), threading.Event()

    async def handle(message: Message) -> None:
        begun.add(message.body)
        while len(begun) < 50:
            await asyncio.sleep(0.001)
        if message.body == 0 and not stolen:
            blocks(message)

    def steal() -> None:
        while not is_over.is_set():
            if len(begun) == 50:
                with thief.claim(groups=100) as lease:
                    stolen.extend(lease)
            is_over.wait(0.02)

    thread = threading.Thread(target=steal)
    thread.start()
    summary = seq.consume(handle, concurrency=50, until_empty=True, lease=0.5)
    is_over.set()
    thread.join()
    if not renews:
        assert summary.lost > 0
        return
    assert (summary.handled, summary.lost, stolen) == (50, 0, [])
    told = [record for record in caplog.records if getattr(record, "event", "") == "loop blocked"]
    assert [record.is_over for record in told] == [False, True]  # type: ignore[attr-defined]
    assert re.search(r"test_concurrency\.py:\d+ in blocks$", told[0].place)  # type: ignore[attr-defined]
    assert told[1].blocked_s > 1.0  # type: ignore[attr-defined]


def test_a_handler_whose_lease_is_lost_is_cancelled(make: Make, link: Link, namespace: str) -> None:
    seq, begun, ends = make("q"), list[Message](), list[BaseException]()
    for group in "ab":
        seq.append(1, group=group)
    with Background(seq, stays("loop", begun, ends), concurrency=5, lease=0.5) as running:
        wait_until(lambda: len(begun) == 2, PATIENCE_S)
        link.command("HSET", shard_keys(namespace, "q", 0).leases, "a", "f" * 16 + "0other")
        wait_until(lambda: len(ends) == 1, PATIENCE_S)
        running.consumer.interrupt()
    assert (running.summary.lost, running.summary.failed, len(ends)) == (1, 0, 2)
    link.command("HDEL", shard_keys(namespace, "q", 0).leases, "a")


def test_a_blocked_loop_lets_what_it_has_not_begun_go(make: Make) -> None:
    seq, begun = make(), list[str]()

    async def handle(message: Message) -> None:
        begun.append(message.group[0])
        if message.body == "blocks":
            blocks(message)

    with Background(seq, handle, concurrency=5):
        seq.append("blocks", group="a")
        wait_until(lambda: begun == ["a"], PATIENCE_S)
        other = make()
        for n in range(3):
            other.append(n, group=f"b{n}")
        began, found = time.monotonic(), set[str]()
        while len(found) < 3:
            with other.claim(groups=10) as lease:
                for message in lease:
                    found.add(message.group[0])
                    lease.ack(message)
        assert time.monotonic() - began < 1.5, "long before the loop goes on"
        assert begun == ["a"]


# -- stops ------------------------------------------------------------------------------------------------------------


@KINDS
def test_a_stop_lets_handlers_end_and_releases_the_rest(make: Make, kind: str) -> None:
    seq, begun = make(), list[Message]()
    seq.append_many({"body": n, "group": n % 4, "id": str(n)} for n in range(40))
    handler = as_kind(kind, lambda message: None, 0.3)

    def noting(message: Message) -> Any:
        begun.append(message)
        return handler(message)

    async def coroutine(message: Message) -> None:
        await noting(message)

    with Background(seq, noting if kind == "threads" else coroutine, concurrency=4) as running:
        wait_until(lambda: len(begun) == 4, PATIENCE_S)
    assert running.summary.handled == len(begun) == 4
    with seq.claim(groups=10) as lease:
        assert [message.attempt for message in lease] == [1] * 4
    assert seq.info().backlog == 36


@KINDS
def test_an_interrupt_releases_messages_without_an_attempt(
    make: Make, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    seq, begun, ends = make(), list[Message](), list[BaseException]()
    seq.append_many({"body": n, "group": n, "id": str(n)} for n in range(4))
    with Background(seq, stays(kind, begun, ends), concurrency=4) as running:
        wait_until(lambda: len(begun) == 4, PATIENCE_S)
        running.consumer.interrupt()
    summary = running.summary
    assert (summary.reason, summary.handled, summary.failed, len(ends)) == ("stopped", 0, 0, 4)
    with seq.claim(groups=10) as lease:
        assert [message.attempt for message in lease] == [1] * 4
    assert [record.getMessage() for record in caplog.records].count("") == 0
    assert sum(getattr(record, "event", "") == "message released" for record in caplog.records) == 4


@KINDS
@pytest.mark.parametrize("count", [1, 2])
def test_signals_stop_what_runs_in_the_main_thread(make: Make, kind: str, count: int) -> None:
    """The first one lets handlers end, the second one does not."""
    seq, begun, ends = make(), list[Message](), list[BaseException]()
    seq.append_many({"body": n, "group": n, "id": str(n)} for n in range(4))
    slow, short = stays(kind, begun, ends), as_kind(kind, begun.append, 0.5)

    def send() -> None:
        wait_until(lambda: len(begun) == 4, PATIENCE_S)
        for number in (signal.SIGTERM, signal.SIGINT)[:count]:
            os.kill(os.getpid(), number)

    sender = threading.Thread(target=send)
    sender.start()
    summary = seq.consume(slow if count == 2 else short, concurrency=4)
    sender.join()
    assert (summary.reason, summary.handled, len(ends)) == (("stopped", 4, 0) if count == 1 else ("stopped", 0, 4))


@KINDS
def test_a_handler_that_stops_stops_all_worker_slots(make: Make, kind: str) -> None:
    seq = make()
    seq.append_many({"body": n, "group": n % 8} for n in range(80))

    def handle(message: Message) -> None:
        if message.body == 16:
            raise StopConsuming

    summary = seq.consume(as_kind(kind, handle, 0.01), concurrency=8)
    assert (summary.reason, summary.failed, summary.handled < 80) == ("stopped", 0, True)
    (message, *_) = seq.peek(0)
    assert (message.body, message.attempt) == (16, 1)


@KINDS
def test_ctrl_c_ends_a_consumer_that_hears_no_signals(make: Make, kind: str) -> None:
    seq, begun, ends = make(), list[Message](), list[BaseException]()
    seq.append(1, group="g")
    consumer = seq.consumer(stays(kind, begun, ends), consumer_options(concurrency=4))
    sender = threading.Thread(
        target=lambda: wait_until(lambda: begun, PATIENCE_S) and os.kill(os.getpid(), signal.SIGINT)  # type: ignore[func-returns-value]
    )
    sender.start()
    with pytest.raises(KeyboardInterrupt):
        consumer.run()
    sender.join()
    assert len(ends) == 1
    with seq.claim() as lease:
        assert [message.attempt for message in lease] == [1]


class Stubborn:
    """A handler that goes on whatever comes, until the test lets it end."""

    def __init__(self) -> None:
        self.begun, self.may_end = list[Message](), threading.Event()

    def plain(self, message: Message) -> None:
        self.begun.append(message)
        while not self.may_end.is_set():
            with suppress(BaseException):
                self.may_end.wait(0.02)

    async def coroutine(self, message: Message) -> None:
        self.begun.append(message)
        while not self.may_end.is_set():
            with suppress(BaseException):
                await asyncio.sleep(0.02)

    def of(self, kind: str) -> Callable[[Message], Any]:
        return self.plain if kind == "threads" else self.coroutine


@pytest.fixture
def stubborn(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stubborn]:
    monkeypatch.setattr(time_limit, "IGNORED_S", 0.3)
    one = Stubborn()
    yield one
    one.may_end.set()


def events(caplog: pytest.LogCaptureFixture, name: str) -> list[Any]:
    return [record for record in caplog.records if getattr(record, "event", "") == name]


@KINDS
def test_who_ignores_an_interrupt_is_named(
    make: Make, kind: str, stubborn: Stubborn, caplog: pytest.LogCaptureFixture
) -> None:
    seq = make()
    seq.append(1, group="g")
    with Background(seq, stubborn.of(kind), concurrency=2) as running:
        wait_until(lambda: stubborn.begun, PATIENCE_S)
        running.consumer.interrupt()
        wait_until(lambda: events(caplog, "handler slow"), PATIENCE_S)
        stubborn.may_end.set()
    (record,) = events(caplog, "handler slow")
    assert (record.group, record.is_stopping) == (["g"], True)
    assert running.summary.handled == 1


# -- time limits ------------------------------------------------------------------------------------------------------


@KINDS
def test_a_handler_that_takes_too_long_fails_alone(make: Make, kind: str) -> None:
    seq, begun, ends = make(max_attempts=1), list[Message](), list[BaseException]()
    seq.append_many({"body": n, "group": n, "id": str(n)} for n in range(10))
    slow = stays(kind, begun, ends)

    def plain(message: Message) -> None:
        if message.body == 4:
            slow(message)

    async def coroutine(message: Message) -> None:
        if message.body == 4:
            await slow(message)

    handler = plain if kind == "threads" else coroutine
    summary = seq.consume(handler, concurrency=4, until_empty=True, handler_timeout=0.2)
    assert (summary.handled, summary.failed) == (9, 1)
    (parked,) = seq.parked()
    assert parked.failure
    assert (parked.group, parked.failure.type) == (("4",), "HandlerTimeout")
    assert parked.failure.message == "it ran longer than 0.2 s, and was interrupted"
    assert f"in {'plain' if kind == 'threads' else 'coroutine'}" in parked.failure.traceback
    assert "time_limit.py" not in parked.failure.traceback, "our own frames are left out"


@KINDS
def test_who_ignores_the_end_of_its_time_is_stuck_and_its_lease_ends(
    make: Make, kind: str, stubborn: Stubborn, caplog: pytest.LogCaptureFixture
) -> None:
    seq, told = make(), list[Message]()
    seq.append(1, group="stuck")
    with Background(seq, stubborn.of(kind), concurrency=2, lease=0.6, handler_timeout=0.2) as running:
        running.consumer.on_stuck(lambda message: running.consumer.stop() or told.append(message))  # type: ignore[func-returns-value]
        wait_until(lambda: told, PATIENCE_S)
        (record,) = events(caplog, "handler stuck")
        assert (record.group, record.is_killed) == (["stuck"], True)

        def claimed() -> list[Message]:
            with seq.claim() as lease:
                return list(lease)

        (message,) = wait_until(claimed, PATIENCE_S)
        assert message.attempt == 2, "the end of its lease is an attempt"
        stubborn.may_end.set()
    assert running.summary.lost == 1


@KINDS
def test_a_message_that_hangs_according_to_the_supervisor_fails(make: Make, kind: str) -> None:
    seq, begun, ends = make(max_attempts=1), list[Message](), list[BaseException]()
    seq.append(1, group="g")
    with Background(seq, stays(kind, begun, ends), concurrency=2) as running:
        wait_until(lambda: begun, PATIENCE_S)
        running.consumer.hang()
        running.consumer.interrupt()
    assert running.summary.failed == 1
    assert [info.failure.type for info in seq.parked() if info.failure] == ["HandlerTimeout"]


# -- steps ------------------------------------------------------------------------------------------------------------


def test_steps_are_coroutines(make: Make) -> None:
    seq, ran = make(backoff=0.01), list[tuple[str, int]]()
    seq.append_many({"body": n, "group": n, "id": str(n)} for n in range(20))

    @seq.step(order=1, once=True)
    async def charge(message: Message, step: Any) -> dict[str, Any]:
        await asyncio.sleep(0.001)
        ran.append(("charge", message.body))
        return {"key": step.key}

    @seq.step(order=2, after="charge")
    def label(message: Message, step: Any) -> Any:
        ran.append(("label", message.body))
        if message.body == 3 and message.attempt == 1:
            raise ValueError("once more")
        return message.body

    summary = seq.consume(until_empty=True)
    assert (summary.handled, summary.failed) == (20, 1)
    assert Counter(ran) == Counter(
        {(name, n): 1 for name in ("charge", "label") for n in range(20)} | {("label", 3): 2}
    )


def test_a_coroutine_handler_awaits_its_steps(make: Make) -> None:
    seq, ran = make(backoff=0.01), list[tuple[Any, ...]]()
    seq.append_many({"body": n, "group": n % 5, "id": str(n)} for n in range(20))

    async def debit(number: int) -> int:
        await asyncio.sleep(0.001)
        ran.append(("debit", number))
        return number * 10

    async def handle(message: Message, steps: InlineSteps) -> None:
        payment = await steps.run("debit", debit, message.body, once=True)
        await asyncio.sleep(0.001)
        if message.body == 7 and message.attempt == 1:
            raise ValueError("once more")
        await steps.run("print", lambda number: ran.append(("print", number)), payment)

    summary = seq.consume(handle, until_empty=True, concurrency=5)
    assert (summary.handled, summary.failed) == (20, 1)
    assert Counter(ran) == Counter({(name, n * by): 1 for name, by in (("debit", 1), ("print", 10)) for n in range(20)})


def test_steps_side_by_side_are_refused(make: Make) -> None:
    seq = make(max_attempts=1)
    seq.append(1, group="g")

    async def handle(message: Message, steps: InlineSteps) -> None:
        await asyncio.gather(steps.run("a", asyncio.sleep, 0.01), steps.run("b", asyncio.sleep, 0.01))

    assert seq.consume(handle, until_empty=True).failed == 1
    assert [info.failure.type for info in seq.parked() if info.failure] == ["ConfigurationError"]


def test_an_interrupted_step_is_released_and_runs_again(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    seq, begun, ends, done = make(), list[Any](), list[BaseException](), list[str]()
    seq.append(1, group="g", id="m")
    slow = stays("loop", begun, ends)

    async def first(message: Message) -> None:
        done.append("first")

    async def handle(message: Message, steps: InlineSteps) -> None:
        await steps.run("first", first, message)
        await steps.run("slow", slow, message)

    with Background(seq, handle, concurrency=2) as running:
        wait_until(lambda: begun, PATIENCE_S)
        running.consumer.interrupt()
    assert (running.summary.failed, running.summary.handled) == (0, 0)
    assert events(caplog, "message released")[0].step == "slow"

    async def again(message: Message, steps: InlineSteps) -> None:
        await steps.run("first", first, message)
        await steps.run("slow", lambda: done.append("slow"))

    assert seq.consume(again, until_empty=True).handled == 1
    assert done == ["first", "slow"]


@pytest.mark.parametrize("seconds", [None, 0.3])
def test_a_step_on_a_loop_has_a_time_limit_of_its_own(make: Make, seconds: float | None) -> None:
    seq = make(max_attempts=1)
    seq.append(1, group="g")

    async def handle(message: Message, steps: InlineSteps) -> None:
        for name in "abc":
            await steps.run(name, asyncio.sleep, 0.2)
        if seconds:
            await steps.run("d", asyncio.sleep, 60)

    summary = seq.consume(handle, until_empty=True, handler_timeout=0.3)
    assert (summary.handled, summary.failed) == ((0, 1) if seconds else (1, 0))

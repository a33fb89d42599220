"""What runs around handlers and consumers, the current message, and events of successes, in each kind of consumer."""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import wraps
from typing import Any

import pytest

from sequencer import Event, Message, Retry, Sequencer, current_message
from sequencer.errors import ConfigurationError
from sequencer.testing import MemoryQueue
from tests.support.handling import Make

KINDS = ["single", "threads", "loop", "memory"]


class Bench:
    """A queue and one kind of consumer; handlers are written as plain functions."""

    def __init__(self, kind: str, seq: Sequencer) -> None:
        self.kind, self.seq = kind, seq
        self.options: dict[str, Any] = {"concurrency": 3} if kind in ("threads", "loop") else {}

    def of(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, as this kind of consumer calls it."""
        if self.kind != "loop":
            return function

        @wraps(function)
        async def handle(message: Message) -> Any:
            await asyncio.sleep(0)
            return function(message)

        return handle

    def consume(self, **options: Any) -> Any:
        return self.seq.consume(until_empty=True, **self.options, **options)


@pytest.fixture(params=KINDS)
def bench(request: pytest.FixtureRequest, make: Make) -> Bench:
    seq = MemoryQueue("jobs", max_attempts=2) if request.param == "memory" else make(max_attempts=2, backoff=0.01)
    return Bench(request.param, seq)


# -- around -------------------------------------------------------------------------------------------------------


def test_arounds_are_nested_in_their_order_around_each_call(bench: Bench) -> None:
    seq, seen = bench.seq, defaultdict[str, list[str]](list)

    def around(name: str) -> Callable[[Message], Iterator[None]]:
        def run(message: Message) -> Iterator[None]:
            seen[message.id].append(f"{name} begins")
            try:
                yield
            finally:
                seen[message.id].append(f"{name} ends")

        return run

    seq.around(around("outer"))
    seq.around(contextmanager(around("inner")))

    def handle(message: Message) -> None:
        seen[message.id].append("handler")
        if message.body == 1 and message.attempt == 1:
            raise ValueError("no")

    seq.handler(bench.of(handle))
    for n in range(5):
        seq.append(n, group=n, id=str(n))
    summary = bench.consume()
    once = ["outer begins", "inner begins", "handler", "inner ends", "outer ends"]
    assert (summary.handled, summary.failed) == (5, 1)
    assert seen == {"0": once, "1": once * 2, "2": once, "3": once, "4": once}


def test_what_leaves_an_around_is_what_the_message_fails_with(bench: Bench) -> None:
    seq, failures = bench.seq, list[tuple[str, str]]()

    @seq.around
    def turned(message: Message) -> Iterator[None]:
        try:
            yield
        except KeyError as error:
            raise Retry("the row is not there yet", after=0.01) from error
        except LookupError:
            return

    @seq.observe
    def observer(event: Event) -> None:
        failures.append((event.fields["id"], type(event.error).__name__))

    def handle(message: Message) -> None:
        if message.attempt == 1:
            raise {"key": KeyError, "index": IndexError, "value": ValueError}[message.id]

    seq.handler(bench.of(handle))
    for name in ("key", "index", "value"):
        seq.append(1, group=name, id=name)
    summary = bench.consume()
    assert sorted(failures) == [("key", "Retry"), ("value", "ValueError")]
    assert (summary.handled, summary.failed) == (3, 2)


def test_each_call_of_a_step_or_a_check_has_it_around(bench: Bench) -> None:
    seq, seen = bench.seq, list[str]()

    @seq.around
    def around(message: Message) -> Iterator[None]:
        seen.append("(" if current_message() == message else "no message")
        yield
        seen.append(")")

    def charge(message: Message) -> None:
        seen.append("charge")
        raise TimeoutError

    def charged(message: Message) -> str:
        seen.append("check")
        return "paid"

    def ship(message: Message) -> None:
        seen.append("ship")

    step = seq.step(once=True)(bench.of(charge))
    step.check(bench.of(charged))
    seq.step(after="charge")(bench.of(ship))
    seq.append(1, group="a")
    assert bench.consume().handled == 1
    assert "".join(seen) == "(charge(check)(ship)"


def test_a_step_that_a_test_calls_is_its_function() -> None:
    seq, seen = MemoryQueue("jobs"), list[str]()
    seq.around(lambda message: suppress(ValueError))

    @seq.step
    def one(message: Message[dict[str, int]]) -> None:
        seen.append(str(message.body))
        raise ValueError

    with suppress(ValueError):
        one(MESSAGE)
    assert seen == ["None"]
    seq.append({"n": 1}, group="a")
    assert seq.consume().handled == 1


MESSAGE: Message = Message("m", ("g",), 1.0, None, {}, 1, 1, 0.0, "q", 1)


def test_an_around_counts_for_the_time_limit(make: Make) -> None:
    seq = make(max_attempts=1)

    @seq.around
    def slow(message: Message) -> Iterator[None]:
        threading.Event().wait(20)
        yield

    seq.handler(lambda message: None)
    seq.append(1, group="a")
    assert seq.consume(until_empty=True, handler_timeout=0.1).failed == 1
    assert [group.failure.type for group in seq.parked() if group.failure] == ["HandlerTimeout"]


def test_an_asynchronous_around_and_lifespan_run_in_the_task_and_on_the_loop(make: Make) -> None:
    seq, seen = make(), list[Any]()

    @seq.lifespan
    async def life() -> AsyncIterator[None]:
        seq.state.loop = asyncio.get_running_loop()
        yield
        await asyncio.sleep(0)
        seen.append("closed")

    @seq.around
    @asynccontextmanager
    async def around(message: Message) -> AsyncIterator[None]:
        task = asyncio.current_task()
        yield
        seen.append((asyncio.current_task() is task, asyncio.get_running_loop() is seq.state.loop))

    @seq.handler
    async def handle(message: Message) -> None:
        await asyncio.sleep(0)

    seq.append(1, group="a")
    assert seq.consume(until_empty=True).handled == 1
    assert seen == [(True, True), "closed"]


async def coroutine(message: Message) -> None: ...


async def asynchronous(*given: Any) -> AsyncIterator[None]:
    yield


@pytest.mark.parametrize("what", ["around", "lifespan"])
def test_what_cannot_be_around_a_handler_is_refused(seq: Sequencer, what: str) -> None:
    register = getattr(seq, what)
    for wrong in (None, coroutine, lambda one, two: suppress(LookupError)):
        with pytest.raises(ConfigurationError):
            register(wrong)
    register(asynchronous)
    with pytest.raises(ConfigurationError):
        seq.consume(lambda message: None, until_empty=True)


# -- lifespan -----------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:a Sequencer blocks the running event loop")  # it looks, on the loop, too
def test_a_lifespan_is_around_the_whole_life_of_a_consumer(bench: Bench) -> None:
    seq, seen = bench.seq, list[Any]()

    @seq.lifespan
    def pool() -> Iterator[None]:
        seq.state.pool = "open"
        yield
        seen.append(("closed", len(seq.groups()), len(seq.groups("leased"))))

    @seq.lifespan
    @contextmanager
    def second() -> Iterator[None]:
        seen.append(seq.state.pool)
        yield
        seen.append("second closed")

    def handle(message: Message) -> None:
        seen.append((seq.state.pool, len(seq.groups("leased")) > 0))

    seq.handler(bench.of(handle))
    for n in range(3):
        seq.append(n, group="a")
    bench.consume(max_messages=2)
    once = [("open", True), ("open", True), "second closed", ("closed", 1, 0)]
    assert seen == ["open", *once], "everything was released"
    bench.consume()
    assert seen[5:8] == ["open", ("open", True), "second closed"], "each call of consume has its own"


def connect() -> None:
    raise ConnectionError("no database")


def test_what_a_lifespan_raises_ends_the_consumer(bench: Bench) -> None:
    seq, seen = bench.seq, list[str]()

    @seq.lifespan
    def first() -> Iterator[None]:
        try:
            yield
        finally:
            seen.append("closed")

    @seq.lifespan
    def second() -> Iterator[None]:
        connect()
        yield

    seq.handler(bench.of(lambda message: seen.append("handled")))
    seq.append(1, group="a")
    with pytest.raises(ConnectionError):
        bench.consume()
    assert seen == ["closed"]


# -- the current message ------------------------------------------------------------------------------------------


def test_the_current_message_is_known_below_its_handler_and_not_outside(bench: Bench) -> None:
    seq, seen, outside = bench.seq, list[tuple[str, str]](), list[Any]()
    barrier = threading.Barrier(3)

    def deep() -> str:
        found = current_message()
        assert found
        return found.id

    @seq.observe(successes=True)
    def observer(event: Event) -> None:
        outside.append(current_message())

    def handle(message: Message) -> None:
        if bench.kind == "threads":
            barrier.wait(10)  # three of them at once
        seen.append((message.id, deep()))

    seq.handler(bench.of(handle))
    for n in range(3):
        seq.append(n, group=n, id=str(n))
    bench.consume()
    outside.append(current_message())
    assert sorted(seen) == [("0", "0"), ("1", "1"), ("2", "2")]
    assert outside == [None] * 4


def test_tasks_and_threads_of_a_coroutine_know_the_message_that_began_them(make: Make) -> None:
    seq, seen, tasks = make(), list[tuple[str, str]](), list[asyncio.Task[None]]()
    late = asyncio.Event()

    async def later(own: str) -> None:
        await late.wait()
        seen.append((own, current_message().id))  # type: ignore[union-attr]

    @seq.handler
    async def handle(message: Message) -> None:
        tasks.append(asyncio.create_task(later(message.id)))
        found = await asyncio.to_thread(current_message)
        seen.append((message.id, found.id if found else ""))
        if message.id == "3":
            late.set()
            await asyncio.gather(*tasks)

    for n in range(4):
        seq.append(n, group="g", id=str(n))
    assert seq.consume(until_empty=True).handled == 4
    assert all(own == found for own, found in seen)
    assert len(seen) == 8


# -- what went well -----------------------------------------------------------------------------------------------


def test_who_asks_is_told_of_each_message_that_was_handled(bench: Bench) -> None:
    seq, well, badly = bench.seq, list[Event](), list[str]()
    seq.observe(successes=True)(well.append)
    seq.observe(lambda event: badly.append(event.name))

    def handle(message: Message) -> None:
        if message.body == 1 and message.attempt == 1:
            raise ValueError("no")

    seq.handler(bench.of(handle))
    for n in range(3):
        seq.append(n, group=n, id=str(n))
    bench.consume()
    told = sorted((one.name, one.fields["id"], one.fields["attempt"]) for one in well)
    handled = [("message handled", "0", 1), ("message handled", "1", 2), ("message handled", "2", 1)]
    assert told == [("message failed", "1", 1), *handled]
    assert all(0 <= one.fields["took_s"] < 60 for one in well if one.name == "message handled")
    assert badly == ["message failed"]


def test_steps_that_are_done_are_told(bench: Bench) -> None:
    seq, seen = bench.seq, list[tuple[Any, ...]]()

    @seq.observe(successes=True)
    def observer(event: Event) -> None:
        seen.append((event.name, event.fields.get("step"), event.fields["attempt"]))

    def two(message: Message) -> None:
        if message.attempt == 1:
            raise ValueError("no")

    seq.step(name="one")(bench.of(lambda message: None))
    seq.step(order=2)(bench.of(two))
    seq.append(1, group="a")
    bench.consume()
    assert seen == [
        *[("step done", "one", 1), ("step failed", "two", 1), ("message failed", "two", 1)],
        *[("step done", "two", 2), ("message handled", None, 2)],
    ]

"""Typical uses of the public API, which mypy --strict reads (`mypy tests/typecheck`) and nobody runs.

A use that must not pass says so by an ignore: mypy complains about one that has become needless.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, assert_type

from sequencer import (
    AsyncLease,
    AsyncSequencer,
    Batch,
    BatchReceipt,
    ConsumeSummary,
    DeadLetter,
    EmbeddedServer,
    Event,
    Explanation,
    Finding,
    GroupInfo,
    Lease,
    Message,
    MessageInfo,
    Park,
    Policy,
    QueueInfo,
    Receipt,
    Retry,
    Sequencer,
    SetAside,
    StepCall,
    current_message,
)
from sequencer.errors import BatchRefused, IdConflict, OutcomeUnknown
from sequencer.testing import Drained, MemoryQueue, assert_order, wait_until
from sequencer.values.history import MessageSteps, Skipped
from sequencer.values.views import Consumers, Gap, Page, Redriven

seq = Sequencer(
    "orders",
    "redis://localhost",
    group_by=("user_id", "order_id"),
    id_by="event_id",
    score_by="ts",
    on_failure="dead_letter",
    park_on=(KeyError, "shop.errors.Frozen"),
    dedup_window=3600,
    on_late="drop",
)
Sequencer("orders", on_failure="ignore")  # type: ignore[arg-type]  # none of the endings
Sequencer("orders", max_attempts="many")  # type: ignore[arg-type]  # a number
Sequencer("orders", max_atempts=3)  # type: ignore[call-arg]  # misspelt
Sequencer("orders", None, "shop")  # type: ignore[call-arg]  # options are named


# -- appending --------------------------------------------------------------------------------------------------


def append(client: Sequencer) -> str:
    receipt = client.append({"step": "paid"}, group=[1002, "eu"], id=7, score=datetime.now(UTC), headers={"a": "b"})
    assert_type(receipt, Receipt)
    assert_type(receipt.stamp, int | None)
    assert_type(client.append(1, 7, backlog=True).backlog, int | None)
    client.append({"step": "late"}, "a-group", delay=timedelta(minutes=5), replace=True)
    client.append({"step": "late"}, 7, at=1_900_000_000.0)
    client.append({"step": "late"}, 7, delay="soon")
    client.append({"step": "late"}, 7, "an id")  # type: ignore[call-arg]  # options are named
    return receipt.id


def append_many(client: Sequencer) -> int:
    def items() -> Iterator[dict[str, Any]]:
        yield {"body": {"n": 1}, "group": ["user", 7], "score": 1}

    try:
        done = client.append_many(items(), on_refused="skip", chunk=100)
    except BatchRefused as error:
        return error.stored
    except (IdConflict, OutcomeUnknown) as error:
        return len(error.id)
    assert_type(done, BatchReceipt)
    return done.appended + done.duplicates + sum(refused.index for refused in done.refused)


# -- consuming --------------------------------------------------------------------------------------------------


@seq.handler
def handle(message: Message) -> None:
    if message.attempt == 1:
        raise Retry(after=0.5)
    if message.body["step"] == "frozen":
        raise Park("needs a person")
    if message.late:
        raise SetAside("came too late")


@seq.handler(batch=100, timeout=5, backoff="2s")
def handle_batch(batch: Batch) -> None:
    for message in batch:
        assert_type(message, Message)
        batch.done(message)
    assert_type(batch[0], Message)
    assert_type(batch[1:], tuple[Message, ...])


@seq.handler(timeout=timedelta(seconds=5))
async def handle_awaited(message: Message) -> None: ...


seq.handler(batch=100)(handle)  # type: ignore[type-var]  # it takes a message
seq.handler(timeout=5)(handle_batch)  # type: ignore[type-var]  # it takes a batch
seq.step(timeout="5s", backoff=2)(handle)
assert_type(handle(Message("1", ("7",), 1.0, {}, {}, 1, 1, 0.0, "orders", 1)), None)


@seq.observe
def tell(event: Event) -> None:
    print(event.name, event.queue, event.fields["group"], event.error)


@dataclass
class Order:
    user_id: int


@seq.handler
def handle_order(message: Message[Order]) -> None:
    assert_type(message.body, Order)
    assert_type(message._replace(id="2"), Message[Order])
    print(message.body.user)  # type: ignore[attr-defined]  # misspelt


@seq.step
async def charge(message: Message[Order], step: StepCall) -> int:
    return message.body.user_id


@seq.around
def timed(message: Message) -> Iterator[None]:
    yield


@seq.lifespan
async def pool() -> AsyncIterator[None]:
    seq.state.pool = "open"
    yield


@seq.observe(successes=True)
def measure(event: Event) -> None:
    assert_type(current_message(), Message | None)


assert_type(handle_order(Message("1", ("7",), 1.0, Order(7), {}, 1, 1, 0.0, "orders", 1)), None)
handle_order(Message("1", ("7",), 1.0, "no order", {}, 1, 1, 0.0, "orders", 1))  # type: ignore[arg-type]


def consume(client: Sequencer) -> ConsumeSummary:
    client.consume(handle, max_messages=1000, max_age=60)
    client.consume(lambda message: message.body, on_start=lambda consumer: consumer.stop())
    client.consume(print, until_empty="yes")  # type: ignore[arg-type]  # a text is neither true nor false
    client.consume(print, leese="5m")  # type: ignore[call-arg]  # misspelt
    summary = client.consume(lease=30, until_empty=True)
    assert_type(summary.reason == "drained", bool)
    return summary


def claim(client: Sequencer) -> None:
    with client.claim(group=[7, 1]) as one:
        assert_type(one, Lease)
    with client.claim(groups=5, messages=10, lease=30.0) as lease:
        assert_type(lease, Lease)
        for message in lease:
            assert_type(message, Message)
            if lease.remaining_s < 10:
                lease.renew()
            if message.attempt > 3:
                lease.dead_letter(message, "too often")
            elif message.score < 0:
                lease.nack(message, ValueError("negative"), after=5)
            else:
                lease.ack(message)
        lease.ack("an id")  # type: ignore[arg-type]  # it takes the message


# -- on an event loop -----------------------------------------------------------------------------------------------


async def on_a_loop(client: Sequencer, awaited: AsyncSequencer) -> None:
    assert_type(client.pause(7), bool)
    coroutine: Coroutine[Any, Any, bool] = awaited.pause(7)
    assert_type(await coroutine, bool)
    awaited.pause(7)  # type: ignore[unused-coroutine]  # not awaited
    await awaited.pause(7, reason=1)  # type: ignore[call-arg]  # no such parameter
    assert_type([*client.parked()], list[GroupInfo])
    assert_type([one async for one in awaited.parked()], list[GroupInfo])
    assert_type(await awaited.append({"n": 1}, "g", delay="5m"), Receipt)
    assert_type(await awaited.append_many({"body": n, "group": "g"} async for n in numbers()), BatchReceipt)
    assert_type(await awaited.policy, Policy)
    async with await awaited.claim(groups=2) as lease:
        assert_type(lease, AsyncLease)
        async for message in lease:
            assert_type(message, Message)
            await lease.ack(message)
            lease.ack(message)  # type: ignore[unused-coroutine]
            await lease.nack(message, after="5s")
    assert_type(await awaited.consume(work, concurrency=5), ConsumeSummary)
    await awaited.consume(work, grace=5)  # type: ignore[call-arg]  # of consuming
    async with awaited.consuming(work, grace="10s", concurrency=5) as consumer:
        assert_type(consumer.error, BaseException | None)
        consumer.stop()
    with awaited.claim() as one:  # type: ignore[attr-defined]  # it is awaited
        print(one)


async def work(message: Message) -> None: ...


async def numbers() -> AsyncIterator[int]:
    yield 1


# -- looking and operating --------------------------------------------------------------------------------------


def look(client: Sequencer) -> None:
    assert_type(client.info(), QueueInfo)
    assert_type(client.groups("parked", limit=10), list[GroupInfo])
    assert_type(client.group_page("parked", after="inf,7"), Page[GroupInfo])
    assert_type(client.dead_page(error="Timeout*").items, list[DeadLetter])
    assert_type(client.consumers(), Consumers)
    client.groups("stuck")  # type: ignore[arg-type]  # no state of a group
    assert_type(client.peek(["7", "eu"]), list[Message])
    assert_type(client.explain(7), Explanation)
    assert_type(client.get(7, "an id"), MessageInfo | None)
    assert_type(client.doctor(repair=True), list[Finding])
    assert_type(next(client.history("7", since=timedelta(days=1), outcome="finished")), MessageInfo)
    assert_type(client.find("an id"), list[MessageInfo])
    assert_type(client.sweep().dead, int)
    assert_type(client.rerun("7", "an id", keep_steps=True), Receipt)
    len(client.parked())  # type: ignore[arg-type]  # it is read while it is iterated
    for group in client.parked(limit=10):
        print(group.group, group.failure and group.failure.message)


def operate(client: Sequencer) -> None:
    assert_type(client.resume([1002]), bool)
    assert_type(client.skip([1002]), Skipped | Gap)
    skipped = client.skip([1002], id="an id", dead_letter=True)
    if isinstance(skipped, Message):
        assert_type(skipped.steps, MessageSteps | None)
    assert_type(client.unskip([1002]), Message)
    assert_type(client.pause() and client.unpause([1002]), bool)
    done = client.resume_many(error="Timeout*", since=timedelta(minutes=10), on_progress=print)
    print(done.done, done.errors["TimeoutError"], client.skip_many(everything=True, discard=True, dry_run=True).chosen)
    client.cancel(7, "an id")
    client.reschedule(7, "an id", at=datetime(2030, 1, 1, tzinfo=UTC))


def dead_letters(client: Sequencer) -> int:
    for letter in client.dead(error="Timeout*"):
        assert_type(letter, DeadLetter)
        print(letter.message.id, letter.error.type, letter.attempts)
    assert_type(client.redrive([1002], rate=100), Redriven)
    return client.purge(everything=True) + client.count_dead()


def policy(client: Sequencer) -> float:
    assert_type(client.policy, Policy)
    client.policy.dedup_window = 5.0  # type: ignore[misc]  # a policy is set by making a Sequencer
    return Policy(on_gap="skip", sequence=True).gap_timeout


# -- testing ----------------------------------------------------------------------------------------------------


def test_orders() -> None:
    queue = MemoryQueue("orders", group_by=["user_id"], max_attempts=3)
    MemoryQueue("orders", max_atempts=3)  # type: ignore[call-arg]  # misspelt
    queue.handler(handle)
    queue.append({"user_id": 7}, delay=3600)
    queue.advance(60)
    done = queue.drain()
    assert_type(done, Drained)
    assert [message.body["user_id"] for message in done.handled] == [7]
    assert_order(done.handled)
    assert_type(queue.consume(), ConsumeSummary)


def on_a_server(directory: str) -> str:
    with EmbeddedServer(directory) as server, Sequencer("orders", server.url) as client:
        return wait_until(lambda: append(client), 5.0)

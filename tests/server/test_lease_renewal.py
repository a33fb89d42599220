"""Leases under a running handler: kept, lost, released; stopping; a server that goes away."""

from __future__ import annotations

import asyncio
import threading
from itertools import combinations
from typing import Any

import pytest

from sequencer import Message, Sequencer, StopConsuming
from sequencer.calls.claim import claim
from sequencer.calls.source import script_source
from sequencer.consume.stop import Stop
from sequencer.drain.held import Held
from sequencer.net.link import Link
from sequencer.settings.options import ClaimLimits, ConsumerOptions
from sequencer.store.keys import ShardKeys
from sequencer.testing import wait_until
from tests.support.handling import Make
from tests.support.proxy.fault_proxy import FaultProxy

from ..support.background import Background
from ..support.handling import ctrl_c, failed


def test_a_lease_is_renewed_while_a_handler_runs(make: Make) -> None:
    seq, release = make(), threading.Event()
    seq.append(1, group="g")
    begun = threading.Event()

    def handler(message: Message) -> None:
        begun.set()
        assert release.wait(20)

    with Background(seq, handler, lease=0.3, until_empty=True) as background:
        assert begun.wait(10)
        (first,) = seq.groups("leased")
        wait_until(lambda: _leased_for(seq) > 1.0, what="three lease times to pass")
        (later,) = seq.groups("leased")
        assert (later.token, later.attempts) == (first.token, 0)
        release.set()
        background.thread.join(10)
    assert (background.summary.handled, background.summary.lost) == (1, 0)


def _leased_for(seq: Sequencer) -> float:
    return max((info.leased_for_s or 0.0 for info in seq.groups("leased")), default=0.0)


def test_what_was_finished_is_acknowledged_while_the_next_handler_runs(seq: Sequencer) -> None:
    release, begun = threading.Event(), threading.Event()
    for n in range(60):
        seq.append(n, group="g", score=n)
    seq.append("other", group="h", score=0)

    def handler(message: Message) -> None:
        if message.body == 50:
            begun.set()
            assert release.wait(20)

    with Background(seq, handler, until_empty=True) as background:
        assert begun.wait(10)
        wait_until(lambda: seq.info().totals["handled"] >= 50, what="the finished messages to be acknowledged")
        assert seq.peek("g", limit=1)[0].body == 50
        release.set()
        background.thread.join(10)


def test_groups_not_begun_are_given_back_when_a_handler_is_slow(make: Make) -> None:
    slow, release, begun = make(), threading.Event(), threading.Event()
    for n in range(200):
        slow.append("quick", group=n)
    slow.append("slow", group="s")
    slow.append_many({"body": "after", "group": f"x{n}"} for n in range(100))

    def handler(message: Message) -> None:
        if message.body == "slow":
            begun.set()
            assert release.wait(20)

    with Background(slow, handler):
        assert begun.wait(10)
        helped = make().consume(lambda message: None, max_messages=100)
        assert helped.handled == 100, "the other consumer got all that the slow one had not begun"
        release.set()


def test_a_handler_may_stop_its_consumer_and_the_message_counts_as_not_begun(seq: Sequencer) -> None:
    for n in range(3):
        seq.append(n, group="g", score=n)

    def handler(message: Message) -> None:
        if message.body == 1:
            raise StopConsuming

    summary = seq.consume(handler)
    assert (summary.reason, summary.handled, summary.failed) == ("stopped", 1, 0)
    (info,) = seq.groups()
    assert (info.state, info.attempts, info.backlog) == ("due", 0, 2)


def test_ctrl_c_in_a_handler_of_a_program_that_hears_it_by_itself_releases_everything(seq: Sequencer) -> None:
    seq.append(1, group="g")
    with pytest.raises(KeyboardInterrupt):
        seq.consume(lambda message: ctrl_c())
    assert [info.state for info in seq.groups()] == ["due"]


def test_a_lost_reply_costs_a_lease_and_nothing_else(make: Make, proxy: FaultProxy) -> None:
    producer, seq = make(), make(redis=proxy.url)
    producer.append_many({"body": n, "group": n % 5, "score": n} for n in range(50))
    seen: list[int] = []

    def handler(message: Message) -> None:
        seen.append(message.body)
        if len(seen) == 20:
            proxy.add("reply lost", times=None)

    with Background(seq, handler, lease=0.3, until_empty=True) as background:
        wait_until(lambda: proxy.effects["reply lost"] >= 2, what="replies to be lost")
        proxy.clear()
        background.thread.join(20)
    assert set(seen) == set(range(50))
    for group in range(5):
        first = [n for i, n in enumerate(seen) if n % 5 == group and n not in seen[:i]]
        assert first == sorted(first)


@pytest.mark.parametrize("cached", [subset for n in range(3) for subset in combinations(("ack", "nack"), n)])
def test_a_failure_ends_no_lease_that_an_acknowledgement_needs_whatever_scripts_the_server_knows(
    seq: Sequencer, link: Link, keys: ShardKeys, cached: tuple[str, ...]
) -> None:
    """A nack that comes before its ack, whose script was lost, is refused, and both are told again."""
    for n in range(3):
        seq.append(n, group="g", score=n)
    held = Held([keys], lease_s=30)
    held.take(0, link.run_one(claim(keys, "jobs", "me", 30, ClaimLimits())).groups, 0, 0)
    group = held.groups[0]
    held.finish(group, 0, 0)
    held.fail(group, failed(group))
    sending = held.outgoing()
    assert sending is not None
    link.command("SCRIPT", "FLUSH")
    for name in cached:
        link.command("SCRIPT", "LOAD", script_source(name))
    held.answered(sending, link.run(sending.calls), 0)
    if repeated := held.outgoing():
        held.answered(repeated, link.run(repeated.calls), 0)
    assert held.lost == 0
    assert [message.body for message in seq.peek("g")] == [1, 2]
    assert [info.state for info in seq.groups()] == ["parked"]


class BrokenText(Exception):
    """Can't say what it is."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    "error",
    [SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError(), GeneratorExit(), BrokenText(), BaseException("x")],
)
def test_whatever_ends_a_handler_is_its_failure(make: Make, error: BaseException) -> None:
    seq = make(max_attempts=2, backoff=0.01)
    seq.append(1, group="bad")
    seq.append(2, group="good")

    def handler(message: Message) -> None:
        if message.body == 1:
            raise error

    summary = seq.consume(handler, until_empty=True)
    assert (summary.handled, summary.failed) == (1, 2)
    (parked,) = seq.parked()
    assert parked.failure is not None
    assert parked.failure.type == type(error).__name__


def test_stage_2_just_before_a_handler_begins_is_not_lost(seq: Sequencer) -> None:
    begun: list[Any] = []
    seq.append("x", group="g", id="1")
    consumer = seq.consumer(begun.append, ConsumerOptions())
    consumer.on_first = consumer.interrupt  # in a signal handler, where the drain has asked for the handler already
    summary = consumer.run()
    assert (summary.reason, summary.handled, summary.failed) == ("stopped", 0, 0)
    assert begun == []
    (message,) = seq.peek(["g"])
    assert message.attempt == 1, "released uncounted"


def test_a_stage_does_not_go_back() -> None:
    """A signal that means stage 1 may be noted by one thread while another notes stage 2."""
    stop = Stop()
    stop.request(2)
    stop.request(1)
    assert stop.stage == 2

    class Late(int):
        def __gt__(self, other: object) -> bool:  # the other thread comes just then
            raced.request(2)
            return isinstance(other, int) and int(self) > int(other)

        __lt__ = __le__ = __ge__ = __gt__

    raced = Stop()
    raced.request(Late(1))
    assert raced.stage == 2

"""Consuming in this process on a real server: order, failures, leases, stopping."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from sequencer import (
    ConfigurationError,
    GroupBusy,
    GroupNotFound,
    HandlerNotFound,
    Message,
    NotParked,
    Park,
    Retry,
    Sequencer,
    StopConsuming,
)
from sequencer.consumer import Consumer
from sequencer.keys import lane_keys
from sequencer.options import ClaimLimits
from sequencer.scripts import Link
from sequencer.testing import wait_until

from .proxy import LossyProxy


class Background:
    """A consumer in a thread of its own, stopped and joined at the end."""

    def __init__(self, seq: Sequencer, handler: Callable[[Message], Any], **options: Any) -> None:
        started = threading.Event()
        self.consumer: Consumer
        self.summary: Any = None

        def on_start(consumer: Consumer) -> None:
            self.consumer = consumer
            started.set()

        def run() -> None:
            self.summary = seq.consume(handler, on_start=on_start, **options)

        self.thread = threading.Thread(target=run)
        self.thread.start()
        assert started.wait(10)

    def __enter__(self) -> Background:
        return self

    def __exit__(self, *_: object) -> None:
        self.consumer.stop()
        self.thread.join(10)
        assert not self.thread.is_alive()


def test_each_group_is_handled_in_order_of_score_then_arrival(seq: Sequencer) -> None:
    for n in range(300):
        seq.append(n, group=n % 3, score=(n * 7919) % 50)
    seen: dict[tuple[str, ...], list[tuple[float, int]]] = {}
    summary = seq.consume(lambda m: seen.setdefault(m.group, []).append((m.score, m.stamp)), until_empty=True)
    assert (summary.reason, summary.handled, summary.failed, summary.lost) == ("drained", 300, 0, 0)
    assert len(seen) == 3
    assert all(keys == sorted(keys) for keys in seen.values())
    assert seq.info().groups == 0


def test_the_registered_handler_is_run(seq: Sequencer) -> None:
    seen: list[Any] = []

    @seq.handler
    def handle(message: Message) -> None:
        seen.append(message.body)

    seq.append("a", group="g")
    assert seq.consume(until_empty=True).handled == 1
    assert seen == ["a"]


def test_without_a_usable_handler_nothing_is_consumed(seq: Sequencer) -> None:
    async def coroutine(message: Message) -> None: ...

    with pytest.raises(HandlerNotFound, match="no handler"):
        seq.consume(until_empty=True)
    with pytest.raises(HandlerNotFound, match="not callable"):
        seq.consume("x", until_empty=True)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="coroutine"):
        seq.handler(coroutine)


def test_a_failed_head_holds_its_group_back_and_no_other(seq: Sequencer) -> None:
    for n in range(4):
        seq.append(n, group="a", score=n)
        seq.append(n, group="b", score=n)
    seen: list[tuple[str, int, int]] = []

    def handler(message: Message) -> None:
        seen.append((message.group[0], message.body, message.attempt))
        if message.group == ("a",) and message.body == 1 and message.attempt < 3:
            raise ValueError("not yet")

    summary = seq.consume(handler, until_empty=True)
    assert (summary.handled, summary.failed) == (8, 2)
    assert [s[1:] for s in seen if s[0] == "a"] == [(0, 1), (1, 1), (1, 2), (1, 3), (2, 1), (3, 1)]
    assert [s[1:] for s in seen if s[0] == "b"] == [(0, 1), (1, 1), (2, 1), (3, 1)]


def test_after_its_last_attempt_a_group_is_parked_and_can_be_resumed(
    make: Callable[..., Sequencer],
) -> None:
    seq = make(max_attempts=2, backoff=0.01)
    for n in range(3):
        seq.append(n, group=["a", 1], score=n, id=f"m{n}")

    def fail(message: Message) -> None:
        raise KeyError(f"secret-free {message.body}")

    assert seq.consume(fail, until_empty=True).failed == 2
    (parked,) = seq.parked()
    assert (parked.group, parked.state, parked.backlog, parked.head_id) == (("a", "1"), "parked", 3, "m0")
    failure = parked.failure
    assert failure is not None
    assert (failure.id, failure.type, failure.attempt) == ("m0", "KeyError", 2)
    assert "secret-free 0" in failure.message
    assert "in fail" in failure.traceback
    assert "consumer.py" not in failure.traceback, "our own frames are left out"
    assert seq.consume(fail, until_empty=True).failed == 0, "parked: nothing to do"
    assert seq.resume(["a", 1]) is True
    assert seq.resume(["a", 1]) is False, "due already"
    seen: list[tuple[int, int]] = []
    seq.consume(lambda m: seen.append((m.body, m.attempt)), until_empty=True)
    assert seen == [(0, 1), (1, 1), (2, 1)], "resumed with fresh attempts"


def test_skip_removes_the_failed_head_and_hands_it_over(make: Callable[..., Sequencer]) -> None:
    seq = make(max_attempts=1)
    for n in (5, 6):
        seq.append({"n": n}, group="a", score=n, headers={"h": "v"})

    def fail(message: Message) -> None:
        raise ValueError("no")

    seq.consume(fail, until_empty=True)
    seq.append({"n": 1}, group="a", score=1)
    removed = seq.skip("a")
    assert (removed.body, removed.headers, removed.score) == ({"n": 5}, {"h": "v"}, 5.0), (
        "the failed one, not the new head"
    )
    seen: list[int] = []
    seq.consume(lambda m: seen.append(m.body["n"]), until_empty=True)
    assert seen == [1, 6]


def test_resume_and_skip_say_why_not(seq: Sequencer) -> None:
    with pytest.raises(GroupNotFound, match="'nobody'"):
        seq.resume("nobody")
    with pytest.raises(GroupNotFound):
        seq.skip("nobody")
    seq.append(1, group="g")
    with pytest.raises(NotParked, match="no failed head"):
        seq.skip("g")
    with seq.claim() as lease:
        assert lease
        with pytest.raises(GroupBusy):
            seq.resume("g")


def test_a_handler_may_ask_for_a_retry_or_a_park(seq: Sequencer) -> None:
    seq.append("retry", group="a")
    seq.append("park", group="b")
    attempts: list[int] = []

    def handler(message: Message) -> None:
        if message.body == "park":
            raise Park("needs a person")
        attempts.append(message.attempt)
        if message.attempt == 1:
            raise Retry(after=0.05)

    assert seq.consume(handler, until_empty=True).failed == 2
    assert attempts == [1, 2]
    (parked,) = seq.parked()
    assert parked.failure is not None
    assert (parked.failure.type, parked.failure.message) == ("Park", "needs a person")


def test_a_body_that_can_not_be_decoded_parks_its_group_and_is_kept(seq: Sequencer, link: Link, namespace: str) -> None:
    keys = lane_keys(namespace, "jobs", 0)
    for n in range(3):
        seq.append(n, group="g", id=f"m{n}", score=n)
    record = link.command("HGET", keys.body("g"), "m1")
    link.command("HSET", keys.body("g"), "m1", record[:20] + b"\xffnot json")
    seen: list[int] = []
    assert seq.consume(lambda m: seen.append(m.body), until_empty=True).failed == 1
    assert seen == [0]
    (parked,) = seq.parked()
    assert parked.failure is not None
    assert (parked.failure.type, parked.failure.id) == ("Undecodable", "m1")
    assert [message.body for message in seq.peek("g")] == ["\\xffnot json", 2]
    assert seq.skip("g").body == "\\xffnot json"
    seq.consume(lambda m: seen.append(m.body), until_empty=True)
    assert seen == [0, 2]


def test_a_group_of_a_wrong_type_is_parked_and_others_go_on(seq: Sequencer, link: Link, namespace: str) -> None:
    keys = lane_keys(namespace, "jobs", 0)
    seq.append(1, group="bad")
    seq.append(2, group="good")
    saved = link.command("DUMP", keys.order("bad"))
    link.command("SET", keys.order("bad"), "foreign")
    seen: list[int] = []
    seq.consume(lambda m: seen.append(m.body), until_empty=True)
    assert seen == [2]
    assert link.command("ZSCORE", keys.schedule, "bad") == b"inf"
    link.command("RESTORE", keys.order("bad"), 0, saved, "REPLACE")
    (parked,) = seq.parked()
    assert parked.failure is not None
    assert parked.failure.type == "Broken"
    assert seq.resume("bad")
    seq.consume(lambda m: seen.append(m.body), until_empty=True)
    assert seen == [2, 1]


def test_a_lease_is_renewed_while_a_handler_runs(make: Callable[..., Sequencer]) -> None:
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


def test_groups_not_begun_are_given_back_when_a_handler_is_slow(make: Callable[..., Sequencer]) -> None:
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


def test_a_consumer_that_lost_its_lease_does_not_acknowledge(
    make: Callable[..., Sequencer], link: Link, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    seq, keys = make(), lane_keys(namespace, "jobs", 0)
    seq.append(1, group="g", id="x")
    release, begun = threading.Event(), threading.Event()

    def handler(message: Message) -> None:
        begun.set()
        assert release.wait(20)

    with Background(seq, handler, max_messages=1) as background:
        assert begun.wait(10)
        # As if this process had been paused past its lease: the group is due, and another consumer takes it.
        link.command("ZADD", keys.schedule, "XX", "1", "g")
        with make().claim(lease=30) as lease:
            (message,) = lease
            assert message.attempt == 2
            release.set()
            background.thread.join(10)
            assert background.summary.lost == 1
            assert "lease lost" in caplog.text
            assert [m.id for m in seq.peek("g")] == ["x"], "still there: only the new lease may acknowledge"
            lease.ack(message)
    assert seq.peek("g") == []


def test_a_message_at_which_consumers_die_is_parked(make: Callable[..., Sequencer], link: Link, namespace: str) -> None:
    seq, keys = make(max_attempts=3), lane_keys(namespace, "jobs", 0)
    for group in ("innocent", "poison"):
        seq.append(1, group=group)
    for _ in range(3):
        seq.claim(groups=2, lease=30)  # ... and the process is gone
        for group in seq.groups("leased"):
            link.command("ZADD", keys.schedule, "XX", "1", group.group[0])
    seen: list[tuple[str, int]] = []
    seq.consume(lambda m: seen.append((m.group[0], m.attempt)), until_empty=True)
    parked = {info.group[0]: info for info in seq.parked()}
    assert len(parked) + len(seen) == 2
    for info in parked.values():
        assert info.failure is not None
        assert info.failure.type == "LeaseExpired"
    assert all(attempt <= 3 for _, attempt in seen)


def test_an_expired_group_is_claimed_alone(make: Callable[..., Sequencer], link: Link, namespace: str) -> None:
    """So that a message that kills its consumer takes no neighbours with it."""
    seq, keys = make(), lane_keys(namespace, "jobs", 0)
    for n in range(5):
        seq.append(n, group=n)
        seq.append(n, group=n)
    first = seq.claim(groups=5, lease=30)
    assert len(first) == 10
    for n in range(5):
        link.command("ZADD", keys.schedule, "XX", str(n + 1), str(n))
    for _ in range(5):
        lease = seq.claim(groups=5, lease=30)
        (message,) = lease
        assert message.attempt == 2
        lease.ack(message)
        lease.release()
    with seq.claim(groups=5) as lease:
        assert [message.attempt for message in lease] == [1] * 5


def test_stop_finishes_the_message_in_hand_and_releases_the_rest(make: Callable[..., Sequencer]) -> None:
    seq, begun, release = make(), threading.Event(), threading.Event()
    for n in range(10):
        seq.append(n, group="g", score=n)

    def handler(message: Message) -> None:
        begun.set()
        assert release.wait(20)

    with Background(seq, handler) as background:
        assert begun.wait(10)
        background.consumer.stop()
        release.set()
        background.thread.join(10)
    assert (background.summary.reason, background.summary.handled) == ("stopped", 1)
    (info,) = seq.groups()
    assert (info.state, info.backlog, info.attempts) == ("due", 9, 0)


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


def test_a_keyboard_interrupt_out_of_a_handler_releases_everything(seq: Sequencer) -> None:
    seq.append(1, group="g")

    def handler(message: Message) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        seq.consume(handler)
    assert [info.state for info in seq.groups()] == ["due"]


def test_a_consumer_ends_after_so_many_messages_or_seconds(seq: Sequencer) -> None:
    for n in range(100):
        seq.append(n, group=n % 9)
    summary = seq.consume(lambda message: None, max_messages=40)
    assert (summary.reason, summary.handled) == ("recycled", 40)
    assert seq.info().backlog == 60
    assert seq.consume(lambda message: None, max_age=0.1).reason == "recycled"


def test_until_empty_waits_for_groups_that_others_hold(make: Callable[..., Sequencer]) -> None:
    seq = make()
    seq.append(1, group="g")
    lease = seq.claim(lease=30)
    seen: list[int] = []
    with Background(seq, lambda m: seen.append(m.body), until_empty=True) as background:
        assert background.thread.is_alive()
        lease.release()
        background.thread.join(10)
    assert seen == [1]


def test_a_message_that_arrives_while_idle_is_handled(make: Callable[..., Sequencer]) -> None:
    seq, seen = make(), []
    with Background(seq, lambda m: seen.append(m.body)):
        for n in range(5):
            seq.append(n, group="g")
            wait_until(lambda n=n: seen == list(range(n + 1)), what=f"message {n}")


def test_a_late_message_goes_before_those_that_wait(make: Callable[..., Sequencer]) -> None:
    seq = make(max_attempts=1)
    seq.append("b", group="g", score=2)
    with seq.claim() as lease:
        (message,) = lease
        seq.append("a", group="g", score=1)
        lease.ack(message)
    assert [message.body for message in seq.peek("g")] == ["a"]


def test_a_large_backlog_of_large_bodies_is_claimed_within_its_bytes(seq: Sequencer) -> None:
    seq.append_many({"body": "x" * 100_000, "group": n % 2, "score": n} for n in range(40))
    with seq.claim(groups=10, messages=1000) as lease:
        assert 1 <= len(lease) <= 11, "about 1 MiB"
    assert seq.consume(lambda message: None, until_empty=True).handled == 40


def test_one_message_beyond_the_bytes_of_a_claim_still_fits(seq: Sequencer) -> None:
    seq.append("x" * 5000, group="a")
    seq.append("x" * 5000, group="b")
    assert seq.consume(lambda m: None, limits=ClaimLimits(10, 10, 100), until_empty=True).handled == 2


def test_a_lost_reply_costs_a_lease_and_nothing_else(make: Callable[..., Sequencer], proxy: LossyProxy) -> None:
    producer, seq = make(), make(redis=proxy.url)
    producer.append_many({"body": n, "group": n % 5, "score": n} for n in range(50))
    seen: list[int] = []

    def handler(message: Message) -> None:
        seen.append(message.body)
        if len(seen) == 20:
            proxy.losing = True

    with Background(seq, handler, lease=0.3, until_empty=True) as background:
        wait_until(lambda: proxy.lost >= 2, what="replies to be lost")
        proxy.losing = False
        background.thread.join(20)
    assert set(seen) == set(range(50))
    for group in range(5):
        first = [n for i, n in enumerate(seen) if n % 5 == group and n not in seen[:i]]
        assert first == sorted(first)

"""Delays and timers: not before their time, in their order, once each, also when nothing ran; cancelled and moved."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
import redis

from sequencer import EmbeddedServer, Message, Sequencer
from sequencer.errors import IdConflict, InvalidMessage, InvalidScore, InvalidTime, MessageBusy, MessageNotFound
from sequencer.net.link import Link
from sequencer.store.keys import ShardKeys
from sequencer.testing import wait_until
from tests.support.handling import Make, drain, got

from ..support.background import Background


def changes(seq: Sequencer, id: str) -> list[Callable[[], object]]:
    return [partial(seq.cancel, "g", id), partial(seq.reschedule, "g", id, delay=1)]


def note_lateness(late: list[float], message: Message) -> None:
    if message.body == "later":  # its time is its score, by the clock of the same machine
        late.append(time.time() - message.score)


def test_a_delayed_message_is_not_handled_before_its_time(make: Make) -> None:
    seq = make()
    for option in ("delay", "timedelta", "at"):
        ways: dict[str, dict[str, Any]] = {
            "delay": {"delay": 0.3},
            "timedelta": {"delay": timedelta(seconds=0.3)},
            "at": {"at": time.time() + 0.3},
        }
        seq.append("later", group="t", **ways[option])
        seq.append("now", group="n")
        with seq.claim(groups=5) as lease:
            assert [message.body for message in lease] == ["now"]
        late: list[float] = []
        seq.consume(partial(note_lateness, late), until_empty=True)
        assert len(late) == 1
        assert late[0] >= -0.001
    at = datetime.now(UTC) - timedelta(hours=1)
    seq.append("past", group="t", at=at)
    (message,) = seq.peek("t")
    assert message.score == pytest.approx(at.timestamp(), abs=1e-6), "its time is its score"
    assert drain(seq) == ["past"]


def test_within_a_group_the_head_holds_back_and_an_earlier_time_goes_first(seq: Sequencer) -> None:
    for name, delay in (("third", 1.4), ("first", 1.0), ("second", 1.2)):
        seq.append(name, group="g", delay=delay)
    seq.append("behind", group="g", score=time.time() + 100)
    seq.append("before", group="g", score=1)
    assert seq.explain("g").reason == "due"
    with seq.claim() as lease:
        for message in lease:
            assert message.body == "before"
            lease.ack(message)
    explained = seq.explain("g")
    assert (explained.reason, explained.backlog) == ("delayed", 4)
    assert explained.moves_in_s is not None
    assert 0 < explained.moves_in_s <= 1.0
    seq.append("due first", group="g", delay=0.05)
    assert drain(seq) == ["due first", "first", "second", "third", "behind"]


def test_a_delayed_head_with_a_score_of_its_own_holds_those_behind_it(seq: Sequencer) -> None:
    seq.append("head", group="g", score=1, delay=0.3)
    seq.append("ready", group="g", score=2)
    assert not seq.claim()
    assert drain(seq) == ["head", "ready"]


def test_timers_fire_on_time_and_once_while_consumers_wait(make: Make) -> None:
    seq = make(shards=2)
    fired: list[Message] = []
    with Background(seq, fired.append), Background(make(), fired.append):
        for n in range(40):
            seq.append(n, group=["timer", n], delay=0.2 + n * 0.02, id="t")
        wait_until(lambda: len(fired) == 40)
    assert sorted(message.body for message in fired) == list(range(40))
    # Groups have no order among one another: a consumer that got no processor for a while lets the other go before it.
    assert max(abs(place - message.body) for place, message in enumerate(fired)) <= 10


def test_timers_that_came_due_while_nobody_ran_all_fire(make: Make) -> None:
    """Timers made of key-expiry events lose exactly those, as `python -m benchmarks timers` shows."""
    seq = make()
    for n in range(20):
        seq.append(n, group=["timer", n], delay=0.05)
    wait_until(lambda: seq.info().due == 20, what="the timers to come due")
    assert sorted(drain(seq)) == list(range(20))
    assert drain(seq) == []


def test_a_timer_is_set_again(make: Make) -> None:
    seq = make()
    seq.append("old", group="g", id="t", delay=0.2)
    with pytest.raises(IdConflict):
        seq.append("new", group="g", id="t", delay=0.2)
    assert seq.append("old", group="g", id="t", delay=5).duplicate, "a repeat, whatever the clock says meanwhile"
    at = time.time() + 0.5
    with pytest.raises(IdConflict):
        seq.append("old", group="g", id="t", at=at)
    seq.append("new", group="g", id="t", at=at, replace=True)
    assert seq.append("new", group="g", id="t", at=at).duplicate
    found = got(seq, "g", "t")
    assert found.state == "delayed"
    assert found.due_in_s is not None
    assert found.due_in_s > 0.3
    assert drain(seq) == ["new"]
    seq.append("again", group="g", id="t", delay=0, replace=True)
    assert drain(seq) == ["again"], "after it fired too, though its id is known"


def test_a_timer_set_again_while_it_fires_fires_again(make: Make) -> None:
    seq = make()
    for outcome in ("ack", "fail", "park"):
        seq.append("first", group="g", id=f"t {outcome}")
        seq.append("behind", group="g", score=9e9, id=f"b {outcome}")
        with seq.claim() as lease:
            message = next(iter(lease))
            seq.append("second", group="g", id=f"t {outcome}", delay=0.05, replace=True)
            if outcome == "ack":
                lease.ack(message)
            elif outcome == "fail":
                lease.nack(message, "failed")
            else:
                lease.park(message, "parked")
        assert [m.body for m in seq.peek("g")] == ["second", "behind"]
        assert drain(seq) == ["second", "behind"], "what became of the first one does not touch the second"
    assert seq.info().totals["overtaken"] == 2


def test_a_parked_timer_that_is_set_again_lets_its_group_go_on(make: Make) -> None:
    seq = make(max_attempts=1)
    for way in ("replace", "reschedule", "cancel"):
        seq.append("bad", group="g", id=f"t {way}")
        seq.append("behind", group="g", id=f"b {way}", score=9e9)

        def fail(_: Message) -> None:
            raise ValueError

        seq.consume(fail, until_empty=True)
        assert [info.state for info in seq.groups()] == ["parked"]
        if way == "replace":
            seq.append("good", group="g", id=f"t {way}", replace=True)
        elif way == "reschedule":
            seq.reschedule("g", f"t {way}", delay=0)
        else:
            seq.cancel("g", f"t {way}")
        assert drain(seq) == {"replace": ["good"], "reschedule": ["bad"], "cancel": []}[way] + ["behind"]


def test_reschedule_moves_a_message_and_cancel_removes_it(seq: Sequencer) -> None:
    seq.append("a", group="g", id="a", delay=50)
    seq.append("b", group="g", id="b", delay=60)
    seq.append("c", group="g", id="c", score=5, delay=70)
    assert [message.id for message in seq.peek("g")] == ["c", "a", "b"]
    seq.reschedule("g", "b", delay=0.05)
    seq.reschedule("g", "c", delay=40)
    assert [message.id for message in seq.peek("g")] == ["c", "b", "a"], "the time of b is its score; c has its own"
    seq.reschedule("g", "c", delay=80, score=9e9)
    assert [message.id for message in seq.peek("g")] == ["b", "a", "c"]
    found = got(seq, "g", "c")
    assert found.due_in_s == pytest.approx(80, abs=5)
    seq.cancel("g", "a")
    seq.reschedule("g", "c", delay=0.1)
    assert drain(seq) == ["b", "c"]
    assert seq.info().totals["cancelled"] == 1
    assert seq.get("g", "a") is None, "a cancelled id is free"


def test_what_a_consumer_may_have_in_hand_stays_as_it_is(seq: Sequencer) -> None:
    seq.append("held", group="g", id="held", score=1)
    with seq.claim():
        for change in changes(seq, "held"):
            with pytest.raises(MessageBusy):
                change()
        seq.append("new", group="g", id="new", score=2)
        seq.append("delayed", group="g", id="delayed", delay=30)
        seq.reschedule("g", "delayed", delay=0)
        seq.cancel("g", "new")
        states = [found.state for name in ("held", "delayed") if (found := seq.get("g", name))]
        assert states == ["leased", "behind"]
    assert drain(seq) == ["held", "delayed"]


WRONG_DELAYS: list[Any] = [-1, float("nan"), "1x", True]
WRONG_TIMES: list[Any] = [datetime(2030, 1, 1), -5, 1e18]
WRONG = [{"delay": one} for one in WRONG_DELAYS] + [{"at": one} for one in WRONG_TIMES] + [{"at": 1, "delay": 1}]


@pytest.mark.parametrize("options", WRONG)
def test_times_that_can_not_be_are_refused(seq: Sequencer, link: Link, keys: ShardKeys, options: Any) -> None:
    with pytest.raises(InvalidTime):
        seq.append(1, group="g", **options)
    with pytest.raises(InvalidMessage):
        seq.reschedule("g", "x", **options)
    assert link.command("KEYS", keys.prefix + "*") in ([], [b"policy"])
    with pytest.raises(InvalidTime):
        seq.reschedule("g", "x")
    for change in changes(seq, "x"):
        with pytest.raises(MessageNotFound):
            change()


@pytest.mark.parametrize("way", ["append", "append_many", "pipeline"])
@pytest.mark.parametrize("per_second", [1, 1_000, 1_000_000])
def test_in_a_queue_with_score_by_a_timer_is_scored_by_its_time(
    make: Make, server: EmbeddedServer, per_second: int, way: str
) -> None:
    """Its body's older timestamp would hold back what comes meanwhile, and so would a time in another unit."""
    seq, other = make(group_by="o", id_by="id", score_by="ts"), make()
    now = time.time()
    seq.append({"o": 1, "id": "placed", "ts": now * per_second})
    old, without = {"o": 1, "id": "old", "ts": (now + 0.001) * per_second}, {"o": 1, "id": "without"}
    if way == "append_many":
        other.append_many([{"group": 1, "body": old, "at": now + 50}, {"group": 1, "body": without, "delay": 60}])
    elif way == "append":
        other.append(without, delay=60)  # of the unit only the server knows
        other.append(old, at=now + 50)
    else:
        with redis.Redis.from_url(server.url) as client, client.pipeline() as pipeline:
            other.append(without, delay=60, pipeline=pipeline)
            other.append(old, at=now + 50, pipeline=pipeline)
            pipeline.execute()
    seq.append({"o": 1, "id": "paid", "ts": (now + 1) * per_second})
    messages = seq.peek([1])
    assert [message.id for message in messages] == ["placed", "paid", "old", "without"]
    assert messages[2].score == pytest.approx((now + 50) * per_second, abs=1e-5 * per_second)
    seq.reschedule([1], "old", at=now + 70)
    assert seq.peek([1])[-1].score == pytest.approx((now + 70) * per_second, abs=1e-5 * per_second)


def test_where_score_by_names_no_time_a_timer_needs_a_score(make: Make) -> None:
    seq = make(group_by="o", score_by="n")
    seq.append({"o": 1, "n": 1})
    for body in ({"o": 1, "n": 2}, {"o": 1}):
        with pytest.raises(InvalidScore):
            seq.append(body, delay=60)
        assert seq.append(body, delay=60, score=2).stamp

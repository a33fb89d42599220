"""What people see of a queue: info, groups, peek, parked; and the check of invariants that tests rely on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from sequencer import Retry, Sequencer, StopConsuming
from sequencer.client import list_queues
from sequencer.errors import GroupNotFound
from tests.support.handling import Make, drain, got


def prepare(seq: Sequencer) -> None:
    """One group in each state, in a queue whose clients park at the first failure."""
    seq.append(1, group=["p", 1], id="bad", score=1)
    seq.append(1, group="w", score=1)

    def fail(message: Any) -> None:
        if message.group == ("w",):
            raise Retry(after=60)
        raise ValueError("no")

    seq.consume(fail, max_messages=2)
    for n in range(3):
        seq.append(n, group=["p", 1], score=n + 5)
        seq.append(n, group="d", score=n)


def test_info_counts_groups_by_state_and_messages(make: Make) -> None:
    seq = make(max_attempts=1)
    seq.append(1, group="l")
    with seq.claim(lease=30) as lease:
        prepare(make(max_attempts=2))
        assert lease
        info = seq.info()
        counts = (info.groups, info.due, info.leased, info.waiting, info.parked)
        assert counts == (4, 1, 1, 2, 0)
        assert (info.backlog, info.is_estimate, info.shards) == (9, False, 1)
        assert info.lag_s > 0
        uncounted = seq.info(sample=0)
        assert (uncounted.backlog, uncounted.is_estimate, uncounted.leased) == (0, True, 1)
        assert (info.totals["appended"], info.totals["failed"]) == (9, 2)
        states = {group.group: group.state for group in seq.groups()}
        assert states == {("d",): "due", ("l",): "leased", ("w",): "waiting", ("p", "1"): "waiting"}
        (leased,) = seq.groups("leased")
        assert leased.owner == lease.owner
        assert leased.token is not None
        assert 0 <= (leased.leased_for_s or 0) < 30
        assert 0 < (leased.due_in_s or 0) <= 30
        (waiting, _) = sorted(seq.groups("waiting"), key=lambda group: group.backlog)
        assert (waiting.attempts, 0 < (waiting.due_in_s or 0) <= 60) == (1, True)
        assert waiting.failure is not None
        assert waiting.failure.type == "Retry"


def test_a_look_at_a_queue_does_not_make_it(make: Make, server: Any, namespace: str) -> None:
    seq = make("typo")
    assert (seq.info().groups, seq.groups(), seq.peek("g"), list(seq.parked())) == (0, [], [], [])
    with pytest.raises(GroupNotFound):
        seq.resume("g")
    assert list_queues(server.url, namespace) == []
    make("typo", shards=3).append(1, group="g")
    assert (seq.info().shards, seq.info().backlog) == (3, 1)


def test_get_says_what_is_known(make: Make) -> None:
    seq = make(max_attempts=2, backoff=30, dead_letter_on=("KeyError",))
    seq.append("x", group="g", id="x", headers={"k": "v"})
    seq.append("y", group="g", id="y")

    def state(name: str = "x") -> tuple[Any, ...] | None:
        found = seq.get("g", name)
        return (found.state, found.attempts, found.error and found.error.type) if found else None

    assert (state(), state("y"), state("z")) == (("due", 0, None), ("behind", 0, None), None)
    seq.pause("g")
    assert state() == ("paused", 0, None)
    seq.unpause("g")
    with seq.claim() as lease:
        lease.nack(next(iter(lease)), ValueError("no"))
    assert (state(), state("y")) == (("waiting", 1, "ValueError"), ("behind", 0, None))
    seq.resume("g")
    with seq.claim() as lease:
        lease.park(next(iter(lease)), "why")
    assert (state(), state("y")) == (("parked", 1, "Park"), ("parked", 0, None))
    seq.resume("g")
    with seq.claim() as lease:
        lease.nack(next(iter(lease)), KeyError("gone"))
    assert state() == ("dead", 1, "KeyError")
    seen = drain(seq)
    assert state("y") == ("handled", 0, None)
    seq.redrive("g")
    found = got(seq, "g", "x")
    assert found.message is not None
    assert (found.message.body, found.message.headers, found.message.redriven) == ("x", {"k": "v"}, True)
    seq.consume(lambda message: seen.append(message.body), until_empty=True)
    assert seen == ["y", "x"]


@pytest.mark.parametrize("error", [ValueError("mine"), LookupError("mine"), StopConsuming("mine"), KeyboardInterrupt()])
def test_an_error_of_the_caller_is_not_taken_for_damaged_data(seq: Sequencer, error: BaseException) -> None:
    def items() -> Iterator[dict[str, Any]]:
        yield {"body": 1, "group": "g"}
        raise error

    with pytest.raises(type(error)) as caught:
        seq.append_many(items())
    assert caught.value is error
    seq.append(1, group="g")
    with pytest.raises(type(error)) as caught, seq.claim():
        raise error
    assert caught.value is error

"""A batch of a group that is due alone: longer than others, and over soon after something else is due."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sequencer.calls.operate import pause
from sequencer.drain.batch import BatchSize
from sequencer.settings.options import ClaimLimits, ConsumerOptions
from sequencer.settings.pace import FLUSH_S, LONGEST_S
from sequencer.values.message import Message
from tests.support.lone_consumer import KEYS, Drained


@pytest.mark.parametrize(("handler_s", "longest"), [(0.001, 100), (0.0022, 45), (0.02, 5), (0.06, 1), (1.0, 1)])
def test_a_group_that_is_due_alone_gives_more_at_once_where_that_takes_no_longer_than_it_may(
    handler_s: float, longest: int
) -> None:
    one = Drained(handler_s)
    one.append("a", 0, 1000)
    one.run(lambda: len(one.batches) > 12)
    assert max(map(len, one.batches)) == longest
    assert max(one.lengths_s()) <= max(LONGEST_S, handler_s) + 1e-6


def test_it_ends_once_something_else_is_due() -> None:
    one = Drained(0.001)
    one.append("a", 0, 900)
    came: list[float] = []

    def late() -> bool:
        if one.batches and len(one.batches) > 12 and len(one.batches[-1]) == 20 and not came:
            came.append(one.now_s)
            one.append("b", 0, 1)
        return any(group == "b" for group, _ in one.batches[-1]) if one.batches else False

    one.run(late)
    began = one.batches[-1][-1][1]
    assert 20 < len(one.batches[-2]) < 30
    assert 0 < began - came[0] <= FLUSH_S + 2 * one.handler_s + 1e-6


def test_a_consumer_with_a_number_left_takes_no_more_than_that() -> None:
    one = Drained(0.001, ConsumerOptions(max_messages=33))
    one.append("a", 0, 300)
    assert one.to_the_end().reason == "recycled"
    assert sum(map(len, one.batches)) == 33


# -- slow handlers --------------------------------------------------------------------------------------------------

SLOW_S = 0.005


class Watched(Drained):
    """Counts the scripts it sends, and calls `beside` while each handler runs."""

    scripts = 0
    handled: list[str]

    def __init__(self, handler_s: float = SLOW_S, beside: Any = None) -> None:
        super().__init__(handler_s)
        self.handled, self.beside = [], beside or (lambda one: None)
        self.held_back: list[int] = []
        """Beside each handler, how many that were handled before it had not reached the server."""

    def on_way_back(self, calls: Any) -> None:
        self.scripts += len(calls)

    def hear(self) -> None:
        """An answer that nobody awaits comes while the next handler runs."""

    def handle(self, message: Message) -> BaseException | None:
        self.held_back.append(sum(member[16:] in self.handled for member in self.shard.orders.get("a", {})))
        self.handled.append(message.id)
        self.beside(self)
        return super().handle(message)

    @property
    def place(self) -> int:
        """Of the handler that runs in its batch, from 0."""
        return len(self.batches[-1])


def in_a_long_batch(act: Any) -> Any:
    """Act once, beside the fourth handler of a batch of twenty."""
    done: list[int] = []

    def beside(one: Watched) -> None:
        if one.claimed[-1] == LONGEST_S / SLOW_S and one.place == 3 and not done:
            done.append(1)
            act(one)

    return beside


def test_a_group_with_slow_handlers_needs_about_one_script_a_message() -> None:
    one = Watched()
    one.append("a", 0, 400)
    one.run(lambda: len(one.handled) == 400)
    assert one.scripts / 400 <= 1.1
    assert set(one.held_back) == {0}, "each is acknowledged before the next one begins"


def hold(one: Watched, group: str) -> None:
    one.shard.run(pause(KEYS, group, True))
    one.handler_s = 3.0


@pytest.mark.parametrize(
    ("act", "following"),
    [
        (lambda one: one.append("b", 0, 1), ["b0"]),
        (lambda one: one.append("a", 0, 1), ["a0"]),
        (lambda one: hold(one, "a"), []),
        (lambda one: hold(one, ""), []),
        (lambda one: one.shard.leases.clear(), None),
    ],
    ids=["another group is due", "an earlier score", "the group is paused", "the queue is paused", "the lease is lost"],
)
def test_a_long_batch_ends_behind_the_handler_that_runs(act: Any, following: list[str] | None) -> None:
    begun: list[tuple[int, int, float]] = []

    def beside(one: Watched) -> None:
        begun.append((len(one.batches), len(one.handled), one.now_s))
        act(one)

    one = Watched(beside=in_a_long_batch(beside))
    one.append("a", 1, 400)
    one.run(lambda: bool(begun) and (len(one.handled) > begun[0][1] or one.now_s > begun[0][2] + 60))
    number, handled, _ = begun[0]
    assert len(one.batches[number - 1]) == 4
    assert following in (None, one.handled[handled:])
    assert one.held.lost == (following is None)


def test_a_stop_ends_a_long_batch_and_gives_the_rest_back() -> None:
    one = Watched(beside=in_a_long_batch(lambda one: setattr(one.runner, "is_stopping", True)))
    one.append("a", 0, 400)
    assert one.to_the_end().reason == "stopped"
    assert len(one.batches[-1]) == 4
    assert not one.shard.leases
    assert len(one.shard.orders["a"]) == 400 - len(one.handled)


class Failing(Watched):
    """The fourth message of a long batch fails."""

    def handle(self, message: Message) -> BaseException | None:
        is_bad = self.claimed[-1] == LONGEST_S / SLOW_S and self.place == 3 and not hasattr(self, "bad")
        if is_bad:
            self.bad = message.id
        super().handle(message)
        return ValueError("no") if is_bad else None


def test_a_failure_in_a_long_batch_gives_the_rest_back_behind_it() -> None:
    one = Failing()
    one.append("a", 0, 400)
    one.run(lambda: len(one.batches) > 1 and one.handled.count(getattr(one, "bad", "")) == 2)
    first, second = (index for index, name in enumerate(one.handled) if name == one.bad)
    assert second == first + 1, "nothing behind it was begun"


@pytest.mark.parametrize("groups", ["ab", "abcdefghijklmnopqrstuvwxyz"])
@pytest.mark.parametrize(("handler_s", "most"), [(0.015, 7), (3.0, 1)])
def test_a_batch_whose_handlers_became_slow_ends_behind_the_one_that_runs(
    groups: str, handler_s: float, most: int
) -> None:
    """Though others were due when it was claimed; they, a pause and a stop wait for no more."""

    def slow_down(one: Watched) -> None:
        if one.claimed[-1] > 15 and one.place == 0:
            one.handler_s = handler_s

    one = Watched(0.0002, slow_down)
    for group in groups:
        one.append(group, 0, 400)
    one.run(lambda: one.handler_s == handler_s and len(one.batches[-1]) == 0)
    assert len(one.batches[-2]) == most


# -- the rule -------------------------------------------------------------------------------------------------------

BATCHES = st.lists(st.tuples(st.integers(0, 50), st.floats(0.0, 3.0), st.booleans()), min_size=1, max_size=30)


@given(BATCHES, st.integers(1, 1000))
def test_a_long_batch_has_no_more_messages_than_fit_twice_those_before_and_the_limits(
    batches: list[tuple[int, float, bool]], limit: int
) -> None:
    size = BatchSize(ClaimLimits(messages=limit))
    for part, elapsed_s, is_alone in batches:
        asked = max(size.alone, size.messages)
        handled = min(part, asked)
        size.learn(handled, elapsed_s, is_alone=is_alone)
        assert 1 <= size.messages <= limit
        assert size.alone == 0 or is_alone
        assert size.alone <= min(2 * asked, limit)
        assert handled == 0 or size.alone * elapsed_s / handled <= LONGEST_S * (1 + 1e-9)

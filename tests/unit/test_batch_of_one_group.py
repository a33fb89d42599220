"""A batch of a group that is due alone: longer than others, and over soon after something else is due."""

from __future__ import annotations

import pytest

from sequencer.settings.options import ClaimLimits, ConsumerOptions
from sequencer.settings.pace import ALONE_S, BATCH_S, FLUSH_S
from tests.support.lone_consumer import Drained


@pytest.mark.parametrize(
    ("handler_s", "longest"), [(0.001, 50), (0.002, 25), (0.0022, 22), (0.003, 2), (0.02, 1), (1.0, 1)]
)
def test_a_group_that_is_due_alone_gives_more_at_once_where_that_takes_no_longer_than_it_may(
    handler_s: float, longest: int
) -> None:
    """And where handlers are short: what tells that something else is due comes while the next one runs."""
    one = Drained(handler_s)
    one.append("a", 0, 1000)
    one.run(lambda: len(one.batches) > 20)
    assert max(map(len, one.batches)) == longest
    assert max(one.lengths_s()) <= max(ALONE_S, handler_s) + 1e-6


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


def test_where_something_is_often_due_no_more_is_read_than_usual() -> None:
    """What is read and not handled is read in vain."""
    one, told = Drained(0.001), list[int]()
    one.append("a", 0, 900)

    def often() -> bool:
        if len(one.batches) > len(told) and len(one.batches[-1]) == 3:
            told.append(len(one.batches))
            one.append("b", len(told), 1)
        return len(told) > 30

    one.run(often)
    of_a = [len(batch) for batch in one.batches[-20:-1] if batch[0][0] == "a"]
    assert len(of_a) > 5
    assert set(one.claimed[-19:-1]) <= set(range(round(BATCH_S * 1000) + 1)), "1 ms each"


def test_it_is_not_shorter_than_others_for_that() -> None:
    one = Drained(0.001)
    one.append("a", 0, 900)
    came: list[int] = []

    def early() -> bool:
        if one.batches and len(one.batches[-1]) == 1 and len(one.batches) > 12 and not came:
            came.append(len(one.batches))
            one.append("b", 0, 1)
        return bool(came) and len(one.batches) > came[0]

    one.run(early)
    assert BATCH_S <= one.lengths_s()[came[0] - 1] <= BATCH_S + FLUSH_S + 2 * one.handler_s


@pytest.mark.parametrize("limits", [ClaimLimits(messages=7), ClaimLimits(messages=1)])
def test_the_limits_of_the_consumer_hold_all_the_same(limits: ClaimLimits) -> None:
    one = Drained(0.0001, ConsumerOptions(limits=limits))
    one.append("a", 0, 300)
    one.run(lambda: len(one.batches) > 20)
    assert max(map(len, one.batches)) == limits.messages


def test_a_consumer_with_a_number_left_takes_no_more_than_that() -> None:
    one = Drained(0.001, ConsumerOptions(max_messages=33))
    one.append("a", 0, 300)
    assert one.to_the_end().reason == "recycled"
    assert sum(map(len, one.batches)) == 33

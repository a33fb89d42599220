"""The history checker: clean histories pass, and each kind of broken one is caught."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sequencer.cli.demo.run import explained_duplicates, orders
from sequencer.testing import Handled, check_history, wait_until


def history(groups: int, length: int) -> list[Handled]:
    """A clean history: each group's messages one after another, groups interleaved."""
    return [
        Handled(f"g{g}", f"{g}-{n}", float(n), 1000 + n, 10 + n, n + g / 100, n + g / 100 + 0.5, "c")
        for n in range(length)
        for g in range(groups)
    ]


def expected(records: list[Handled]) -> set[tuple[str, str]]:
    return {(record.group, record.id) for record in records}


@given(st.integers(1, 4), st.integers(1, 6), st.randoms())
def test_a_clean_history_is_clean_in_whatever_order_it_is_read(groups: int, length: int, chance: random.Random) -> None:
    records = history(groups, length)
    wanted = expected(records)
    chance.shuffle(records)
    verdict = check_history(wanted, records)
    assert verdict.is_clean()
    assert verdict.messages == groups * length


@given(st.integers(0, 3), st.integers(0, 3))
def test_two_messages_out_of_order_are_caught(a: int, b: int) -> None:
    records = history(1, 4)
    records[a], records[b] = (
        records[a]._replace(started=records[b].started, ended=records[b].ended),
        records[b]._replace(started=records[a].started, ended=records[a].ended),
    )
    verdict = check_history(expected(records), records)
    assert (verdict.order_violations > 0) == (a != b)
    assert verdict.is_clean() == (a == b)


def test_a_loss_an_invention_and_a_duplicate_are_caught() -> None:
    records = history(2, 3)
    wanted = expected(records)
    assert check_history(wanted, records[1:]).losses == 1
    assert check_history(wanted - {("g0", "0-0")}, records).inventions == 1
    again = [*records, records[0]._replace(token=99, started=100, ended=101)]
    verdict = check_history(wanted, again)
    assert (verdict.duplicates, verdict.order_violations) == (1, 0)
    assert not verdict.is_clean()
    assert verdict.is_clean(allowed_duplicates=1)


def test_two_handlers_of_a_group_at_once_are_caught() -> None:
    records = history(1, 3)
    records[1] = records[1]._replace(started=records[0].ended - 0.1)
    verdict = check_history(expected(records), records)
    assert verdict.overlaps == 1
    assert "before another run ended" in verdict.cases[0]


def test_a_token_that_goes_back_is_caught() -> None:
    records = history(1, 3)
    records[2] = records[2]._replace(token=1)
    assert check_history(expected(records), records).order_violations == 1


def test_the_demo_explains_only_the_last_messages_of_the_killed_consumer() -> None:
    killed = [Handled("g", str(n), n, n, 1, n * 0.05, n * 0.05 + 0.001, "7") for n in range(10)]
    again = [record._replace(consumer="8", token=2) for record in killed[-1:]]
    assert explained_duplicates(killed + again, "7") == 1
    early = [killed[0]._replace(consumer="8", token=2)]
    assert explained_duplicates(killed + early, "7") == 0


def test_the_demos_orders_come_in_order() -> None:
    first = list(orders(500))
    steps: dict[int, list[str]] = {}
    for order in first:
        steps.setdefault(order["order_id"], []).append(order["step"])
    assert all(found == ["created", "paid", "packed", "shipped", "delivered"][: len(found)] for found in steps.values())
    assert [o["ts"] for o in first] == sorted(o["ts"] for o in first)


def test_wait_until_returns_what_it_waited_for_and_fails_with_the_last_value() -> None:
    values = iter([0, 0, 7])
    assert wait_until(lambda: next(values)) == 7
    with pytest.raises(AssertionError, match=r"the moon.*last: 0"):
        wait_until(lambda: 0, timeout_s=0.01, what="the moon")

"""When a dead consumer is replaced and when the service gives up, in virtual time: messages that kill whoever takes
them end as parked groups; an application that can't start ends the service.
"""

from __future__ import annotations

import heapq

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sequencer.processes import workers
from sequencer.processes.workers import FAST_S, LIMIT, RESTART, STANDING_RETRY_S, STARTUP_S, Worker

LEASE_S, ATTEMPTS, START_S, LIMIT_S = 15.0, 5, 0.3, 40_000.0


class OnePlace:
    """A service with one place."""

    def __init__(self) -> None:
        self.worker = Worker()

    def after_death(self, lived_s: float, *, has_begun: bool) -> float | None:
        """Seconds until the next start, None where it stands."""
        self.worker.count_death(lived_s, has_begun=has_begun)
        return None if self.worker.is_standing else self.worker.start_later(lived_s, 0.0, 0.5)


def parked_of(groups: int, places: int) -> tuple[int, float]:
    """Groups whose message kills each consumer that begins it: how many of them are parked in the end, and when."""
    due = [(0.0, number) for number in range(groups)]
    tried = [0] * groups
    starts = [(0.0, number) for number in range(places)]
    room, parked, now = [OnePlace() for _ in range(places)], 0, 0.0
    while starts and parked < groups and now < LIMIT_S:
        began, number = heapq.heappop(starts)
        now = began + START_S
        is_killed = False
        while not is_killed and parked < groups:
            at, group = heapq.heappop(due)
            now = max(now, at)
            if tried[group] >= ATTEMPTS:
                parked += 1
                continue
            tried[group] += 1
            heapq.heappush(due, (now + LEASE_S, group))
            is_killed = True
        delay_s = room[number].after_death(now - began, has_begun=True) if is_killed else None
        if delay_s is not None:
            heapq.heappush(starts, (now + delay_s, number))
    return parked, now


@pytest.mark.parametrize("groups", [7, 100, 1000])
@pytest.mark.parametrize("places", [1, 2, 4])
def test_messages_that_kill_their_consumers_are_all_parked_in_the_end(groups: int, places: int) -> None:
    assert parked_of(groups, places)[0] == groups


@pytest.mark.parametrize("groups", [7, 100, 1000])
def test_a_rule_that_counts_these_deaths_too_ends_the_service_with_nothing_parked(
    groups: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "is_startup_death", lambda lived_s, **_: True)
    parked, ended_at = parked_of(groups, 1)
    assert parked == 0
    assert ended_at < LEASE_S, "no lease has expired by then"


@given(st.lists(st.tuples(st.floats(0, 200), st.booleans()), max_size=40))
def test_a_place_stands_only_after_deaths_at_startup_in_a_row(lives: list[tuple[float, bool]]) -> None:
    row, worker = 0, OnePlace()
    for lived_s, has_begun in lives:
        row = row + 1 if not has_begun and lived_s < STARTUP_S else 0
        delay_s = worker.after_death(lived_s, has_begun=has_begun)
        assert (delay_s is None) == (row >= LIMIT)
        if delay_s is not None:
            assert 0 <= delay_s <= RESTART.cap_s
            assert delay_s == 0 or lived_s < FAST_S


def test_one_that_can_do_no_better_stands_at_once_and_is_counted_once() -> None:
    worker = Worker()
    worker.count_death(0.1, has_begun=True, is_final=True)
    assert worker.start_later(0.1, 0.0, 0.5) == STANDING_RETRY_S
    assert (worker.startup_deaths, worker.is_standing) == (1, True)
    worker.free()
    assert (worker.startup_deaths, worker.is_standing) == (0, False)
    worker.count_death(0.1, has_begun=False)
    assert worker.start_later(0.1, 0.0, 0.5) < 1.0

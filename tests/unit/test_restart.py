"""When a dead consumer is replaced and when the service gives up, in virtual time: messages that kill whoever takes
them end as parked groups; an application that can't start ends the service.
"""

from __future__ import annotations

import heapq

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sequencer.processes.workers import STANDING_RETRY_S, RestartPolicy, Workers

LEASE_S, ATTEMPTS, START_S, LIMIT_S = 15.0, 5, 0.3, 40_000.0


class OnePlace:
    """A service with one place."""

    def __init__(self, policy: RestartPolicy) -> None:
        self.workers = Workers(1, policy)
        (self.worker,) = self.workers

    def after_death(self, lived_s: float, *, has_begun: bool) -> float | None:
        """Seconds until the next start, None where it stands."""
        if not self.workers.can_go_on(self.worker, lived_s, has_begun=has_begun):
            return None
        return self.workers.start_later(self.worker, lived_s, 0.0, 0.5)


def parked_of(groups: int, workers: int, policy: RestartPolicy) -> tuple[int, float]:
    """Groups whose message kills each consumer that begins it: how many of them are parked in the end, and when."""
    due = [(0.0, number) for number in range(groups)]
    tried = [0] * groups
    starts = [(0.0, number) for number in range(workers)]
    room, parked, now = [OnePlace(policy) for _ in range(workers)], 0, 0.0
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
@pytest.mark.parametrize("workers", [1, 2, 4])
def test_messages_that_kill_their_consumers_are_all_parked_in_the_end(groups: int, workers: int) -> None:
    assert parked_of(groups, workers, RestartPolicy())[0] == groups


@pytest.mark.parametrize("groups", [7, 100, 1000])
def test_a_rule_that_counts_these_deaths_too_ends_the_service_with_nothing_parked(groups: int) -> None:
    class EveryDeath(RestartPolicy):
        def is_startup_death(self, lived_s: float, *, has_begun: bool, is_loaded: bool = True) -> bool:
            return True

    parked, ended_at = parked_of(groups, 1, EveryDeath())
    assert parked == 0
    assert ended_at < LEASE_S, "no lease has expired by then"


@given(st.lists(st.tuples(st.floats(0, 200), st.booleans()), max_size=40))
def test_a_place_stands_only_after_deaths_at_startup_in_a_row(lives: list[tuple[float, bool]]) -> None:
    policy, row = RestartPolicy(), 0
    worker = OnePlace(policy)
    for lived_s, has_begun in lives:
        row = row + 1 if not has_begun and lived_s < policy.startup_s else 0
        delay_s = worker.after_death(lived_s, has_begun=has_begun)
        assert (delay_s is None) == (row >= policy.limit)
        if delay_s is not None:
            assert 0 <= delay_s <= policy.backoff.cap_s
            assert delay_s == 0 or lived_s < policy.fast_s


def test_one_that_can_do_no_better_stands_at_once_and_is_counted_once() -> None:
    workers = Workers(2, RestartPolicy())
    first, second = workers
    assert workers.can_go_on(first, 0.1, has_begun=False, is_final=True)
    assert workers.start_later(first, 0.1, 0.0, 0.5) == STANDING_RETRY_S
    assert not workers.can_go_on(second, 0.1, has_begun=True, is_final=True)
    assert [(worker.startup_deaths, worker.is_final) for worker in workers] == [(1, True)] * 2
    first.free()
    assert (first.startup_deaths, first.is_final) == (0, False)
    assert workers.can_go_on(first, 0.1, has_begun=False)
    assert workers.start_later(first, 0.1, 0.0, 0.5) < 1.0

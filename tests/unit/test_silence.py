"""A consumer that gives no sign of life is found in time, and nobody is blamed while the supervisor stood still."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from sequencer.processes.liveness import LEASES, LEAST_S, MOST_TICK_S, Liveness


def process(pid: int = 1, **more: Any) -> Any:
    return cast(Any, SimpleNamespace(pid=pid, has_begun=True, ended_at=None, is_killed=False, **more))


@given(st.floats(0.1, 30.0), st.lists(st.tuples(st.floats(0.01, 60.0), st.booleans()), max_size=100))
def test_who_is_heard_in_time_is_left_alone_and_who_is_not_is_found(
    lease_s: float, ticks: list[tuple[float, bool]]
) -> None:
    silence, one, now, silent_s = Liveness(lease_s), process(), 0.0, 0.0
    silence.tick([one], now)
    for passed_s, is_heard in ticks:
        now += passed_s
        if is_heard:
            silence.heard(1)
            silent_s = 0.0
        silent_s += min(passed_s, MOST_TICK_S)
        found = silence.tick([one], now)
        assert bool(found) == (silent_s > max(LEAST_S, LEASES * lease_s))


def test_a_supervisor_that_stood_still_blames_nobody() -> None:
    silence = Liveness(1.0)
    silence.tick([process()], 0.0)
    assert silence.tick([process()], 3600.0) == []


def test_only_a_consumer_at_work_is_expected_to_be_heard() -> None:
    silence = Liveness(1.0)
    working, *others = everybody = [process(number) for number in range(4)]
    starting, ended, killed = others
    starting.has_begun, ended.ended_at, killed.is_killed = False, 1.0, True
    for second in range(20):
        if found := silence.tick(everybody, float(second)):
            assert found == [working]
            return
    raise AssertionError("nobody was found")


def test_one_that_begins_has_all_the_time() -> None:
    silence, one = Liveness(1.0), process()
    one.has_begun = False
    for second in range(20):
        silence.tick([one], float(second))
    one.has_begun = True
    assert silence.tick([one], 20.0) == []
    assert silence.tick([one], 22.0) == []


def test_without_a_limit_of_handlers_nobody_is_asked() -> None:
    silence = Liveness(None)
    assert silence.wait_s is None
    assert [one for second in range(100) for one in silence.tick([process()], float(second))] == []

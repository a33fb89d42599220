"""A history of many messages over four days: its window, its cap, its bytes; nothing is left of a queue at rest.

20,000 messages here; all of it, in some minutes:

    SEQUENCER_TEST_MESSAGES=2000000 pytest -s tests/server/test_history_size.py
"""

from __future__ import annotations

import os

import pytest

from sequencer.settings.policy import DAY_S, Policy

from ..support.changed_script import changed_script
from ..support.lane import SECOND, Lane
from .test_history_windows import buckets_there, end, kept, swept

MESSAGES = int(os.environ.get("SEQUENCER_TEST_MESSAGES", "20000"))
BATCHES = max(400, MESSAGES // 1000)
EACH = MESSAGES // BATCHES
LOOKS = 20
BYTES = 135
"""Of a message in the history, with what its hash needs; 104 to 122 were measured while it was designed."""


def counted(lane: Lane) -> int:
    """How many are kept, by the sizes of the buckets."""
    return sum(lane.link.command("HLEN", key) for key in buckets_there(lane))


def sized(lane: Lane) -> int:
    return sum(lane.link.command("MEMORY", "USAGE", key, "SAMPLES", 0) for key in buckets_there(lane))


def four_days(lane: Lane, window_s: float, cap: int) -> tuple[int, float]:
    """Messages end evenly for four days. The most that were kept, and the bytes of one at the end."""
    lane.rules(Policy(history_window=window_s, history_cap=cap, dedup_window=0))
    every_s, most = 4 * DAY_S / BATCHES, 0
    for number in range(BATCHES):
        end(lane, *[f"{number}.{n}" for n in range(EACH)])
        most = max(most, counted(lane))
        if number % (BATCHES // LOOKS) == 0 or number == BATCHES - 1:
            oldest_us = lane.now - window_s * 25 / 24 * SECOND
            assert min(kept(lane).values()) >= oldest_us - 1000, "something is older than the window and a 24th"
        lane.later(every_s)
    return most, sized(lane) / counted(lane)


def rest(lane: Lane, window_s: float) -> None:
    """Nobody appends or acknowledges any more."""
    lane.later(window_s * 26 / 24)
    swept(lane)
    assert buckets_there(lane) == [], "a queue at rest is not swept"


@pytest.mark.slow
@pytest.mark.timeout(120 + MESSAGES // 1000)
@pytest.mark.parametrize(("days", "of_all"), [(1, 1.0), (3, 0.5)], ids=["window", "cap"])
def test_many_messages_over_four_days(lane: Lane, days: int, of_all: float) -> None:
    """Of one day a quarter is kept; of three days three quarters would be, and half of all is the cap."""
    cap = round(MESSAGES * of_all)
    most, each = four_days(lane, days * DAY_S, cap)
    print(f"\n{MESSAGES:,} messages, {days} d of 4: at most {most:,} kept, {each:.0f} bytes each")
    if of_all == 1.0:
        assert 0.24 * MESSAGES <= most <= 0.27 * MESSAGES
    else:
        assert 0.95 * cap <= most <= cap + EACH
    assert each <= BYTES
    rest(lane, days * DAY_S)


def test_a_history_that_is_off_has_no_key(lane: Lane) -> None:
    lane.rules(Policy(dedup_window=0))
    for number in range(20):
        end(lane, *[f"{number}.{n}" for n in range(EACH)])
        lane.later(DAY_S / 5)
    swept(lane)
    assert [name for name in lane.link.command("KEYS", f"{lane.keys.prefix}*") if b"histor" in name] == []
    assert lane.link.command("HGET", lane.keys.memory, "history:open") is None


def test_a_history_that_is_cleaned_at_writes_only_is_found(lane: Lane) -> None:
    with changed_script(
        "sweep", "clean_history(history and history.window or 0, history and history.cap or 0)", "0, {}"
    ):
        lane.rules(Policy(history_window=DAY_S, dedup_window=0))
        end(lane, "a")
        with pytest.raises(AssertionError, match="at rest"):
            rest(lane, DAY_S)
    lane.link.command("DEL", lane.keys.histories, lane.keys.memory, *buckets_there(lane))

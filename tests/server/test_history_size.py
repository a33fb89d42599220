"""A history of many messages over four days: its window, its cap, its bytes; nothing is left of a queue at rest.

20,000 messages here; all of it, in some minutes:

    SEQUENCER_TEST_MESSAGES=2000000 pytest -s tests/server/test_history_size.py
"""

from __future__ import annotations

import os

import pytest

from sequencer.settings.policy import DAY_S, Policy

from ..support.changed_script import changed_script
from ..support.shard import SECOND, Shard
from .test_history_windows import buckets_there, end, kept, swept

MESSAGES = int(os.environ.get("SEQUENCER_TEST_MESSAGES", "20000"))
BATCHES = max(400, MESSAGES // 1000)
EACH = MESSAGES // BATCHES
LOOKS = 20
BYTES = 135
"""Of a message in the history, with what its hash needs; 104 to 122 were measured while it was designed."""


def counted(shard: Shard) -> int:
    """How many are kept, by the sizes of the buckets."""
    return sum(shard.link.command("HLEN", key) for key in buckets_there(shard))


def sized(shard: Shard) -> int:
    return sum(shard.link.command("MEMORY", "USAGE", key, "SAMPLES", 0) for key in buckets_there(shard))


def four_days(shard: Shard, window_s: float, cap: int) -> tuple[int, float]:
    """Messages end evenly for four days. The most that were kept, and the bytes of one at the end."""
    shard.rules(Policy(history_window=window_s, history_cap=cap, dedup_window=0))
    every_s, most = 4 * DAY_S / BATCHES, 0
    for number in range(BATCHES):
        end(shard, *[f"{number}.{n}" for n in range(EACH)])
        most = max(most, counted(shard))
        if number % (BATCHES // LOOKS) == 0 or number == BATCHES - 1:
            oldest_us = shard.now - window_s * 25 / 24 * SECOND
            assert min(kept(shard).values()) >= oldest_us - 1000, "something is older than the window and a 24th"
        shard.later(every_s)
    return most, sized(shard) / counted(shard)


def rest(shard: Shard, window_s: float) -> None:
    """Nobody appends or acknowledges any more."""
    shard.later(window_s * 26 / 24)
    swept(shard)
    assert buckets_there(shard) == [], "a queue at rest is not swept"


@pytest.mark.slow
@pytest.mark.timeout(120 + MESSAGES // 1000)
@pytest.mark.parametrize(("days", "of_all"), [(1, 1.0), (3, 0.5)], ids=["window", "cap"])
def test_many_messages_over_four_days(shard: Shard, days: int, of_all: float) -> None:
    """Of one day a quarter is kept; of three days three quarters would be, and half of all is the cap."""
    cap = round(MESSAGES * of_all)
    most, each = four_days(shard, days * DAY_S, cap)
    print(f"\n{MESSAGES:,} messages, {days} d of 4: at most {most:,} kept, {each:.0f} bytes each")
    if of_all == 1.0:
        assert 0.24 * MESSAGES <= most <= 0.27 * MESSAGES
    else:
        assert 0.95 * cap <= most <= cap + EACH
    assert each <= BYTES
    rest(shard, days * DAY_S)


def test_a_history_that_is_off_has_no_key(shard: Shard) -> None:
    shard.rules(Policy(dedup_window=0))
    for number in range(20):
        end(shard, *[f"{number}.{n}" for n in range(EACH)])
        shard.later(DAY_S / 5)
    swept(shard)
    assert [name for name in shard.link.command("KEYS", f"{shard.keys.prefix}*") if b"histor" in name] == []
    assert shard.link.command("HGET", shard.keys.memory, "history:open") is None


def test_a_history_that_is_cleaned_at_writes_only_is_found(shard: Shard) -> None:
    with changed_script(
        "sweep", "clean_history(history and history.window or 0, history and history.cap or 0)", "0, {}"
    ):
        shard.rules(Policy(history_window=DAY_S, dedup_window=0))
        end(shard, "a")
        with pytest.raises(AssertionError, match="at rest"):
            rest(shard, DAY_S)
    shard.link.command("DEL", shard.keys.histories, shard.keys.memory, *buckets_there(shard))

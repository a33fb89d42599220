"""A consumer that has one group to itself: longer batches, for which another group is not kept waiting."""

from __future__ import annotations

import time
from collections import Counter

import pytest

import sequencer.drain.protocol
from sequencer import Message, Sequencer
from sequencer.testing import wait_until

from ..support.background import Background

LONG = 120
"""Messages at least of a batch that nothing ends early; another group comes in the next, which would be longer."""


@pytest.mark.parametrize("delay_s", [0.0, 0.01])
def test_a_long_batch_ends_soon_after_another_group_is_due(
    seq: Sequencer, monkeypatch: pytest.MonkeyPatch, delay_s: float
) -> None:
    """Also where no append says so, but time alone."""
    monkeypatch.setattr(sequencer.drain.batch, "LONGEST_S", 0.5)
    seq.append_many({"group": "endless", "body": n, "score": n} for n in range(2000))
    batches: Counter[int] = Counter()
    seen: list[tuple[int, int]] = []

    def handle(message: Message) -> None:
        if message.group == ("other",):
            seen.append((0, 0))
            return
        assert message.body == sum(batches.values())
        batches[message.token] += 1
        if not seen and batches[message.token] == LONG // 3 and max(batches.values()) >= LONG:
            seq.append("other", group="other", delay=delay_s or None)
            seen.append((message.token, message.body))
        until = time.monotonic() + 0.001
        while time.monotonic() < until:
            pass  # work

    with Background(seq, handle):
        wait_until(lambda: len(seen) == 2, 30, "the other group is handled")
    assert LONG // 3 <= batches[seen[0][0]] < LONG, "at the least it ends with the message that was in progress"

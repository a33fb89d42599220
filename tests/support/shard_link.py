"""A connection to the model of a shard, for tests of what goes over one: answers come late, or never."""

from __future__ import annotations

import time
from typing import Any

from sequencer.calls.call import UNDONE
from sequencer.consume.in_flight import InFlight
from sequencer.drain.held import Held
from sequencer.errors import SequencerError, ServerUnavailable
from sequencer.settings.options import ClaimLimits
from sequencer.store.keys import shard_keys

from .model.shard import ModelShard

KEYS = shard_keys("n", "q", 0)
ONE = ClaimLimits(1, 1, 1000)


class Link:
    """Answers at once from the model; the answer to the so-manieth batch is lost."""

    is_repeat = False

    def __init__(self, shard: ModelShard) -> None:
        self.shard, self.left, self.posted = shard, -1, list[Any]()
        self.is_lost = self.lacks_script = False
        self.refuses: SequencerError | None = None
        """The answer to the first call of each batch; of one that is waited for, at its first attempt only."""
        self.is_slow = False
        """Whether nothing is answered before it is waited for."""

    def run(self, calls: Any) -> list[Any]:
        """Where the first call is refused for its generation, it alone is sent again, as `net.repeats` does."""
        behind = self._behind(calls)
        return [self.shard.run(calls[0]), *behind] if self.refuses else behind

    def _behind(self, calls: Any) -> list[Any]:
        return [self.shard.run(call) for call in calls[bool(self.refuses) :]]

    def post(self, calls: Any) -> None:
        if self.is_lost:
            raise ServerUnavailable("lost")
        replies = [UNDONE for _ in calls] if self.lacks_script else self._behind(calls)
        self.posted.append([self.refuses, *replies] if self.refuses else replies)

    def is_answered(self, within_s: float) -> bool:
        return not self.is_slow

    def close(self) -> None:
        self.posted.clear()

    def collect(self, calls: Any) -> list[Any]:
        self.left -= 1
        if self.left == -1:
            self.close()
            raise ServerUnavailable("lost")
        found: list[Any] = self.posted.pop(0)
        return found

    def parsed(self, calls: Any, replies: list[Any]) -> list[Any]:
        return replies


class OneLink(InFlight):
    """What is in flight on a link."""

    def __init__(self, link: Any, held: Held | None = None) -> None:
        super().__init__(held or Held([KEYS], 60.0), "q", "me", link, clock=time.monotonic)

"""How many messages a consumer claims at once, learned from how long batches take."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from ..calls.claim import Claimed
from ..settings.options import MAX_CLAIMED, ClaimLimits
from ..settings.pace import ALIKE_S, BATCH_S, LEAD_S, LONGEST_S, QUICK_S, SHORT_LEAST, TOO_LONG


def fitting(time_s: float, handled: int, elapsed_s: float) -> int:
    """How many messages fit into this time, if they take as long as these did."""
    return int(time_s * handled / max(elapsed_s, 1e-6))


@dataclass(frozen=True, slots=True)
class BatchEnd:
    """When no other message of a group is begun, by the consumer's clock."""

    told_s: float  # from then on, once an acknowledgement has told that something else is due
    latest_s: float  # from then on in any case, and no other group
    asks: bool = False
    """Whether what was handled is acknowledged, and the answer awaited, before each message but the first."""


@dataclass(slots=True)
class BatchSize:
    """How many messages to claim: as many as are handled in BATCH_S, found by doubling."""

    limits: ClaimLimits
    messages: int = 1
    alone: int = 0
    """How many of a group that is due alone, if that is more: as many as take LONGEST_S, found by doubling."""
    is_quick: bool = False  # whether the last batch was done soon, by quick handlers
    is_slow: bool = False
    """Whether its handlers take a good part of BATCH_S each: then the server is asked before each of a longer batch."""
    took_s: tuple[float, float] = (math.inf, math.inf)  # how long the last batch took, and the one before it
    of_each: int = 1  # how many of each group a handler takes at once
    least: int = 1

    def next_limits(self, left: int | None) -> ClaimLimits:
        groups, messages = max(1, self.messages // self.of_each), max(self.messages, self.least)
        messages = messages if left is None else min(messages, left)
        return ClaimLimits(min(self.limits.groups, groups, messages), messages, self.limits.bytes)

    def first_limits(self, left: int | None) -> ClaimLimits:
        """For a claim that a hint sets off: if its consumer is frozen or lost, one group has to wait for its lease."""
        return replace(self.next_limits(left), groups=1)

    def end_of(self, claimed: Claimed, began: float) -> BatchEnd:
        """When a batch that began then is over. A longer one of slow handlers ends behind the one that runs."""
        if sum(len(group.messages) for group in claimed.groups) <= self.messages:
            return BatchEnd(math.inf if claimed.has_more else began + BATCH_S, began + LONGEST_S)
        return BatchEnd(began if self.is_slow else began + BATCH_S, began + LONGEST_S, asks=self.is_slow)

    def claims_after_s(self) -> float | None:
        """How long from the beginning of a batch on its successor should be claimed, None if nobody can tell."""
        if self.is_quick:
            return 0.0
        last_s, before_s = self.took_s
        return max(0.0, min(self.took_s) - LEAD_S) if abs(last_s - before_s) < ALIKE_S else None

    def learn(self, handled: int, elapsed_s: float, *, is_alone: bool = False) -> None:
        """What the batch in progress took, with this many messages. `is_alone`: nothing else was due then or since."""
        self.is_quick = elapsed_s < min(BATCH_S, QUICK_S * handled)
        self.took_s = elapsed_s, self.took_s[0]
        fit = fitting(BATCH_S, handled, elapsed_s)
        self.is_slow = fit < SHORT_LEAST
        self.alone = self._next_alone(handled, elapsed_s) if is_alone else 0
        if elapsed_s > BATCH_S * TOO_LONG or handled > self.messages:
            self.messages = max(1, min(fit, handled * 2, self.limits.messages))
        elif elapsed_s < BATCH_S and handled * 4 >= self.messages:  # a claim leaves half to others
            self.messages = max(self.messages, min(self.messages * 2, fit, self.limits.messages))

    def _next_alone(self, handled: int, elapsed_s: float) -> int:
        asked = max(self.alone, self.messages)
        grown = asked * 2 if handled * 4 >= asked else self.alone
        return min(fitting(LONGEST_S, handled, elapsed_s), grown, self.limits.messages)


def of_batches(limits: ClaimLimits, size: int, *, is_slot: bool) -> BatchSize:
    """For handlers of batches. Without slots, a claim takes an eighth of its messages of each group."""
    return BatchSize(limits, of_each=size, least=size if is_slot else min(8 * size, MAX_CLAIMED))

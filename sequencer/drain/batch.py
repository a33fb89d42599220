"""How many messages a consumer claims at once, learned from how long batches take."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from ..settings.options import ClaimLimits
from ..settings.pace import ALIKE_S, ALONE_LEAST, ALONE_S, BATCH_S, LEAD_S, QUICK_S, TOO_LONG


@dataclass(slots=True)
class BatchSize:
    """How many messages to claim: as many as are handled in BATCH_S, found by doubling."""

    limits: ClaimLimits
    messages: int = 1
    alone: int = 0
    """How many of a group that is due alone, if that is more: as many as are handled in ALONE_S, found by doubling."""
    is_quick: bool = False
    """Whether the last batch was done soon, by quick handlers."""
    took_s: tuple[float, float] = (math.inf, math.inf)
    """How long the last batch took, and the one before it."""

    def next_limits(self, left: int | None) -> ClaimLimits:
        messages = self.messages if left is None else min(self.messages, left)
        return ClaimLimits(min(self.limits.groups, messages), messages, self.limits.bytes)

    def first_limits(self, left: int | None) -> ClaimLimits:
        """For a claim that a hint sets off: if its consumer is frozen or lost, one group has to wait for its lease."""
        return replace(self.next_limits(left), groups=1)

    def claims_after_s(self) -> float | None:
        """How long from the beginning of a batch on its successor should be claimed, None if nobody can tell."""
        if self.is_quick:
            return 0.0
        last_s, before_s = self.took_s
        return max(0.0, min(self.took_s) - LEAD_S) if abs(last_s - before_s) < ALIKE_S else None

    def learn(self, handled: int, elapsed_s: float, *, is_alone: bool = False) -> None:
        """What the batch in hand took, with so many messages, however they ended.

        `is_alone`: nothing else was due then or since. Where something often is, a longer batch would be read in vain.
        """
        self.is_quick = elapsed_s < min(BATCH_S, QUICK_S * handled)
        self.took_s = elapsed_s, self.took_s[0]
        fit, most = (int(time_s * handled / max(elapsed_s, 1e-6)) for time_s in (BATCH_S, ALONE_S))
        asked = max(self.alone, self.messages)
        if elapsed_s > BATCH_S * TOO_LONG or handled > self.messages:
            self.messages = max(1, min(fit, handled * 2, self.limits.messages))
        elif elapsed_s < BATCH_S and handled * 4 >= self.messages:  # a claim leaves half to others
            self.messages = max(self.messages, min(self.messages * 2, fit, self.limits.messages))
        grown = asked * 2 if handled * 4 >= asked else self.alone
        self.alone = min(most, grown, self.limits.messages) if is_alone and fit >= ALONE_LEAST else 0

"""Which messages are not given to a handler, and why. Pure."""

from __future__ import annotations

from ..calls.claim import LeasedGroup
from ..errors import LeaseExpired, TooLate, Undecodable
from ..settings.options import QueueOptions
from .outcome import most_unanswered


def unfit(leased: LeasedGroup, position: int) -> TooLate | Undecodable | None:
    """Why nobody handles this message of a group, however often it was tried, or None.

    The rules, in this order:
      1. Late, where the queue gives late messages up. The order says so, whatever the bytes are: a message that nobody
         would handle need not park its group because it can't be read. A redriven one is never late in this sense: a
         person put it back.
      2. Undecodable. That never gets better, so it is not blamed on the consumers that died.
    """
    message = leased.messages[position]
    if message.late and not message.redriven and leased.on_late in ("drop", "dead_letter"):
        return TooLate(score=message.score, mark=leased.mark, on_late=leased.on_late)
    if leased.undecodable and position == len(leased.messages) - 1:
        return Undecodable(leased.undecodable)
    return None


def refusal_of(queue: QueueOptions, leased: LeasedGroup, position: int) -> TooLate | Undecodable | LeaseExpired | None:
    """Why this message is not given to a plain handler, or None: it is unfit, or too many leases on it ended without an
    answer. A pass over steps counts those by itself.

    A message in time, on its first attempt and decodable is never refused; a hot loop need not ask about it.
    """
    if refusal := unfit(leased, position):
        return refusal
    tried, most, owner = leased.messages[position].attempt - 1, most_unanswered(queue), leased.expired_owner
    if tried < most:
        return None
    return LeaseExpired("attempts_used", attempts=tried, most=most, owner=owner)

"""A leased group and how far it is: what is told the server of its messages. Pure."""

from __future__ import annotations

from ..calls.claim import LeasedGroup
from ..calls.settle import Ack, HandlerRun, Nack, Note
from ..store.ledger import Written
from ..store.watermark import advance
from .outcome import Told


class HeldGroup:
    """A leased group and how far it is."""

    __slots__ = ("acked", "done", "is_lost", "is_open", "leased", "mark", "times")

    def __init__(self, leased: LeasedGroup) -> None:
        self.leased = leased
        self.done = 0
        self.acked = 0
        self.is_open = True
        self.is_lost = False
        self.mark = leased.mark
        self.times: list[tuple[float, float]] = []
        """When each handler run began and ended; only for an audit."""

    def entry(self, done: int, *, release: bool) -> Ack:
        """The entry that acknowledges the messages up to `done`, and perhaps gives the group back."""
        first, leased = self.acked, self.leased
        if first == done:
            return Ack(leased.key, leased.token, [], release)
        messages = leased.messages[first:done]
        if self.mark.startswith("#"):
            mark = advance(self.mark, leased.scores[first:done], [message.redriven for message in messages])
        else:
            mark = advance(self.mark, (leased.scores[done - 1],))
        late = sum(message.late for message in messages) if messages[0].late else 0
        runs = [self._run(position) for position in range(first, done)] if self.times else ()
        follows = leased.members[done] if done < len(leased.members) else ""
        return Ack(leased.key, leased.token, leased.members[first:done], release, mark, late, runs, follows)

    def acknowledged(self, entry: Ack) -> None:
        """This entry will reach the server, or has."""
        self.acked += len(entry.members)
        self.mark = entry.mark

    def _run(self, position: int) -> HandlerRun:
        """Times count from the token, a tick of the lane's clock, and from the claim's answer: never too late, so that
        runs of two leases overlap only if their handlers did.
        """
        leased, (began, ended) = self.leased, self.times[position]
        start, message = int(leased.token), leased.messages[position]
        began_us, ended_us = (str(start + round((at - leased.claimed_at) * 1e6)) for at in (began, ended))
        score, stamp = leased.scores[position], str(message.stamp)
        return HandlerRun(message.id, score, stamp, began_us, ended_us, "1" if message.redriven else "0")

    def note(self, written: Written, *, has_progressed: bool) -> Note:
        """The entry that writes the ledger of the next message, behind the acknowledgement of the one before."""
        leased = self.leased
        before = leased.members[self.done - 1] if self.done else ""
        return Note(leased.key, leased.token, leased.members[self.done], before, written, has_progressed)

    def give_up(self, told: Told) -> Nack:
        """The entry for a failure of the next message; in a sequence, a message given up counts as passed.

        Of one that is parked the script leaves the mark.
        """
        leased, is_passed = self.leased, told.delay_s is None and self.mark.startswith("#")
        is_redriven = [leased.messages[self.done].redriven]
        mark = advance(self.mark, [leased.scores[self.done]], is_redriven) if is_passed else ""
        return Nack(
            leased.key,
            leased.token,
            leased.members[self.done],
            told.attempts,
            told.delay_s,
            told.failure,
            told.ending,
            mark,
            told.is_late,
            told.outage,
            told.is_timeout,
            written=told.written,
            has_progressed=told.has_progressed,
            is_missing=told.is_missing,
        )

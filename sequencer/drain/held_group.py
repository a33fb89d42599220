"""A leased group and how far it is: what is sent of its messages, and when they were handled. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..calls.claim import LeasedGroup
from ..calls.settle import Ack, EndingSaid, Nack, SaveStep
from ..settings.policy import HistoryKept
from ..store.ending import PLAIN, Remark, all_handled, handled
from ..store.failure import encode_failure
from ..store.ledger import Written
from ..store.watermark import advance
from .outcome import Failed


class History:
    """What a consumer writes into the history, while the queue keeps one."""

    def __init__(self, consumer: str, keeps: Callable[[], HistoryKept] = lambda: "") -> None:
        """`keeps`: what the queue keeps, as far as its client knows; asked at each claim."""
        self.consumer, self.keeps = consumer, keeps
        self.kept: HistoryKept = ""
        self.ahead_us = 0.0  # how far the server's clock, since 1970, is ahead of the consumer's

    def learn(self, now_us: int, sent_at: float, answered_at: float) -> None:
        """A claim was carried out at `now_us` by the server's clock: halfway between these, as far as can be known."""
        self.kept = self.keeps()
        if now_us:
            self.ahead_us = now_us - (sent_at + answered_at) / 2 * 1e6

    def endings(self, group: HeldGroup, first: int, done: int) -> Sequence[EndingSaid]:
        """Of the messages of a group from `first` to before `done`, whose handlers came to their end."""
        if group.remarks:
            return [self._said(group, at) for at in range(first, done)]
        messages, times = group.leased.messages[first:done], group.times[first:done]
        return all_handled(messages, times, self.ahead_us, self.consumer)

    def dropped(self, group: HeldGroup, began: float, ended: float) -> str:
        """Of the group's next message, which is given up after this attempt."""
        return "d" + self._text(group, group.done, began, ended)[1:]

    def _said(self, group: HeldGroup, at: int) -> EndingSaid:
        said, written = self._text(group, at, *group.times[at]), group.ledgers.get(at)
        return (said, written.text().decode()) if written else said

    def _text(self, group: HeldGroup, at: int, began: float, ended: float) -> str:
        message, ahead_us = group.leased.messages[at], self.ahead_us
        remark = group.remarks.get(at, PLAIN)
        attempts = max(message.attempt, remark.attempts)
        return handled(attempts, message.stamp, began * 1e6 + ahead_us, ended * 1e6 + ahead_us, self.consumer, remark)


class HeldGroup:
    def __init__(self, leased: LeasedGroup) -> None:
        self.leased, self.lease = leased, (leased.key, leased.token)
        self.history: History | None = None
        self.done = 0
        self.acked = 0
        self.is_open = True
        self.is_lost = False
        self.mark = leased.mark
        self.times: list[tuple[float, float]] = []
        """When each handler run began and ended; only for a history."""
        self.remarks: dict[int, Remark] = {}  # what history says besides of its messages, by position
        self.ledgers: dict[int, Written] = {}
        """Of those that are finished, where the history keeps contents: the last write, which is in no note."""
        self.tried: tuple[float, float] | None = None
        """When the handler run began and ended with which its next message failed."""

    def entry(self, done: int, *, release: bool) -> Ack:
        """The entry that acknowledges the messages up to `done`, and perhaps gives the group back."""
        first, leased = self.acked, self.leased
        if first == done:
            return Ack(leased.key, leased.token, [], release)
        messages, mark = leased.messages[first:done], self._passed(first, done)
        late = sum(message.late for message in messages) if messages[0].late else 0
        endings = self.history.endings(self, first, done) if self.history else ()
        follows = leased.members[done] if done < len(leased.members) else ""
        return Ack(leased.key, leased.token, leased.members[first:done], release, mark, late, follows, endings)

    def _passed(self, first: int, done: int) -> str:
        """The watermark with these messages passed."""
        leased = self.leased
        if self.mark.startswith("#"):
            redriven = [message.redriven for message in leased.messages[first:done]]
            return advance(self.mark, leased.scores[first:done], redriven)
        return advance(self.mark, (leased.scores[done - 1],))

    def acknowledged(self, entry: Ack) -> None:
        """This entry will reach the server, or has."""
        self.acked += len(entry.members)
        self.mark = entry.mark

    def save_step(self, written: Written, *, has_progressed: bool) -> SaveStep:
        """The entry that writes the ledger of the next message, behind the acknowledgement of the one before."""
        leased = self.leased
        before = leased.members[self.done - 1] if self.done else ""
        return SaveStep(leased.key, leased.token, leased.members[self.done], before, written, has_progressed)

    def give_up(self, failed: Failed) -> Nack:
        """The entry for a failure of the next message; in a sequence, a message given up counts as passed."""
        leased, at, decision, end = self.leased, self.done, failed.decision, failed.end
        is_over = decision.delay_s is None
        mark, ended = "", ""
        if is_over and self.mark.startswith("#"):
            mark = self._passed(at, at + 1)
        if self.history and self.tried and is_over and decision.ending == "drop" and failed.was_tried:
            ended = self.history.dropped(self, *self.tried)
        return Nack(
            leased.key,
            leased.token,
            leased.members[at],
            leased.messages[at].attempt - 1 if end else failed.failure.attempt,
            decision.delay_s,
            encode_failure(failed.failure, leased.members[at]),
            decision.ending,
            mark,
            failed.is_late,
            decision.outage,
            failed.is_timeout,
            written=failed.written,
            has_progressed=end is not None and end.has_progressed,
            is_missing=failed.is_missing,
            ended=ended,
        )

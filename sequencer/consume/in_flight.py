"""What is in flight on a consumer's link, and what goes over it next.

While more groups are due than one claim takes, the next claim is in flight while a batch is handled: from its start on
where handlers are quick, so that the server and the handlers work at the same time, else shortly before its end. Its
answer waits in the connection until the batch is done; its groups are released when that takes longer than it should.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple

from ..calls.call import UNDONE, Call
from ..calls.claim import Claimed, Halted, claim
from ..calls.settle import save_step
from ..drain.effects import Ahead, Clock, Flush, Note, SettleAndClaim
from ..drain.held import Held
from ..drain.pending_acks import Sending
from ..errors import SequencerError
from ..net.link import Link
from ..settings.options import ClaimLimits
from ..settings.pace import AHEAD_BYTES, AHEAD_S, ANSWER_S, OVERDUE_S, RELEASE_S, SMALL_BYTES


class Posted(NamedTuple):
    """What was posted and is not answered yet. `shard`: where the claim in it claims; None without one."""

    calls: list[Call[Any]]
    sending: Sending | None
    shard: int | None
    sent_at: float
    is_long: bool  # whether what it claims may be more than a server sends at once


class AnsweredClaim(NamedTuple):
    """A claim ahead that was answered and not asked for yet."""

    claimed: Claimed
    shard: int
    sent_at: float


class InFlight:
    """All that goes over a consumer's main link. What sends or waits raises SequencerError."""

    def __init__(self, held: Held, queue: str, owner: str, link: Link, *, clock: Clock) -> None:
        self.held, self._who, self.link, self._clock = held, (queue, owner, held.lease_s), link, clock
        self._in_flight: deque[Posted] = deque()
        self._answered_claim: AnsweredClaim | None = None
        self._planned: tuple[Ahead, float] | None = None  # a claim that is to set out, and when
        self._size = 0.0  # of the messages claimed last, on average
        self.halted: list[Halted] = []  # groups that claims halted; the shell has yet to tell it

    @contextmanager
    def in_one_piece(self) -> Iterator[None]:
        """An interrupt may come where an answer is half taken in: then the connection is given up."""
        try:
            yield
        except SequencerError:
            raise
        except BaseException:
            self.lose()
            self.link.close()
            raise

    @property
    def ahead_since(self) -> float | None:
        """When the claim was sent that nobody has asked for yet, if there is one."""
        if self._answered_claim:
            return self._answered_claim.sent_at
        return next((posted.sent_at for posted in self._in_flight if posted.shard is not None), None)

    def claim(self, shard: int, limits: ClaimLimits, *, ahead: bool = False, alone: int = 0) -> Call[Claimed]:
        keys = self.held.shards[shard]
        return claim(keys, *self._who, limits, ahead=ahead, alone=alone, with_failures=self.held.with_failures)

    def settle_and_claim(self, effect: SettleAndClaim) -> Claimed | None:
        """Settle everything, and bring the claim that is in flight, else claim now."""
        self.held.settle(everything=True)
        self._planned = None
        if self.ahead_since is not None and effect.shard is not None:
            return self._take_claim(effect)
        self.release_claim()
        held, shard = self.held, effect.shard
        sendings = [acks.sending(held.number, claims_next=shard) for acks in held.shard_acks if acks]
        calls = [call for sending in sendings for call in sending.calls]
        if shard is not None:
            calls.append(self.claim(shard, effect.limits, alone=effect.alone))
        if not calls:
            return None
        before = self._clock()
        results = self.link.run(calls)
        answers = iter(results)
        for sending in sendings:
            acked = list(islice(answers, len(sending.calls)))
            held.answered(sending, acked, before, is_repeat=self.link.is_repeat)
        if shard is None:
            return None
        claimed: Claimed = results[-1]
        self._note(claimed)
        held.take(shard, claimed.groups, before, self._clock(), claimed.now_us)
        return claimed

    def _take_claim(self, effect: SettleAndClaim) -> Claimed:
        """Bring the claim that is in flight; pending acks are posted, and with `ahead` the next claim behind it.

        What was answered is fetched before anything is posted, and read after it: while we read it the server need
        not be idle. Nor need it be once it has answered: the next claim is posted behind a short answer, not behind
        a long one, with which a server does not go on once it is at the next claim. What is not answered soon is not
        waited for: nobody else could send these acknowledgements meanwhile.
        """
        unread: tuple[Posted, list[Any]] | None = None
        try:
            within_s = ANSWER_S if any(posted.is_long for posted in self._in_flight) else 0.0
            while any(map(self._is_about_current_batch, self._in_flight)) or (
                not (unread or self._answered_claim) and self.link.is_answered(within_s)
            ):
                unread = self._collect_next() or unread
            sending = self.held.outgoing(claims_next=effect.shard if effect.ahead else None)
            if sending or effect.ahead:
                self._post(sending, effect if effect.ahead else None)
            while not (unread or self._answered_claim):
                unread = self._collect_next()
        except BaseException:
            if unread:
                with suppress(SequencerError):
                    self._take_in(*unread)
            self._release_answered()  # the server may have lost its data, and with it the lease
            raise
        if unread:
            self._taken_in(*unread)
        answered, self._answered_claim = self._answered_claim, None
        assert answered is not None
        self.held.take(answered.shard, answered.claimed.groups, answered.sent_at, self._clock())
        return answered.claimed

    def ahead(self, effect: Ahead) -> None:
        """Send a claim, unless one is in flight; or, if its time has not come yet, leave that to `on_tick`."""
        if effect.after_s > 0:
            self._planned = effect, self._clock() + effect.after_s
        elif self.ahead_since is None:  # alone: acks of the groups in progress may have to wait
            self._post(None, effect)

    def on_tick(self, now: float) -> None:
        """While a handler runs: send what is due, take in what is answered, release what would wait for too long."""
        if self._planned and now >= self._planned[1]:
            effect, self._planned = self._planned[0], None
            self.ahead(replace(effect, after_s=0.0))
        began, since = self.held.running_since, self.ahead_since
        if began is not None and since is not None and (now - since > AHEAD_S or now - max(began, since) > RELEASE_S):
            self.release_claim()
        elif self._in_flight:
            self.collect_all(is_awaited=now - self._in_flight[0].sent_at > OVERDUE_S)
        self.held.settle_late(now)
        self.send_due(now)

    def flush(self, effect: Flush) -> None:
        """Between two handlers: send what is finished, and what is due; perhaps wait for all answers."""
        self.held.settle()
        self.send_due(self._clock())
        if effect.is_awaited:
            self.collect_all()

    def send_due(self, now: float) -> None:
        """Send pending acks of the shard in progress, and renewals that are due. Of two acks of a group, the second
        must not be carried out where the first was not: so earlier answers are awaited.
        """
        if not self.held.has_due(now):
            return
        while any(map(self._is_about_current_batch, self._in_flight)):
            self._taken_in(*self._collect())
        if sending := self.held.outgoing(now=now):
            self._post(sending, None)
            if sending.renewals:
                self.collect_all()

    def collect_all(self, *, is_awaited: bool = True) -> None:
        """Take in all answers, or those that are there. A claim that took nothing is forgotten: one of now may."""
        while self._in_flight and (is_awaited or self.link.is_answered(0)):
            self._taken_in(*self._collect())
        if self._answered_claim and not self._answered_claim.claimed.groups:
            self._answered_claim = None

    def note(self, effect: Note) -> int:
        """Write a ledger, behind all pending acks of its group; the answer of the script, AGAIN, or UNCONFIRMED
        where replicas did not confirm it.

        What is in flight is awaited first: an acknowledgement of it that was refused is sent again in front. The note
        names the message before its own, so that nothing hangs on the order in which a server carries them out.
        """
        held, now = self.held, self._clock()
        self.collect_all()
        held.settle()
        sending = held.outgoing(now=now)
        acks = sending.calls if sending else []
        entry = effect.group.save_step(effect.written, has_progressed=effect.has_progressed)
        results = self.link.run([*acks, save_step(held.pending_acks.keys, entry)], wait=effect.wait)
        if sending:
            held.answered(sending, results[: len(acks)], now, is_repeat=self.link.is_repeat)
        return held.saved(effect, results[-1], is_repeat=self.link.is_repeat, confirmed=self.link.confirmed)

    def release_claim(self) -> None:
        """Let the groups that were claimed ahead go with what is sent next."""
        self.collect_all()
        self._release_answered()

    def lose(self) -> None:
        """The connection is lost: acks go again, groups of a claim ahead are released."""
        self._release_answered()
        for posted in reversed(self._in_flight):
            if posted.sending:
                posted.sending.source.put_back(posted.sending)
        self._in_flight.clear()

    def _is_about_current_batch(self, posted: Posted) -> bool:
        return posted.sending is not None and posted.sending.number == self.held.number

    def _release_answered(self) -> None:
        if answered := self._answered_claim:
            self.held.shard_acks[answered.shard].release(answered.claimed.groups)
            self._answered_claim = None

    def _note(self, claimed: Claimed) -> None:
        self._size = claimed.size or self._size
        self.halted += claimed.halted

    def _post(self, sending: Sending | None, ahead: Ahead | SettleAndClaim | None) -> None:
        """Send pending acks and, behind them, a claim ahead."""
        calls = [*sending.calls] if sending else []
        shard, is_long = None, self._size > SMALL_BYTES
        if ahead and ahead.shard is not None:
            shard, limits = ahead.shard, ahead.limits
            limits = limits if is_long else replace(limits, bytes=min(limits.bytes, AHEAD_BYTES))
            calls.append(self.claim(shard, limits, ahead=True))
        if sending:
            sending.source.posted()
        self._in_flight.append(Posted(calls, sending, shard, self._clock(), is_long and shard is not None))
        try:
            self.link.post(calls)
        except BaseException:
            self.lose()
            raise

    def _collect(self) -> tuple[Posted, list[Any]]:
        """The earliest of what is in flight, with its replies."""
        try:
            replies = self.link.collect(self._in_flight[0].calls)
        except BaseException:
            self.lose()
            raise
        return self._in_flight.popleft(), replies

    def _collect_next(self) -> tuple[Posted, list[Any]] | None:
        """Take in the earliest of what is in flight; leave a claim to the caller, unless acks are with it."""
        posted, replies = self._collect()
        if posted.shard is not None and not self._is_about_current_batch(posted):
            return posted, replies
        self._taken_in(posted, replies)
        return None

    def _taken_in(self, posted: Posted, replies: list[Any]) -> None:
        """Where the server refused something, the rest of its answers is taken in before the connection is closed."""
        if refusal := self._take_in(posted, replies):
            with suppress(SequencerError):
                self.collect_all()
            self.lose()
            self.link.close()
            raise refusal

    def _take_in(self, posted: Posted, replies: list[Any]) -> SequencerError | None:
        """What was posted is answered so; returns what the server refused, if it did."""
        sending = posted.sending
        try:
            results = self.link.parsed(posted.calls, replies)
        except BaseException:
            if sending:
                sending.source.put_back(sending)
            raise
        refusal = next((result for result in results if isinstance(result, SequencerError)), None)
        if sending:
            acked = results[: len(sending.calls)]
            if refusal or any(result is UNDONE for result in acked):
                sending.source.put_back(sending)
            else:
                self.held.answered(sending, acked, posted.sent_at)
        if posted.shard is not None:
            claimed = results[-1] if isinstance(results[-1], Claimed) else Claimed([])
            self._release_answered()  # one that was answered before is nobody's any more
            self._note(claimed)
            self._answered_claim = AnsweredClaim(replace(claimed, was_ahead=True), posted.shard, posted.sent_at)
        return refusal

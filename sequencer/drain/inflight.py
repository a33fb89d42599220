"""What is in flight on a consumer's link, and what goes over it next, as generators of effects. Pure.

A shell does on its link what each effect asks, as the second table in `effects` says.
Where an exception that no generator raised ends one between two effects, the shell calls `lose` and closes the link.

While more groups are due than one claim takes, the next claim is in flight while a batch is handled: from its start on
where handlers are quick, so that the server and the handlers work at the same time, else shortly before its end. Its
answer waits in the connection until the batch is done; its groups are released when that takes longer than it should.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple, NoReturn

from ..calls.call import UNDONE, Call
from ..calls.claim import Claimed, Halted, claim
from ..calls.settle import note
from ..errors import SequencerError
from ..settings.options import ClaimLimits
from ..settings.pace import AHEAD_BYTES, AHEAD_S, ANSWER_S, OVERDUE_S, RELEASE_S, SMALL_BYTES
from .effects import Ahead, Calls, Clock, Close, Collect, Exchange, IsAnswered, Note, Post, SendAndWait, SettleAndClaim
from .held import Held
from .pending_acks import Sending
from .steps.actions import AGAIN, UNCONFIRMED


class Posted(NamedTuple):
    """What was posted and is not answered yet. `shard`: where the claim in it looks, None when there is none."""

    calls: Calls
    sending: Sending | None
    shard: int | None
    sent_at: float
    is_long: bool
    """Whether what it claims may be more than a server sends at once."""


class AnsweredClaim(NamedTuple):
    """A claim ahead that was answered and not asked for yet."""

    claimed: Claimed
    shard: int
    sent_at: float


class InFlight:
    """All that goes over a consumer's main link. Methods that return Exchange raise SequencerError."""

    def __init__(
        self, held: Held, queue: str, owner: str, *, clock: Clock, read: Callable[[Calls, list[Any]], list[Any]]
    ) -> None:
        """For whom claims are made. `read`: what raw replies say; UNDONE for a script that the server lost, a
        SequencerError for a refusal.
        """
        self._held, self._who, self._clock, self._read = held, (queue, owner, held.lease_s), clock, read
        self._in_flight: deque[Posted] = deque()
        self._answered_claim: AnsweredClaim | None = None
        self._planned: tuple[Ahead, float] | None = None
        """A claim that is to set out, and when."""
        self._size = 0.0
        """Of the messages claimed last, on average."""
        self.halted: list[Halted] = []
        """Groups that claims halted; the shell has yet to tell it."""

    @property
    def ahead_since(self) -> float | None:
        """When the claim was sent that nobody has asked for yet, if there is one."""
        if self._answered_claim:
            return self._answered_claim.sent_at
        return next((posted.sent_at for posted in self._in_flight if posted.shard is not None), None)

    def claim(self, shard: int, limits: ClaimLimits, *, ahead: bool = False, alone: int = 0) -> Call[Claimed]:
        """The call that claims for this consumer."""
        keys = self._held.shards[shard]
        return claim(keys, *self._who, limits, ahead=ahead, alone=alone, with_failures=self._held.with_failures)

    def settle_and_claim(self, effect: SettleAndClaim) -> Exchange[Claimed | None]:
        """Settle everything, and bring the claim that is in flight, else claim now."""
        self._held.settle(everything=True)
        self._planned = None
        if self.ahead_since is None:
            if self._in_flight:
                yield from self.collect_all()
        elif effect.shard is None:
            yield from self.release_claim()
        else:
            return (yield from self._take_claim(effect))
        return (yield from self._settle_and_claim_now(effect))

    def _settle_and_claim_now(self, effect: SettleAndClaim) -> Exchange[Claimed | None]:
        held, shard = self._held, effect.shard
        sendings = [acks.sending(held.number, claims_next=shard) for acks in held.shard_acks if acks]
        calls = [call for sending in sendings for call in sending.calls]
        if shard is not None:
            calls.append(self.claim(shard, effect.limits, alone=effect.alone))
        if not calls:
            return None
        before = self._clock()
        results, is_repeat, _ = yield SendAndWait(calls)
        answers = iter(results)
        for sending in sendings:
            told = list(islice(answers, len(sending.calls)))
            held.answered(sending, told, before, is_repeat=is_repeat)
        if shard is None:
            return None
        claimed: Claimed = results[-1]
        self._note(claimed)
        held.take(shard, claimed.groups, before, self._clock(), claimed.now_us)
        return claimed

    def _take_claim(self, effect: SettleAndClaim) -> Exchange[Claimed]:
        """Bring the claim that is in flight; what is to be told is posted, and with `ahead` the next claim behind it.

        What was answered is fetched before anything is posted, and read after it: while we read it the server need
        not be idle. Nor need it be once it has answered: the next claim is posted behind a short answer, not behind
        a long one, with which a server does not go on once it is at the next claim. What is not answered soon is not
        waited for: nobody else could send these acknowledgements meanwhile.
        """
        unread: tuple[Posted, list[Any]] | None = None
        try:
            within_s = ANSWER_S if any(posted.is_long for posted in self._in_flight) else 0.0
            while any(map(self._is_about_current_batch, self._in_flight)) or (
                not (unread or self._answered_claim) and (yield IsAnswered(within_s))
            ):
                unread = (yield from self._collect_next()) or unread
            sending = self._held.outgoing(claims_next=effect.shard if effect.ahead else None)
            if sending or effect.ahead:
                yield from self._post(sending, effect if effect.ahead else None)
            while not (unread or self._answered_claim):
                unread = yield from self._collect_next()
        except BaseException:
            if unread:
                with suppress(SequencerError):
                    self._take_in(*unread)
            self._release_answered()  # the server may have lost its data, and with it the lease
            raise
        if unread:
            yield from self._taken_in(*unread)
        answered, self._answered_claim = self._answered_claim, None
        assert answered is not None
        self._held.take(answered.shard, answered.claimed.groups, answered.sent_at, self._clock())
        return answered.claimed

    def ahead(self, effect: Ahead) -> Exchange[None]:
        """Send a claim, unless one is in flight; or, if its time has not come yet, leave that to `on_tick`."""
        if effect.after_s > 0:
            self._planned = effect, self._clock() + effect.after_s
        elif self.ahead_since is None:  # alone: what is to be told of the groups in progress may have to wait
            yield from self._post(None, effect)

    def on_tick(self, now: float) -> Exchange[None]:
        """While a handler runs: send the claim whose time has come, take in what is answered, release what was
        claimed ahead of a handler that takes long, and send what would wait for it.
        """
        if self._planned and now >= self._planned[1]:
            effect, self._planned = self._planned[0], None
            yield from self.ahead(replace(effect, after_s=0.0))
        began, since = self._held.running_since, self.ahead_since
        if began is not None and since is not None and (now - since > AHEAD_S or now - max(began, since) > RELEASE_S):
            yield from self.release_claim()
        elif self._in_flight:
            yield from self.collect_all(is_awaited=now - self._in_flight[0].sent_at > OVERDUE_S)
        self._held.settle_late(now)
        yield from self.send_due(now)

    def flush(self, *, is_awaited: bool = False) -> Exchange[None]:
        """Between two handlers: send what is finished, and what is due; perhaps wait for all answers."""
        self._held.settle()
        yield from self.send_due(self._clock())
        if is_awaited:
            yield from self.collect_all()

    def send_due(self, now: float) -> Exchange[None]:
        """Send the pending acks of the shard in progress, and renewals that are due.

        Waits for the answers to renewals, and for those to earlier acknowledgements of the groups in progress: of two
        acknowledgements of a group, the second must not be carried out where the first was not.
        """
        if not self._held.has_due(now):
            return
        while any(map(self._is_about_current_batch, self._in_flight)):
            yield from self._taken_in(*(yield from self._collect()))
        if sending := self._held.outgoing(now=now):
            yield from self._post(sending, None)
            if sending.renewals:
                yield from self.collect_all()

    def collect_all(self, *, is_awaited: bool = True) -> Exchange[None]:
        """Take in all answers, or those that are there. A claim that took nothing is forgotten: one of now may."""
        while self._in_flight and (is_awaited or (yield IsAnswered(0))):
            yield from self._taken_in(*(yield from self._collect()))
        if self._answered_claim and not self._answered_claim.claimed.groups:
            self._answered_claim = None

    def note(self, effect: Note) -> Exchange[int]:
        """Write a ledger, behind all that is to be told of its group; the answer of the script, AGAIN, or UNCONFIRMED
        where replicas did not confirm it.

        What is in flight is awaited first: an acknowledgement of it that was refused is sent again in front. The note
        names the message before its own, so that nothing hangs on the order in which a server carries them out.
        """
        held, now = self._held, self._clock()
        yield from self.collect_all()
        held.settle()
        sending = held.outgoing(now=now)
        told = list(sending.calls) if sending else []
        entry = effect.group.note(effect.written, has_progressed=effect.has_progressed)
        results, is_repeat, confirmed = yield SendAndWait([*told, note(held.pending_acks.keys, entry)], effect.wait)
        if sending:
            held.answered(sending, results[: len(told)], now, is_repeat=is_repeat)
        code: int = results[-1]
        if code == 0:
            held.lose(effect.group)
        if code != 1 or not effect.wait:
            return code
        if is_repeat:  # the first attempt may have written it over another connection, and WAIT speaks of its own only
            return AGAIN
        return UNCONFIRMED if confirmed < effect.wait[0] else code

    def release_claim(self) -> Exchange[None]:
        """Let the groups that were claimed ahead go with what is sent next."""
        yield from self.collect_all()
        self._release_answered()

    def lose(self) -> None:
        """The connection is lost: what was told is to be told again, and groups that were claimed ahead are released.
        Those of an answer that never came wait for the end of their leases.
        """
        self._release_answered()
        for posted in reversed(self._in_flight):
            if posted.sending:
                posted.sending.source.put_back(posted.sending)
        self._in_flight.clear()

    def _is_about_current_batch(self, posted: Posted) -> bool:
        return posted.sending is not None and posted.sending.number == self._held.number

    def _release_answered(self) -> None:
        if answered := self._answered_claim:
            self._held.shard_acks[answered.shard].release(answered.claimed.groups)
            self._answered_claim = None

    def _note(self, claimed: Claimed) -> None:
        self._size = claimed.size or self._size
        self.halted += claimed.halted

    def _post(self, sending: Sending | None, ahead: Ahead | SettleAndClaim | None) -> Exchange[None]:
        """Send what is to be told and, behind it, a claim ahead."""
        calls = list(sending.calls) if sending else []
        shard, is_long = None, False
        if ahead and ahead.shard is not None:
            shard, limits, is_long = ahead.shard, ahead.limits, self._size > SMALL_BYTES
            limits = limits if is_long else replace(limits, bytes=min(limits.bytes, AHEAD_BYTES))
            calls.append(self.claim(shard, limits, ahead=True))
        if sending:
            sending.source.posted()
        self._in_flight.append(Posted(calls, sending, shard, self._clock(), is_long))
        try:
            yield Post(calls)
        except BaseException:
            self.lose()
            raise

    def _collect(self) -> Exchange[tuple[Posted, list[Any]]]:
        """The earliest of what is in flight, with its replies."""
        try:
            replies = yield Collect(self._in_flight[0].calls)
        except BaseException:
            self.lose()
            raise
        return self._in_flight.popleft(), replies

    def _collect_next(self) -> Exchange[tuple[Posted, list[Any]] | None]:
        """Take in the earliest of what is in flight; leave a claim to the caller, unless it tells of these groups."""
        posted, replies = yield from self._collect()
        if posted.shard is not None and not self._is_about_current_batch(posted):
            return posted, replies
        yield from self._taken_in(posted, replies)
        return None

    def _taken_in(self, posted: Posted, replies: list[Any]) -> Exchange[None]:
        if refusal := self._take_in(posted, replies):
            yield from self._give_up(refusal)

    def _take_in(self, posted: Posted, replies: list[Any]) -> SequencerError | None:
        """What was posted is answered so; returns what the server refused, if it did."""
        sending = posted.sending
        try:
            results = self._read(posted.calls, replies)
        except BaseException:
            if sending:
                sending.source.put_back(sending)
            raise
        refusal = next((result for result in results if isinstance(result, SequencerError)), None)
        if sending:
            told = results[: len(sending.calls)]
            if refusal or any(result is UNDONE for result in told):
                sending.source.put_back(sending)
            else:
                self._held.answered(sending, told, posted.sent_at)
        if posted.shard is not None:
            claimed = results[-1] if isinstance(results[-1], Claimed) else Claimed([])
            self._release_answered()  # one that was answered before is nobody's any more
            self._note(claimed)
            self._answered_claim = AnsweredClaim(replace(claimed, was_ahead=True), posted.shard, posted.sent_at)
        return refusal

    def _give_up(self, refusal: SequencerError) -> Exchange[NoReturn]:
        """The server refused something: what else it has answered is taken in before the connection is given up."""
        with suppress(SequencerError):
            yield from self.collect_all()
        self.lose()
        yield Close()
        raise refusal

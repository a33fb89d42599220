"""Carries what a consumer holds to the server, and brings what it claims: in turn, or one claim ahead of the handlers.

While more groups are due than one claim takes, the next claim is on its way while a batch is handled: from its start on
where handlers are quick, so that the server and the handlers work at the same time, else shortly before its end. Its
answer waits in the connection until the batch is done; its groups are given back when that takes longer than it should.
The caller holds the lock around every call.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from ..calls.call import Call
from ..calls.claim import Claimed, Halted, claim
from ..drain.effects import Ahead, Exchange
from ..drain.held import Holdings, Sending
from ..errors import SequencerError
from ..net.link import UNDONE, Link
from ..settings.options import ClaimLimits, ConsumerOptions, QueueOptions
from ..settings.pace import AHEAD_BYTES, AHEAD_S, ANSWER_S, GIVE_BACK_S, OVERDUE_S, SMALL_BYTES
from ..store.keys import LaneKeys


@dataclass(frozen=True, slots=True)
class Flight:
    """What was sent and is not answered yet. `lane`: where the claim in it looks, None when there is none."""

    calls: list[Call[Any]]
    sending: Sending | None
    lane: int | None
    sent_at: float
    is_long: bool = False
    """Whether what it claims may be more than a server sends at once."""


class Courier:
    """All that goes over a consumer's main link."""

    def __init__(
        self,
        link: Link,
        holdings: Holdings,
        lanes: Sequence[LaneKeys],
        queue: QueueOptions,
        options: ConsumerOptions,
        owner: str,
    ) -> None:
        self.link = link
        self._holdings, self._lanes, self._queue, self._options, self._owner = holdings, lanes, queue, options, owner
        self._flights: deque[Flight] = deque()
        self._landed: tuple[Claimed, int, float] | None = None
        """A claim that was answered and not asked for yet: what it took, its lane, and when it was sent."""
        self._planned: tuple[Ahead, float] | None = None
        """A claim that is to set out, and when."""
        self._size = 0.0
        """Of the messages claimed last, on average."""
        self.untold: list[Halted] = []
        """Groups that claims halted; the shell has yet to tell it."""

    @property
    def ahead_since(self) -> float | None:
        """When the claim was sent that nobody has asked for yet, if there is one."""
        if self._landed:
            return self._landed[2]
        return next((flight.sent_at for flight in self._flights if flight.lane is not None), None)

    def exchange(self, effect: Exchange) -> Claimed | None:
        """Settle everything, and bring the claim that is on its way, else claim now. Raises ServerError."""
        self._holdings.settle(everything=True)
        self._planned = None
        if self.ahead_since is None:
            self.land()
            return self._exchange_now(effect)
        if effect.lane is None:
            self.bring_back()
            return self._exchange_now(effect)
        # What was answered is fetched before anything is posted, and read after it: while we read it the server need
        # not be idle. Nor need it be once it has answered: the next claim is posted behind a short answer, not behind
        # a long one, with which a server does not go on once it is at the next claim. What is not answered soon is not
        # waited for: nobody else could send these acknowledgements meanwhile.
        answer: tuple[Flight, list[Any]] | None = None
        try:
            within_s = ANSWER_S if any(flight.is_long for flight in self._flights) else 0.0
            while self._tells_of_these() or (not (answer or self._landed) and self.link.is_answered(within_s)):
                answer = self._next() or answer
            self._post(effect)
            while not (answer or self._landed):
                answer = self._next()
        except BaseException:
            if answer:
                self._take_in(*answer)
            self._give_back()  # the server may have lost its data, and with it the lease
            raise
        if answer:
            self._take_in(*answer)
        assert self._landed is not None
        claimed, lane, sent_at = self._landed
        self._landed = None
        self._holdings.take(lane, claimed.groups, sent_at, time.monotonic())
        return claimed

    def ahead(self, effect: Ahead) -> None:
        """Send a claim, unless one is on its way; or, if its time has not come yet, leave that to `look`. Raises
        ServerError.
        """
        if effect.after_s > 0:
            self._planned = effect, time.monotonic() + effect.after_s
        elif self.ahead_since is None:  # alone: what is to be told of the groups in hand may have to wait, see `flush`
            self._dispatch(None, [], effect)

    def look(self, now: float) -> None:
        """While a handler runs: send the claim whose time has come, take in what is answered, and give back what was
        claimed ahead of a handler that takes long. Raises ServerError.
        """
        if self._planned and now >= self._planned[1]:
            effect, self._planned = self._planned[0], None
            self.ahead(replace(effect, after_s=0.0))
        began, since = self._holdings.running_since, self.ahead_since
        if began is not None and since is not None and (now - since > AHEAD_S or now - max(began, since) > GIVE_BACK_S):
            self.bring_back()
        else:
            self.land(is_awaited=bool(self._flights) and now - self._flights[0].sent_at > OVERDUE_S)

    def tick(self, now: float) -> None:
        """While a handler runs: send what would wait for it. Raises ServerError."""
        self._holdings.tick(now)
        self.flush(now)

    def flush(self, now: float) -> None:
        """Send what is due, renewals too. Only the answer to those is waited for, and that to what was told of these
        groups before: of two acknowledgements of a group, the second must not be carried out where the first was not.
        Raises ServerError.
        """
        if not self._holdings.has_due(now):
            return
        while self._tells_of_these():
            self._take_in(*self._fetch())
        if sending := self._holdings.outgoing(now=now):
            self._dispatch(sending, sending.calls)
            if sending.renewals:
                self.land()

    def _tells_of_these(self) -> bool:
        """Whether something is on its way that tells of the groups in hand."""
        return any(self._tells(flight) for flight in self._flights)

    def _tells(self, flight: Flight) -> bool:
        return flight.sending is not None and flight.sending.number == self._holdings.number

    def land(self, *, is_awaited: bool = True) -> bool:
        """Take in all answers that are on their way, or those that are there; whether a claim among them took groups.
        Raises ServerError.

        One that took none is forgotten: it left out what only a claim of now may take.
        """
        while self._flights and (is_awaited or self.link.is_answered(0)):
            self._take_in(*self._fetch())
        if self._landed and not self._landed[0].groups:
            self._landed = None
        return self._landed is not None

    def bring_back(self) -> None:
        """Let the groups that were claimed ahead go with what is sent next. Raises ServerError."""
        self.land()
        self._give_back()

    def _give_back(self) -> None:
        if self._landed:
            self._holdings.give_back(self._landed[0].groups)
            self._landed = None

    def _exchange_now(self, effect: Exchange) -> Claimed | None:
        holdings, lane = self._holdings, effect.lane
        sending = holdings.outgoing(claims_next=lane)
        calls = list(sending.calls) if sending else []
        if lane is not None:
            calls.append(self.claim(lane, effect.limits, alone=effect.alone))
        if not calls:
            return None
        before = time.monotonic()
        results = self.link.run(calls, in_order=sending is not None and sending.needs_order)
        if sending:
            holdings.sent(sending, results, before, is_repeat=self.link.is_repeat)
        if lane is None:
            return None
        claimed: Claimed = results[-1]
        self._note(claimed)
        holdings.take(lane, claimed.groups, before, time.monotonic())
        return claimed

    def _note(self, claimed: Claimed) -> None:
        self._size = claimed.size or self._size
        self.untold += claimed.halted

    def claim(self, lane: int, limits: ClaimLimits, *, ahead: bool = False, alone: int = 0) -> Call[Claimed]:
        """The call that claims for this consumer."""
        keys, options = self._lanes[lane], self._options
        return claim(keys, self._queue.queue, self._owner, options.lease_s, limits, ahead=ahead, alone=alone)

    def _post(self, effect: Exchange) -> None:
        """Send what is to be told, and the next claim if there is to be one."""
        sending = self._holdings.outgoing(claims_next=effect.lane if effect.ahead else None)
        if sending or effect.ahead:
            self._dispatch(sending, list(sending.calls) if sending else [], effect if effect.ahead else None)

    def _dispatch(self, sending: Sending | None, calls: list[Call[Any]], ahead: Ahead | Exchange | None = None) -> None:
        """Send these calls and, behind them, a claim ahead."""
        lane, is_long = None, False
        if ahead and ahead.lane is not None:
            lane, limits, is_long = ahead.lane, ahead.limits, self._size > SMALL_BYTES
            limits = limits if is_long else replace(limits, bytes=min(limits.bytes, AHEAD_BYTES))
            calls.append(self.claim(lane, limits, ahead=True))
        if sending:
            self._holdings.depart(sending)
        self._flights.append(Flight(calls, sending, lane, time.monotonic(), is_long))
        try:
            self.link.post(calls, in_order=sending is not None and sending.needs_order)
        except BaseException:
            self._crash()
            raise

    def _fetch(self) -> tuple[Flight, list[Any]]:
        """The earliest of what is on its way, with its replies."""
        flight = self._flights[0]
        try:
            replies = self.link.collect(flight.calls)
        except BaseException:
            self._crash()
            raise
        return self._flights.popleft(), replies

    def _next(self) -> tuple[Flight, list[Any]] | None:
        """Take in the earliest of what is on its way; leave a claim to the caller, unless it tells of these groups."""
        flight, replies = self._fetch()
        if flight.lane is not None and not self._tells(flight):
            return flight, replies
        self._take_in(flight, replies)
        return None

    def _take_in(self, flight: Flight, replies: list[Any]) -> None:
        try:
            results = self.link.parsed(flight.calls, replies)
        except SequencerError:
            if flight.sending:
                self._holdings.came_back(flight.sending)
            raise
        refusal = next((result for result in results if isinstance(result, SequencerError)), None)
        if flight.sending:
            told = results[: len(flight.sending.calls)]
            if refusal or any(result is UNDONE for result in told):
                self._holdings.came_back(flight.sending)
            else:
                self._holdings.sent(flight.sending, told, flight.sent_at)
        if flight.lane is not None:
            claimed = results[-1] if isinstance(results[-1], Claimed) else Claimed([])
            self._give_back()  # one that landed before is nobody's any more
            self._note(claimed)
            self._landed = replace(claimed, was_ahead=True), flight.lane, flight.sent_at
        if refusal:
            self._give_up(refusal)

    def _give_up(self, refusal: SequencerError) -> NoReturn:
        """The server refused something: what else it has answered is taken in before the connection is given up."""
        with suppress(SequencerError):
            self.land()
        self._crash()
        self.link.close()
        raise refusal

    def _crash(self) -> None:
        """The connection is lost: what was told is to be told again, and groups that were claimed ahead are given back.
        Those of an answer that never came wait for the end of their leases.
        """
        self._give_back()
        for flight in reversed(self._flights):
            if flight.sending:
                self._holdings.came_back(flight.sending)
        self._flights.clear()

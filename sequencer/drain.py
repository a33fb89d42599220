"""The consumer's protocol as a generator of effects: claim, handle, acknowledge, wait. Pure.

A shell (`consumer.py`) does what each effect asks and sends the answer back:

    Exchange(lane, limits)  settle everything held and, unless lane is None, claim from it, in one round trip: so many
                            messages, or `alone` of a group that is due alone, if that is more
                            -> Claimed, already held; raises ServerUnavailable into the generator. If a claim is on its
                            way, that is what comes; with `ahead` the next one sets out then
    Ahead(lane, limits, after_s)
                            send a claim, unless one is on its way, and wait for nothing -> None; so long from now, or
                            never, if an Exchange comes before. Raises ServerUnavailable. A shell may leave it out
    Message                 run the handler -> None, or the exception it raised
    Failed                  tell what a message failed with and what becomes of it, before the server learns it -> None
    Flush()                 send acknowledgements and renewals that are due -> None; raises ServerUnavailable
    Wait(seconds, lane, limits)
                            sleep until a dispatch hint, at most so long, and unless lane is None claim from it right
                            then -> Claimed, already held, or None; raises ServerUnavailable
    Pause(seconds)          sleep without asking the server -> None

Order rests on one rule: the next message of a group is yielded only after the handler of the one before it
succeeded, and only while the group's lease counts as held.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

from .backoff import RECONNECT
from .claimed import Claimed
from .decisions import Failed, judge
from .errors import ServerUnavailable, StopConsuming
from .gate import refusal_of
from .holdings import FLUSH_S, Clock, Held, Holdings
from .message import ConsumeSummary, Message
from .options import ClaimLimits, ConsumerOptions, QueueOptions

BATCH_S = 0.007
"""How long a batch should take: so long its consumer sits on groups that another could take (benchmark `fairness`)."""
ALONE_S = 0.05
"""How long it may take when nothing else is due: after BATCH_S it ends once the answer to an acknowledgement tells of
something. Not where one handler takes a good part of BATCH_S: that answer comes while the next one runs.
"""
ALONE_LEAST = 3
"""Handlers that BATCH_S must have room for, for that."""
TOO_LONG = 1.6
"""A batch that takes so many times as long is followed by one of BATCH_S, where more than its group is due."""
QUICK_S = 0.0005
"""Handlers that take less are quick: the next batch is claimed as soon as this one is, if that is done in BATCH_S."""
ALIKE_S = 0.02
"""Two batches in a row that differ by less tell when the next one ends."""
LEAD_S = 0.006
"""A claim sets out so long before the end of a batch that takes its time: a round trip, and a tick of the keeper."""
IDLE_S = 1.0
"""An idle consumer looks again after this long, in case a hint was lost."""
ENDING_S = 0.1
"""With `until_empty`, how often to look whether the others have finished their groups."""


@dataclass(frozen=True, slots=True)
class Exchange:
    lane: int | None
    limits: ClaimLimits = field(default_factory=ClaimLimits)
    ahead: bool = False
    alone: int = 0


@dataclass(frozen=True, slots=True)
class Ahead:
    lane: int
    limits: ClaimLimits
    after_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Flush:
    pass


@dataclass(frozen=True, slots=True)
class Wait:
    seconds: float
    lane: int | None = None
    limits: ClaimLimits = field(default_factory=ClaimLimits)


@dataclass(frozen=True, slots=True)
class Pause:
    seconds: float


Effect = Exchange | Ahead | Message | Failed | Flush | Wait | Pause
Drain = Generator[Effect, Any, ConsumeSummary]
Handler = Callable[[Message], Any]


@dataclass(slots=True)
class Control:
    """The shell's note to the generator: stop before the next message."""

    is_stopping: bool = False


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


def drain(
    holdings: Holdings,
    queue: QueueOptions,
    options: ConsumerOptions,
    control: Control,
    *,
    owner: str,
    clock: Clock,
    wall: Clock,
    random: Clock,
    lock: AbstractContextManager[Any],
) -> Drain:
    """Drain the queue's lanes until told to stop; the summary is the generator's return value.

    `clock` is monotonic and `wall` since 1970, both in seconds; `random` gives numbers in [0, 1).
    """
    size = BatchSize(options.limits)
    born, lanes = clock(), len(holdings.lanes)
    lane, idle, waits, troubles, failed, handled, late = 0, 0, [IDLE_S], 0, 0, 0, 0
    empty = goes_ahead = True
    brought: Claimed | None = None  # by a wait

    def ending() -> str | None:
        if control.is_stopping:
            return "stopped"
        if options.max_messages is not None and handled + failed >= options.max_messages:
            return "recycled"
        if options.max_age_s is not None and clock() - born >= options.max_age_s:
            return "recycled"
        return None

    while (reason := ending()) is None:
        left = None if options.max_messages is None else options.max_messages - handled - failed
        try:
            # With several lanes nothing is claimed ahead: what is sent belongs to one lane.
            may_ahead = goes_ahead and lanes == 1 and left is None
            ahead = may_ahead and size.is_quick
            alone = size.alone if lanes == 1 and left is None else 0
            claimed: Claimed = brought or (yield Exchange(lane, size.next_limits(left), ahead, alone))
        except ServerUnavailable:
            troubles += 1
            if clock() >= holdings.deadline:
                with lock:
                    holdings.abandon()
            yield Pause(RECONNECT.delay_s(troubles, random()))
            continue
        troubles, lane, brought = 0, (lane + 1) % lanes, None
        goes_ahead = bool(claimed.groups) or not claimed.was_ahead
        if not goes_ahead:
            continue
        if not claimed.groups:
            idle, empty = idle + 1, empty and claimed.is_empty
            waits.append(IDLE_S if claimed.next_due_s is None else claimed.next_due_s)
            if idle >= lanes:
                if options.until_empty and empty:
                    reason = "drained"
                    break
                seconds = min([*waits, ENDING_S] if options.until_empty else waits)
                try:
                    # A hint does not say to a claim which of several lanes it is for.
                    brought = yield Wait(seconds, lane if lanes == 1 else None, size.first_limits(left))
                except ServerUnavailable:
                    yield Pause(RECONNECT.base_s)
                idle, empty, waits = 0, True, [IDLE_S]
            continue
        idle, empty, waits = 0, True, [IDLE_S]

        if may_ahead and claimed.has_more and (after_s := size.claims_after_s()) is not None:
            with suppress(ServerUnavailable):
                yield Ahead(lane, size.next_limits(left), after_s)
        began, before = clock(), handled + failed + late
        until = math.inf if claimed.has_more else began + BATCH_S
        for index, held in enumerate(holdings.groups):
            is_open = holdings.begin(index)
            if is_open is None:
                with lock:
                    is_open = held.is_open
            if is_open:
                problem = yield from _handle_group(holdings, held, until, queue, control, clock, lock)
                handled = holdings.handled
                if isinstance(problem, StopConsuming):
                    control.is_stopping = True
                elif problem is not None:
                    message, member = held.leased.messages[held.done], held.leased.members[held.done]
                    one = judge(queue, message, problem, owner=owner, at=wall(), random=random(), is_held=held.is_open)
                    failed, late = failed + (not one.is_late), late + one.is_late
                    yield one
                    told = one.told(member)
                    with lock:
                        holdings.fail(held, *told)
        is_alone = not (claimed.has_more or holdings.is_more_due)
        size.learn(handled + failed + late - before, clock() - began, is_alone=is_alone)

    for _ in range(3):
        try:
            yield Exchange(None)
            break
        except ServerUnavailable:
            yield Pause(RECONNECT.base_s)
    return ConsumeSummary(reason, handled, failed, holdings.lost)  # type: ignore[arg-type]


def _handle_group(
    holdings: Holdings,
    held: Held,
    until: float,
    queue: QueueOptions,
    control: Control,
    clock: Clock,
    lock: AbstractContextManager[Any],
) -> Generator[Effect, Any, BaseException | None]:
    """Handle the messages of one group in order; returns what its head failed with, or None.

    From `until` on none but the first is begun once an acknowledgement has told that other groups are due.
    """
    leased, now = held.leased, clock()
    last = len(leased.messages) - 1 if leased.undecodable else None
    for position, message in enumerate(leased.messages):
        if now >= holdings.deadline or (holdings.finished_at is not None and now - holdings.finished_at >= FLUSH_S):
            with lock:
                holdings.settle()
            with suppress(ServerUnavailable):
                yield Flush()
            now = clock()  # it may have waited for an answer for longer than the lease
            if now >= holdings.deadline:
                return None
        if control.is_stopping or not held.is_open or (position and holdings.is_more_due and now >= until):
            return None
        # No other message can be refused, and a call for each of them would show.
        is_doubtful = message.late or message.attempt > 1 or position == last
        if is_doubtful and (refusal := refusal_of(queue, leased, position)):
            return refusal
        holdings.running_since = began = now
        problem: BaseException | None = yield message
        now = clock()
        holdings.running_since = None
        if problem is not None:
            return problem
        holdings.finish(held, began, now)
    return None

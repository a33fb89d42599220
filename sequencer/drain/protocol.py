"""The consumer's protocol as a generator of effects: claim, handle, acknowledge, wait. Pure.

A shell does what each effect asks and sends the answer back; the effects stand in a table in `effects`.

Order rests on one rule: the next message of a group is yielded only after the handler of the one before it
succeeded, and only while the group's lease counts as held.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Generator
from contextlib import suppress
from functools import partial
from typing import Any

from ..calls.claim import Claimed
from ..errors import ServerUnavailable, StopConsuming
from ..settings.backoff import RECONNECT
from ..settings.options import ConsumerOptions
from ..settings.pace import ENDING_S, FLUSH_S, IDLE_S
from ..values.durations import RUN_BOUNDS_S
from ..values.message import ConsumeSummary
from .batch import BatchEnd, BatchSize, of_batches
from .batches import handle_batches
from .effects import Ahead, Drain, Effect, Flush, Handle, Locked, SettleAndClaim, Sleep, Tell, Wait, handled
from .held_group import HeldGroup
from .outcome import Failed, refusal_of
from .steps.actions import Finished, Stopped, Unfinished
from .steps.runner import MISSING_S, StepRunner


def drain(runner: StepRunner, options: ConsumerOptions) -> Drain:
    """Drain the queue's shards until a stop; the summary is the generator's return value."""
    held, clock, random = runner.held, runner.clock, runner.random
    size = BatchSize(options.limits)
    handle = _handle_group
    if runner.batch:
        handle, size = handle_batches, of_batches(options.limits, runner.batch.size, is_slot=bool(held.shared_acks))
    held.with_failures = runner.declared is not None
    born, shards = clock(), 1 if held.shared_acks else len(held.shards)
    shard = troubles = late = 0
    idle: list[Claimed] = []  # what the shards said since one of them had something due
    is_lone = len(held.shards) == 1 and options.max_messages is None
    """With several shards nothing is claimed ahead: what is sent belongs to one shard."""
    goes_ahead = True
    claimed_while_waiting: Claimed | None = None

    def ending() -> str | None:
        if runner.is_stopping:
            return "stopped"
        if options.max_messages is not None and held.handled + held.failed >= options.max_messages:
            return "recycled"
        if options.max_age_s is not None and clock() - born >= options.max_age_s:
            return "recycled"
        return None

    while (reason := ending()) is None:
        left = None if options.max_messages is None else options.max_messages - held.handled - held.failed
        try:
            may_ahead, alone = goes_ahead and is_lone, size.alone if is_lone else 0
            claim = SettleAndClaim(shard, size.next_limits(left), may_ahead and size.is_quick, alone)
            claimed: Claimed = claimed_while_waiting or (yield claim)
        except ServerUnavailable:
            troubles += 1
            if clock() >= held.deadline:
                yield Locked(held.abandon)
            yield Sleep(RECONNECT.delay_s(troubles, random()))
            continue
        troubles, shard, claimed_while_waiting = 0, (shard + 1) % shards, None
        goes_ahead = bool(claimed.groups) or not claimed.was_ahead
        if not goes_ahead:
            continue
        if not claimed.groups:
            idle.append(claimed)
            if len(idle) >= shards:
                dues_s = [IDLE_S if one.next_due_s is None else one.next_due_s for one in idle]
                seconds = min(IDLE_S, *dues_s)  # 0 where something may be due already
                is_empty = all(one.is_empty for one in idle)
                if (options.until_empty and is_empty) or (options.until_idle and seconds > 0):
                    reason = "drained"
                    break
                if options.until_empty:
                    seconds = min(seconds, ENDING_S)
                if options.max_age_s is not None:
                    seconds = max(0.0, min(seconds, born + options.max_age_s - clock()))
                try:
                    answer = yield Wait(seconds, shard if shards == 1 else None, size.first_limits(left))
                    if isinstance(answer, int):
                        shard = answer
                    else:
                        claimed_while_waiting = answer
                except ServerUnavailable:
                    yield Sleep(RECONNECT.base_s)
                idle.clear()
            continue
        idle.clear()

        if may_ahead and claimed.has_more and (after_s := size.claims_after_s()) is not None:
            with suppress(ServerUnavailable):
                yield Ahead(shard, size.next_limits(left), after_s)
        began, before = clock(), held.handled + held.failed + late
        end = size.end_of(claimed, began)
        for index, group in enumerate(held.groups):
            is_open = held.begin(index)
            if is_open is None:
                is_open = yield Locked(partial(getattr, group, "is_open"))
            if is_open:
                problem = yield from handle(group, end, runner)
                if isinstance(problem, StopConsuming):
                    runner.is_stopping = True
                elif problem is not None:
                    one = runner.failed(problem, group)
                    late += one.is_late
                    held.failed += one.is_held and not (one.is_late or one.is_missing)
                    yield from _give_up(group, runner, one)
            if held.is_held_back or clock() >= end.latest_s:
                break
        is_alone = not (claimed.has_more or held.is_more_due)
        size.learn(held.handled + held.failed + late - before, clock() - began, is_alone=is_alone)
        if held.is_held_back:  # also what was claimed ahead is released
            with suppress(ServerUnavailable):
                yield SettleAndClaim(None)

    for _ in range(1 if held.shared_acks else 3):  # what worker slots leave is sent at the end of their hub
        try:
            yield SettleAndClaim(None)
            if not any(held.shard_acks):  # nothing is left to be sent again
                break
        except ServerUnavailable:
            yield Sleep(RECONNECT.base_s)
    return ConsumeSummary(reason, held.handled, held.failed, held.lost)  # type: ignore[arg-type]


def _give_up(group: HeldGroup, runner: StepRunner, one: Failed) -> Generator[Effect, Any, None]:
    """The head fails. That is logged before the server learns of it, but of an outage the server decides first."""
    held = runner.held
    if one.is_missing:  # another version of the program may have what it needs
        if runner.waited_s >= MISSING_S:
            left_s = round(max(runner.queue.missing_wait_s - runner.waited_s, 0.0), 3)
            once = ("step missing", one.message.group, one.message.id, one.message.stamp)
            yield Tell("step missing", one.message, {"error": one.error, "retry_in_s": left_s, "once": once})
    elif not one.decision.outage:
        yield one
    yield Locked(partial(held.fail, group, one))
    if one.decision.outage:
        with suppress(ServerUnavailable):
            yield Flush(is_awaited=True)
        yield one.answered((yield Locked(partial(held.nacked.pop, group.lease, None))))


def _handle_group(
    group: HeldGroup, end: BatchEnd, runner: StepRunner
) -> Generator[Effect, Any, BaseException | Unfinished | None]:
    """Handle messages of one group in order; returns what its head failed with. The first one is always begun."""
    held, queue, clock = runner.held, runner.queue, runner.clock
    leased, now = group.leased, clock()
    asks, told_s, latest_s = end.asks, end.told_s, end.latest_s
    last = len(leased.messages) - 1 if leased.undecodable else None
    handle = Handle(leased.messages[0])
    runs, quick_s = held.runs, RUN_BOUNDS_S[0]
    has_steps, ledgers, tells = runner.declared is not None, leased.ledgers, runner.tells_successes
    for position, message in enumerate(leased.messages):
        is_asked = asks and position
        if is_asked or now >= held.deadline or (held.finished_at is not None and now - held.finished_at >= FLUSH_S):
            try:
                yield Flush(is_awaited=bool(is_asked))
            except ServerUnavailable:
                if is_asked:
                    return None
            now = clock()  # it may have waited for an answer for longer than the lease
            if now >= held.deadline:
                return None
        if runner.is_stopping or not group.is_open:
            return None
        if position and (now >= latest_s or (held.is_more_due and now >= told_s)):
            return None
        if has_steps or (ledgers and ledgers[position]):
            began, ran_s = clock(), held.handlers_s
            done = yield from runner.handle(group, position)
            now = clock()
            if held.handlers_s > ran_s:
                held.count_run(held.handlers_s - ran_s)
            if isinstance(done, Unfinished):
                group.tried = began, now
                return done
            if not isinstance(done, Finished):
                return done.error if isinstance(done, Stopped) else None
            if has_steps:
                held.finish(group, began, now)
                if tells:
                    yield handled(runner.message, now - began)
                continue
        # No other message can be refused, and a call for each of them would show.
        is_doubtful = message.late or message.attempt > 1 or position == last
        if is_doubtful and (refusal := refusal_of(queue, leased, position)):
            return refusal
        held.running_since = began = now
        handle.message = message
        problem: BaseException | None = yield handle
        now = clock()
        held.running_since = None
        held.handlers_s += (took_s := now - began)
        runs[bisect_left(RUN_BOUNDS_S, took_s) if took_s > quick_s else 0] += 1
        if problem is not None:
            group.tried = began, now
            return problem
        held.finish(group, began, now)
        if tells:
            yield handled(message, took_s)
    return None

"""Hands messages of one group to a handler of batches, and takes in how far it came. Pure.

Order rests on the prefix: of a batch that failed, what lies before the first message that is not done is finished, and
nothing behind it.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from ..errors import ServerUnavailable, StopConsuming
from ..settings.pace import FLUSH_S
from ..values.batch import Batch
from .batch import BatchEnd
from .effects import Effect, Flush, Run, handled
from .held_group import HeldGroup
from .outcome import refusal_of
from .steps.actions import Finished, Raised, Returned, Stopped, Unfinished
from .steps.runner import StepRunner


def handle_batches(
    group: HeldGroup, end: BatchEnd, runner: StepRunner
) -> Generator[Effect, Any, BaseException | Unfinished | None]:
    """Handle the messages of one group in batches; returns what its next message failed with, or None. One that failed
    before goes alone, and the batches behind it double from there: one that fails any batch is found soon.
    """
    held, queue, leased, handler = runner.held, runner.queue, group.leased, runner.batch
    assert handler is not None
    size = handler.size
    while (first := group.done) < len(leased.messages):
        if not (yield from _may_begin(group, end, runner)):
            return None
        if leased.ledgers and leased.ledgers[first]:
            began = runner.clock()
            left = yield from runner.handle(group, first)
            if isinstance(left, Unfinished):
                group.tried = began, runner.clock()
                return left
            if not isinstance(left, Finished):
                return left.error if isinstance(left, Stopped) else None
        if refusal := refusal_of(queue, leased, first):
            return refusal
        size, last = (1, first + 1) if _goes_alone(group, first) else (size, first + 1)
        while last < min(first + size, len(leased.messages)):
            if _goes_alone(group, last) or refusal_of(queue, leased, last):
                break
            last += 1
        batch, began = Batch(leased.messages[first:last]), runner.clock()
        held.switch(began, runs=True)
        heard: Returned | Raised = yield Run(batch[0], handler, batch)
        ended = runner.clock()
        held.switch(ended, runs=False)
        held.count_run(ended - began)
        for message in batch[: _done(batch, heard)]:
            held.finish(group, began, ended)
            if runner.tells_successes:
                yield handled(message, ended - began)
        if isinstance(heard, Raised):
            group.tried = began, ended
            return heard.error
        size = min(size * 2, handler.size)
    return None


def _done(batch: Batch, heard: Returned | Raised) -> int:
    """How many of it are finished. A failure is always that of a message; a stop is not."""
    if isinstance(heard, Returned):
        return len(batch)
    most = len(batch) if isinstance(heard.error, StopConsuming) else len(batch) - 1
    return min(batch.done_count, most)


def _goes_alone(group: HeldGroup, position: int) -> bool:
    leased = group.leased
    return leased.messages[position].attempt > 1 or bool(leased.ledgers and leased.ledgers[position])


def _may_begin(group: HeldGroup, end: BatchEnd, runner: StepRunner) -> Generator[Effect, Any, bool]:
    """As between two messages of a plain handler: whether the next batch is begun. The first one always is."""
    held, now = runner.held, runner.clock()
    is_asked = end.asks and group.done > 0
    if is_asked or now >= held.deadline or (held.finished_at is not None and now - held.finished_at >= FLUSH_S):
        try:
            yield Flush(is_awaited=is_asked)
        except ServerUnavailable:
            if is_asked:
                return False
        now = runner.clock()
        if now >= held.deadline:
            return False
    if runner.is_stopping or not group.is_open:
        return False
    return not group.done or (now < end.latest_s and not (held.is_more_due and now >= end.told_s))

"""Passes over the messages of one consumer, as effects of its drain. Pure.

A note is sent again until it is answered, while the lease holds; then the lease counts as lost.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field, replace
from typing import Any

from ...calls.claim import LeasedGroup
from ...errors import ServerUnavailable
from ...settings.backoff import RECONNECT
from ...settings.options import QueueOptions, Replicas
from ...store.ending import Remark
from ...store.failure import decode_failure, is_own_outage
from ...store.ledger import Ledger, LedgerError, Written, decode_ledger, encode_ledger
from ...texts.words import step_outcome
from ...values.message import Message, StepCall
from ..effects import Clock, Effect, Note, Run, Sleep, Tell
from ..held import Held
from ..held_group import HeldGroup
from ..outcome import Decision, Failed, describe, failed_with, unfit, waits
from . import rules
from .actions import AGAIN, UNCONFIRMED, End, Finished, Lost, PassFacts, Raised, Returned, Unfinished
from .declared import Step, Steps
from .functions import BatchHandler, InlineHandler
from .inline import InlinePass, InlineSteps
from .passes import Ended, Pass

NONE = Steps(kinds={"": {}})
"""Of a program with a plain handler: where a message has a ledger, nothing of it may be open."""
MISSING_S = 30.0
"""A message that waits for another version is tried again after this at the latest, and then logged."""
UNWRITTEN = Written(b"", 0, has_effects=False)


@dataclass(slots=True)
class StepRunner:
    """Runs the passes of one consumer, and says what becomes of its messages that fail."""

    held: Held
    queue: QueueOptions
    declared: Steps | InlineHandler | None  # the steps of each message, None where a handler takes them
    owner: str
    clock: Clock  # monotonic, in seconds
    wall: Clock  # in seconds since 1970
    random: Clock  # gives numbers in [0, 1)
    batch: BatchHandler | None = None  # what takes messages in batches, if they are handled so
    tells_successes: bool = False  # whether an observer wants successes
    is_stopping: bool = field(init=False, default=False)
    """The shell's note: stop before the next message, or step."""
    _group: HeldGroup = field(init=False)
    message: Message = field(init=False)
    """The current one, as its steps see it: its attempt is one more than the most failures of a step."""
    _last: Written = field(init=False, default=UNWRITTEN)  # the last write into the record in progress
    waited_s: float = field(init=False, default=0.0)
    """How long the message in progress waits for another version, by the server's clock when it was claimed."""
    _is_inline: bool = field(init=False, default=False)
    """Whether a handler runs that makes its steps as it goes."""
    _is_new: bool = field(init=False, default=True)
    """Whether that record has no ledger, and no step of it was called."""
    _raised: dict[str, BaseException] = field(init=False, default_factory=dict)
    """What steps of the message in progress raised."""

    @property
    def steps(self) -> Steps:
        return self.declared if isinstance(self.declared, Steps) else NONE

    def handle(self, group: HeldGroup, position: int) -> Generator[Effect, Any, End]:
        """One pass over the message at this position."""
        leased, self.held.with_failures, self._raised = group.leased, True, {}
        kept = leased.ledgers[position] if leased.ledgers else None
        self._last, self._is_new = kept or UNWRITTEN, kept is None
        try:
            ledger = decode_ledger(kept.ledger) if kept else None
            end = yield from self._pass(group, position, ledger)
        except LedgerError as error:  # it may hold a question: nothing is written, and nothing given up
            return Unfinished(error, None, ending="park")
        if group.history and self.declared is not None and isinstance(end, Finished | Unfinished) and end.ledger:
            failed = isinstance(end, Finished) and bool(end.failed)
            kind = self.steps.kind_of(leased.messages[position].body)
            group.remarks[position] = Remark(kind, _outcomes(end.ledger), failed, end.ledger.attempts)
            if isinstance(end, Finished) and group.history.kept == "bodies":
                group.ledgers[position] = self._written(rules.fitting(end.ledger))
        if isinstance(end, Finished) and end.failed and self.declared is not None:
            steps = {name: entry.error for name in end.failed if (entry := end.ledger.get(name))}
            yield Tell("finished with failures", leased.messages[position], {"steps": steps})
        elif isinstance(end, Lost) and end.code == -1:
            left = encode_ledger(rules.fitting(end.ledger))
            yield Tell("message removed", leased.messages[position], {"ledger": left})
        return end

    def _pass(self, group: HeldGroup, position: int, ledger: Ledger | None) -> Generator[Effect, Any, End]:
        leased, held, self._group = group.leased, self.held, group
        message = leased.messages[position]
        self.message = message._replace(attempt=max(message.attempt, ledger.failures + 1 if ledger else 1))
        facts = self._facts(leased, position)
        try:
            if not isinstance(self.declared, InlineHandler):
                whole = Pass(self, facts, ledger)
                self._raised = whole.raised
                return (yield from whole.run())
            one = InlinePass(self, facts, ledger)
            self._raised = one.raised
            if (refused := one.refused()) is not None:
                return refused
            held.switch(self.clock(), runs=True)
            self._is_new, self._is_inline = False, True
            heard: Returned | Raised = yield Run(self.message, self.declared, InlineSteps(one, message.token))
            held.switch(self.clock(), runs=False)
            self._is_inline = False
            return (yield from one.end(heard.error if isinstance(heard, Raised) else None))
        except Ended as ended:
            return ended.end

    def _facts(self, leased: LeasedGroup, position: int) -> PassFacts:
        message = leased.messages[position]
        refusal = unfit(leased, position)
        failure = decode_failure(leased.failure)[0] if leased.failure and not position else None
        since = failure.missing_since if failure else 0.0
        self.waited_s = max(message.token / 1e6 - since, 0.0) if since else 0.0
        return PassFacts(
            message,
            "" if refusal else self.steps.kind_of(message.body),
            refusal,
            failure is not None and not leased.is_probe and is_own_outage(leased.failure),
            bool(since) and self.waited_s >= self.queue.missing_wait_s,
            "" if position else leased.expired_owner,
        )

    def call(self, step: Step, call: StepCall, *, is_check: bool) -> Generator[Effect, Any, Returned | Raised]:
        message, held, function = self.message, self.held, step.asks if is_check else step.run
        assert function is not None
        self._is_new = False
        began = self.clock()
        held.switch(began, runs=True)
        heard: Returned | Raised = yield Run(
            message, function, call, is_check, step.once and not is_check, step.timeout_s
        )
        ended = self.clock()
        held.switch(ended, runs=self._is_inline)
        if isinstance(heard, Raised) and isinstance(heard.error, Exception):
            about = {"error": heard.error, "step": step.name, "is_check": is_check, "attempt": call.attempt}
            yield Tell("step failed", message, {**about, "attempts": step.limit(self.queue.max_attempts)})
        elif self.tells_successes and isinstance(heard, Returned) and not is_check:
            yield Tell("step done", message, {"step": step.name, "attempt": call.attempt, "took_s": ended - began})
        return heard

    def note(self, ledger: Ledger, *, has_progressed: bool, is_start: bool) -> Generator[Effect, Any, int]:
        """Write the ledger into the message's record, and wait for that: 1; 0: the lease is lost; -1: the message is
        gone; UNCONFIRMED, of a start, which replicas are to have, too. `has_progressed`: whether a step became done
        since the last write.
        """
        group, troubles, self._is_new = self._group, 0, False
        written = self._written(ledger)
        while self.clock() < self.held.deadline:
            wait = self._wait() if is_start else None
            if wait and troubles:  # replicas confirm what is written, and by the same serial nothing may be
                written = self._written(ledger)
            try:
                code: int = yield Note(group, written, has_progressed, wait)
            except ServerUnavailable:
                code = AGAIN
            if code in (1, UNCONFIRMED) and (not group.is_open or self.clock() >= self.held.deadline):
                break  # the process stood still: another consumer may have the group, and no step begins
            if code != AGAIN:
                return code
            troubles += 1
            yield Sleep(RECONNECT.delay_s(troubles, self.random()), is_whole=True)
        self.held.lose(group.lease)
        return 0

    def _wait(self) -> Replicas:
        """The replicas that the start of a step waits for: at most half of what is left of the lease."""
        if (wait := self.queue.wait) is None:
            return None
        left_ms = round((self.held.deadline - self.clock()) * 1000 / 2)
        return wait[0], max(min(wait[1], left_ms), 1)  # of 0 the server makes an endless wait

    def _written(self, ledger: Ledger) -> Written:
        self._last = self._last.next(encode_ledger(ledger), has_effects=ledger.has_effects)
        return self._last

    # -- a message that is not finished --------------------------------------------------------------------------------

    def failed(self, end: Unfinished | BaseException, group: HeldGroup) -> Failed:
        """What becomes of the next message of the group; an exception: of a plain handler."""
        message = group.leased.messages[group.done]
        if isinstance(end, BaseException):
            at, is_held = self.wall(), group.is_open
            return failed_with(self.queue, message, end, owner=self.owner, at=at, random=self.random(), is_held=is_held)
        unanswered, is_unwritten = message.attempt - 1, self._is_new and end.ending is not None
        written = None if end.ledger is None or is_unwritten else self._written(end.ledger)
        step = next((name for name, error in self._raised.items() if error is end.error), "")
        attempt = unanswered if end.ledger is None else max(end.attempts, unanswered)
        failure = describe(end.error, message, self.owner, self.wall(), attempt)
        decision, was_tried = self._decision(end), not self._is_new
        return Failed(message, end.error, decision, failure, group.is_open, None, end, written, was_tried, step)

    def _decision(self, end: Unfinished) -> Decision:
        queue, random = self.queue, self.random()
        if end.backoff_s is not None:
            queue = replace(queue, backoff_s=end.backoff_s)
        if end.ending is not None:
            return Decision(None, end.ending)
        if end.is_missing:
            left_s = max(queue.missing_wait_s - self.waited_s, 0.0)
            return Decision(min(max(self.waited_s, queue.backoff_s), MISSING_S, left_s))
        delay_s = queue.backoff.delay_s(end.attempts, random) if end.after_s is None else end.after_s
        return Decision(delay_s, outage=waits(queue, end.outage, random) if end.outage else None)


def _outcomes(ledger: Ledger) -> str:
    return ", ".join(step_outcome(one.name, one.state, one.who, one.took_s, one.error) for one in ledger.entries)

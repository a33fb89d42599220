"""One pass over the open steps of a message, as a generator of effects. Pure.

In turns: what keeps the message from its first step; each step that can be called or checked, in its order; the end.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...calls.settle import Ending
from ...errors import (
    LeaseExpired,
    Outage,
    Retry,
    StepFailed,
    StepMissing,
    StepResultInvalid,
    StepUnknown,
    StopConsuming,
)
from ...store.ledger import Entry, Ledger, LedgerError, check_room, encode_ledger, kept_result, step_key
from ...texts.refusals import refusal_text
from ...texts.words import error_text, type_name
from ...values.message import StepCall
from ..outcome import ENDING_BY_OPTION, decide, most_unanswered
from . import rules
from .actions import UNCONFIRMED, End, Finished, Lost, PassFacts, Raised, Returned, Stopped, Unfinished
from .declared import Step

if TYPE_CHECKING:
    from ..effects import Effect
    from .runner import StepRunner

OUTAGES = ("outage", "outage by hand")


class Ended(Exception):
    """A stop, an interruption or a lost lease ends the pass at once."""

    def __init__(self, end: Lost | Stopped) -> None:
        self.end = end


class Pass:
    def __init__(self, runner: StepRunner, facts: PassFacts, ledger: Ledger | None) -> None:
        """Raises LedgerError where this version and those before it have too many steps."""
        self._runner, self._facts = runner, facts
        self._queue, self._clock = runner.queue, runner.wall
        self._steps = {step.name: step for step in runner.steps.ordered(facts.kind)}
        message = facts.message
        self._noted = rules.joined(ledger or Ledger(message.stamp), self._steps.values())
        """The ledger as the server has it."""
        self._view = rules.View(self._noted, self._steps, self._queue.max_attempts, message.token)
        """As it is known here."""
        self._called: set[str] = set()
        self._checked: set[str] = set()
        self._has_progressed = False  # whether a step became done since the last write
        self._has_found = False  # whether a check of this pass said that its step is done
        self._ending: Ending | None = None  # what a step asked for its message
        self._error: BaseException | None = None  # the last one of a required step, else of an optional one
        self.raised: dict[str, BaseException] = {}  # what steps and checks raised, by the step
        self._delays: list[float] = []
        self._outage: BaseException | None = None

    @property
    def ledger(self) -> Ledger:
        return self._view.ledger

    def run(self) -> Generator[Effect, Any, End]:
        """Raises Ended; LedgerError for a move that no step may make: the ledger is not what a client of ours wrote."""
        end: End | None = self.refused() or self._missing()
        if isinstance(end, Unfinished) and end.ending is not None and self._unasked():
            yield from self._ask_checks()
            end = self.refused() or self._missing()
        while end is None:
            yield from self._steps_in_order()
            end = yield from self._end()
        return end

    def _steps_in_order(self) -> Generator[Effect, Any, None]:
        view = self._view
        while self._ending is None and (step := self._next_step()) is not None:
            is_begun, is_check = view.is_begun(step), view.may_check(step)
            if not is_begun:
                yield from self._stop_if_asked()
            if view.entry(step.name).once and not is_check and not is_begun:
                yield from self._start(step)
                if step.name in self._called:
                    continue  # its start was taken back
            elif self.ledger != self._noted:
                yield from self._note()
                continue  # a stop may have come meanwhile
            yield from self._call(step, is_check=is_check)

    def _stop_if_asked(self) -> Generator[Effect, Any, None]:
        if self._runner.is_stopping:
            yield from self._note_rest()
            raise Ended(Stopped())

    # -- before the first step -------------------------------------------------------------------------------------

    def refused(self) -> Unfinished | None:
        """What keeps the message from its first step, whichever steps it has."""
        facts, queue = self._facts, self._queue
        unanswered, refusal = facts.message.attempt - 1, facts.refusal
        if refusal is None and unanswered >= most_unanswered(queue) and not self._has_found:
            refusal = LeaseExpired("leases_expired", leases=unanswered, owner=facts.lost_owner)
        if refusal is not None:
            return self._give_up(decide(queue, unanswered, refusal, 0.0).ending, refusal)
        for entry in self.ledger.entries:
            if entry.state == "done" and entry.error and not entry.optional:  # it took effect, and is not repeated
                return self._give_up("park", self._result_invalid(entry))
        return None

    def _missing(self) -> Unfinished | None:
        facts, queue = self._facts, self._queue
        is_unknown = facts.kind not in self._runner.steps.kinds
        missing = rules.missing(self.ledger.entries, self._steps, queue.retired)
        if is_unknown:
            ending = ENDING_BY_OPTION[queue.on_unknown]
            is_kept = ending == "drop" and self.ledger.has_effects
            known = {"kind": facts.kind, "kinds": sorted(self._runner.steps.kinds), "field": queue.kind_by}
            return self._lacks("park" if is_kept else ending, "kind_unknown", missing, is_kept=is_kept, **known)
        return self._lacks("park", "step_missing", missing) if missing else None

    def _lacks(self, ending: Ending, code: str, steps: Sequence[str], **known: Any) -> Unfinished:
        """This version lacks what the message needs: another may be on its way, so it is released first."""
        error = StepMissing(code, **self._about, steps=steps, **known)
        return self._give_up(ending, error) if self._facts.has_waited else Unfinished(error, None, is_missing=True)

    def _unasked(self) -> Step | None:
        """A step that an operator would be asked about, whose check was not asked. At the limit of dead processes it
        is asked once: it may be what kills them.
        """
        if self._facts.message.attempt - 1 > most_unanswered(self._queue):
            return None
        names = {entry.name for entry in rules.questions(self.ledger)} - self._called - self._checked
        return next((step for step in self._steps.values() if step.name in names and step.asks), None)

    def _ask_checks(self) -> Generator[Effect, Any, None]:
        """What checks know, before the message is given up."""
        while (step := self._unasked()) is not None:
            yield from self._stop_if_asked()
            if self.ledger != self._noted:
                yield from self._note()
            else:
                yield from self._call(step, is_check=True)

    # -- a step ------------------------------------------------------------------------------------------------------

    def key(self, name: str) -> str:
        """The key of a step, before it runs or after."""
        message, entry = self._facts.message, self.ledger.get(name) or Entry(name)
        return step_key(self._queue.queue, message.group, message.id, self.ledger.stamp, entry)

    def _next_step(self) -> Step | None:
        """The first step that can be called or checked in this pass, in the order of the steps."""
        view = self._view
        for step in self._steps.values():
            if step.name in self._called:
                continue
            may_run = (view.is_begun(step) or view.is_open(step)) and view.may_begin(step)
            if may_run or (view.may_check(step) and step.name not in self._checked):
                return step
        return None

    def _put(self, entry: Entry) -> None:
        self._view.ledger = self.ledger.put(entry)

    def _note(self, *, start: str = "") -> Generator[Effect, Any, None]:
        written, progressed = rules.fitting(self.ledger), self._has_progressed
        code = yield from self._runner.note(written, has_progressed=progressed, is_start=bool(start))
        if code not in (1, UNCONFIRMED):
            raise Ended(Lost(code, self.ledger))
        self._noted, self._has_progressed = self.ledger, False
        if code == UNCONFIRMED:  # a failover may lose the start, and it would run twice: it is not called now
            started = self._view.entry(start)
            self._called.add(start)
            self._put(started.moved("open", token=0, runs=started.runs - 1))
            about = {"step": start, "replicas": self._queue.wait_replicas, "wait_s": self._queue.wait_timeout_s}
            self._error = self._outage = Outage(refusal_text("start_unconfirmed", about))

    def _note_rest(self) -> Generator[Effect, Any, None]:
        if self.ledger != self._noted:
            yield from self._note()

    def _note_ends(self) -> Generator[Effect, Any, None]:
        """The end of a `once` step is waited for, the last one's too."""
        ended = [e for e in self.ledger.entries if e.once and e.name in self._called and e != self._noted.get(e.name)]
        if any(entry.state in ("done", "left") for entry in ended):
            yield from self._note()

    def _start(self, step: Step) -> Generator[Effect, Any, None]:
        entry = self._view.entry(step.name)
        self._put(entry.moved("started", token=self._view.token, at=self._clock(), runs=entry.runs + 1))
        yield from self._note(start=step.name)

    def _call(self, step: Step, *, is_check: bool) -> Generator[Effect, Any, None]:
        (self._checked if is_check else self._called).add(step.name)
        entry, results = self._view.entry(step.name), self.ledger.results
        attempt = max(1, entry.attempts) if is_check else entry.attempts + 1
        result = results.get(step.after[0]) if len(step.after) == 1 else None
        call = StepCall(step.name, self.key(step.name), self._view.token, attempt, result, results)
        began = self._clock()
        heard = yield from self._runner.call(step, call, is_check=is_check)
        now = self._clock()
        if isinstance(heard, Raised):
            if isinstance(heard.error, StopConsuming):
                raise Ended(Stopped(heard.error))  # as if the process had ended: a `once` step stays as it began
            self.raised[step.name] = heard.error
        if is_check:
            self._hear_check(step, entry, heard, now)
        else:
            self._hear(step, entry, heard, now, now - began)

    def _hear(self, step: Step, entry: Entry, heard: Returned | Raised, at: float, took_s: float) -> None:
        entry = entry if entry.once else replace(entry, runs=entry.runs + 1)
        if isinstance(heard, Returned):
            done = entry.moved("done", attempts=entry.attempts + 1, error="", at=at, took_s=took_s)
            self._keep(done, heard.result)
            return
        kind, error = self._tell(step, entry, heard.error, at), _said(heard.error)
        counts, limit = self._facts.outage_counts, step.limit(self._queue.max_attempts)
        entry = replace(entry, error=error)
        self._put(rules.raised(entry, step, heard.error, kind, limit, counts=counts, at=at, took_s=took_s))
        if kind == "park" or kind == "dead":
            self._ending = kind
        elif kind == "declined" and not entry.optional:
            self._ending = ENDING_BY_OPTION[self._queue.on_failure]

    def _hear_check(self, step: Step, entry: Entry, heard: Returned | Raised, at: float) -> None:
        if isinstance(heard, Raised):
            kind = self._tell(step, entry, heard.error, at)
            if kind not in OUTAGES or self._facts.outage_counts:  # an attempt of its step: else it could go on for ever
                self._put(replace(entry, attempts=entry.attempts + 1, error=_said(heard.error), at=at))
        elif heard.result is None:
            self._put(entry.moved("open", token=0, at=at))
        else:
            self._has_found = True
            self._keep(entry.moved("done", error="", at=at), heard.result)

    def _keep(self, done: Entry, result: Any) -> None:
        """A step is done. A result that can't be kept repeats nothing: the group parks, unless the step is optional."""
        self._has_progressed = True
        try:
            kept = done if result is None else replace(done, result=kept_result(result))
            if kept.result is not None:
                check_room(encode_ledger(rules.fitting(self.ledger.put(kept))))
        except LedgerError as error:
            lost = replace(done, error=str(error))
            self._put(lost)
            if not done.optional:
                self._ending, self._error = "park", self._result_invalid(lost)
        else:
            self._put(kept)

    def _tell(self, step: Step, entry: Entry, error: BaseException, at: float) -> rules.Verdict:
        kind = rules.verdict(self._queue, step, error, is_optional=entry.optional)
        if not (entry.optional and self._error):  # an optional step holds nothing back
            self._error = error
        if kind in OUTAGES:
            self._outage = error
        self._view.ledger = self.ledger.logged(entry.attempts + 1, at, _said(error))
        if isinstance(error, Retry | Outage) and error.after is not None:
            self._delays.append(error.after)
        return kind

    def _spent(self) -> StepFailed:
        return StepFailed(steps={e.name: e.error for e in self.ledger.entries if e.state not in ("done", "left")})

    @property
    def _about(self) -> dict[str, Any]:
        """The message, for the command that answers: a line that is used late must not answer for the next one."""
        queue, message = self._queue, self._facts.message
        return {"queue": queue.queue, "namespace": queue.namespace, "group": message.group, "id": message.id}

    def _unknown(self, asked: Sequence[Entry], cause: BaseException | None) -> StepUnknown:
        """The question to an operator. `cause`: what the step raised in this pass, if it ran."""
        names, runs = [one.name for one in asked], [one.runs for one in asked]
        known = [{"step": one.name, "state": one.state, "at": one.at, "error": one.error} for one in asked]
        is_dead, owner = self._queue.on_unresolved == "dead_letter", self._facts.lost_owner
        error = StepUnknown(**self._about, steps=names, runs=runs, questions=known, is_dead=is_dead, lost_owner=owner)
        error.__cause__ = cause
        return error.with_traceback(cause.__traceback__ if cause else None)

    def _result_invalid(self, entry: Entry) -> StepResultInvalid:
        """A step is done, and what it returned is lost."""
        return StepResultInvalid(**self._about, steps=[entry.name], error=entry.error)

    # -- the end ----------------------------------------------------------------------------------------------------

    def _end(self) -> Generator[Effect, Any, End | None]:
        """Nothing can be called any more in this pass; None where a check was asked, and may have changed that."""
        yield from self._note_ends()
        if self._ending is None:
            view = self._view
            view.close()
            if view.is_finished:
                return Finished(self.ledger, rules.failures(self.ledger))
            if any(view.can_be_tried(step) for step in self._steps.values()):
                return self._again(self._error or self._spent())
        if self._unasked() is not None:
            yield from self._ask_checks()
            return None
        return self._give_up(self._ending or ENDING_BY_OPTION[self._queue.on_failure], self._error or self._spent())

    def _again(self, error: BaseException) -> Unfinished:
        """A later pass can do something for it without an operator."""
        written, after_s = rules.fitting(self.ledger), min(self._delays, default=None)
        attempts, backoff_s = self.ledger.attempts, self._backoff_s()
        return Unfinished(error, written, self._has_progressed, None, attempts, after_s, backoff_s, self._outage)

    def _backoff_s(self) -> float | None:
        """None of the steps that failed, and that a later pass can call, is called sooner than it says."""
        again = [step for name in self.raised if self._view.can_be_tried(step := self._steps[name])]
        if all(step.backoff_s is None for step in again):
            return None
        return max(self._queue.backoff_s if step.backoff_s is None else step.backoff_s for step in again)

    def _give_up(self, ending: Ending, error: BaseException) -> Unfinished:
        """No pass will go on by itself. While a required `once` step has no known end, an operator is asked instead."""
        questions = rules.questions(self.ledger)
        if questions:
            ending = ENDING_BY_OPTION[self._queue.on_unresolved]
            error = self._unknown(questions, self.raised.get(questions[0].name))
        ledger = self.ledger if ending == "drop" else rules.fresh(self.ledger)
        return Unfinished(error, rules.fitting(ledger), self._has_progressed, ending, self.ledger.attempts)


def _said(error: BaseException) -> str:
    return f"{type_name(error)}: {error_text(error)}"

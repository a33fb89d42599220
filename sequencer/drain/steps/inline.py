"""Steps that the code of a handler makes as it goes: the code is the order. Pure.

    @seq.handler
    def ship(message, steps):
        payment = steps.run("charge", bank.debit, message.body["card"], once=True)
        steps.run("label", printer.label, payment["id"])

A step that is done returns its kept result and does not run again. What ends a pass ends it though the code catches it.
What the code raises outside of steps counts as attempts of an entry of its own, HANDLER.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from ...errors import (
    ConfigurationError,
    LeaseLost,
    StepFailed,
    StepResultInvalid,
    StepUnknown,
    StopConsuming,
    Undecodable,
)
from ...store.ledger import HANDLER, MAX_STEPS, Entry, check_step_name
from ...values.message import StepCall
from ..outcome import ENDING_BY_OPTION
from . import rules
from .actions import End, Finished, Lost, Raised, Stopped, Unfinished
from .declared import Step
from .functions import Function
from .passes import Ended, Pass

if TYPE_CHECKING:
    from ..effects import Effect

Called = Callable[[Any, StepCall], Any]
_CODE = Step(HANDLER, Function(lambda message: None, takes_call=False), optional=True, inline=True)


class InlinePass(Pass):
    """A pass whose steps come one by one."""

    over: BaseException | None = None  # what ends this pass, whatever the code does about it
    _lost: Lost | None = None

    def step(self, name: str, function: Called, check: Called | None, *, once: bool) -> Generator[Effect, Any, Any]:
        """Run a step, or release what it returned before. Raises what it raised, and what ends the pass."""
        if self.over is not None:
            raise self.over
        try:
            return (yield from self._step(name, function, check, once=once))
        except Ended as ended:
            end = ended.end
        if isinstance(end, Stopped):
            self._ends(end.error or StopConsuming("consumer_stops"))
        self._lost = end
        self._ends(LeaseLost("message_taken", **self._about))

    def _step(self, name: str, function: Called, check: Called | None, *, once: bool) -> Generator[Effect, Any, Any]:
        check_step_name(name)
        if name in self._called:
            raise ConfigurationError("step_repeated", step=name)
        if self._is_done(name):
            return self._view.entry(name).result
        yield from self._stop_if_asked()
        step, view = self._declare(name, function, check, once=once), self._view
        if view.may_check(step):
            yield from self._note_rest()
            yield from self._call(step, is_check=True)
            if self._is_done(name):
                return view.entry(name).result
            if view.may_check(step):  # it failed, and is retried
                self._ends(self._error)
        entry = view.entry(name)
        if entry.once and entry.state in ("started", "failed"):
            self._ends(self._unknown([entry], self._spent()))
        if not view.is_open(step):
            self._ends(self._spent())
        yield from self._start(step) if entry.once else self._note_rest()
        if name in self._called:  # its start was taken back
            self._ends(self._error)
        yield from self._call(step, is_check=False)
        entry = view.entry(name)
        if self._is_done(name):
            return entry.result
        assert self._error is not None
        if entry.once and entry.state == "failed" and not step.asks:
            self._ends(self._unknown([entry], self._error))
        raise self._error

    def _is_done(self, name: str) -> bool:
        entry = self.ledger.get(name)
        if entry is None or entry.state != "done":
            return False
        if entry.error:
            self._ends(self._result_invalid(entry))
        self._called.add(name)
        return True

    def _declare(self, name: str, function: Called, check: Called | None, *, once: bool) -> Step:
        step = Step(name, Function(function), once=once, asks=Function(check) if check else None, inline=True)
        before = self.ledger.get(name)
        if before is None and len(self.ledger.entries) >= MAX_STEPS:
            raise ConfigurationError("one_step_too_many", step=name, most=MAX_STEPS)
        self._steps[name] = step
        entry = rules.kept(before or Entry(name), step)
        if entry != before:
            self._put(entry)
            if before is None:  # that it is open tells nobody anything
                self._noted = self._noted.put(entry)
        return step

    def _ends(self, error: BaseException | None) -> NoReturn:
        assert error is not None
        self.over = error
        raise error

    # -- the end ---------------------------------------------------------------------------------------------------

    def end(self, error: BaseException | None) -> Generator[Effect, Any, End]:
        """The handler returned, or raised this. Raises Ended."""
        error = self.over or error
        if self._lost is not None:
            return self._lost
        if isinstance(error, StopConsuming):
            yield from self._note_rest()
            return Stopped(error)
        yield from self._note_ends()
        if error is None and not rules.questions(self.ledger):
            return (yield from self._finished())
        if isinstance(error, StepResultInvalid):
            return self._give_up("park", error)
        if isinstance(error, Undecodable):
            return self._give_up(ENDING_BY_OPTION[self._queue.on_failure], error)
        return self._unfinished(error or self._spent())

    def _finished(self) -> Generator[Effect, Any, End]:
        """The message is finished, unless a step that another version declared as required is missing."""
        declared = [entry for entry in self.ledger.entries if not entry.inline]
        if missing := rules.missing(declared, self._steps, self._queue.retired):
            yield from self._note_rest()
            return self._lacks("park", "step_missing", missing)
        failed = [e.name for e in self.ledger.entries if e.state != "done" and e.name != HANDLER]
        return Finished(self.ledger, tuple(failed))

    def _unfinished(self, error: BaseException) -> Unfinished:
        if error is not self._error and error is not self.over:  # the code's own
            self._steps[HANDLER] = _CODE
            self._put(self.ledger.get(HANDLER) or Entry(HANDLER, optional=True))
            self._hear(_CODE, self._view.entry(HANDLER), Raised(error), self._clock(), 0.0)
        if self._ending is not None:
            return self._give_up(self._ending, error)
        questions = {entry.name for entry in rules.questions(self.ledger)}
        tried = [step for name, step in self._steps.items() if self._view.entry(name).state != "done"]
        over = [step for step in tried if not self._view.may_check(step)]
        is_asked = any(step.name in questions for step in over)
        is_spent = any(self._view.entry(step.name).attempts >= self._queue.max_attempts for step in over)
        unknown = questions - set(self._steps)
        if is_asked or is_spent or unknown or isinstance(error, StepFailed):
            why = error.__cause__ or error if isinstance(error, StepUnknown) else error
            return self._give_up(ENDING_BY_OPTION[self._queue.on_failure], why)
        return self._again(error)


class InlineSteps:
    """What a handler with two parameters gets besides its message: it runs the steps of that."""

    perform: Callable[[Generator[Effect, Any, Any]], Any]

    def __init__(self, one: InlinePass, token: int) -> None:
        self._one, self.token = one, token

    def run(
        self,
        name: str,
        function: Callable[..., Any],
        /,
        *arguments: Any,
        once: bool = False,
        check: Callable[[str], Any] | None = None,
        **named: Any,
    ) -> Any:
        """Call `function` with the arguments, as the step of this name, and return its result as JSON has it; one that
        is done is not called again, and gives the result that was kept.

        `once`: it never runs again by itself; where its end is unknown, `check` is called with its key, and returns a
        result, or None where nothing happened; without it an operator is asked: StepUnknown. Raises what the function
        raised; StepUnknown, StepResultInvalid, LeaseLost and StopConsuming end the handling of the message, though the
        code catches them; ConfigurationError for a name that was used before, for a step in a step or another thread.
        """
        asks = None if check is None else (lambda message, call: check(call.key))
        called = self._one.step(name, lambda message, call: function(*arguments, **named), asks, once=once)
        return self.perform(called)

    def key(self, name: str) -> str:
        """The key of a step, to be handed to a provider: see StepCall."""
        return self._one.key(name)

    @property
    def results(self) -> Mapping[str, Any]:
        """What the steps that are done returned."""
        return self._one.ledger.results

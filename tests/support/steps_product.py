"""The product's pass, driven by a case of the model: what it does, in the model's own words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sequencer.drain.steps.actions import UNCONFIRMED, Finished, Lost, PassFacts, Raised, Returned, Stopped
from sequencer.drain.steps.declared import Step, Steps, new_step
from sequencer.drain.steps.passes import Ended, Pass
from sequencer.errors import Outage, Park, Retry, SetAside, StepMissing, StepUnknown, TooLate
from sequencer.settings.options import QueueOptions
from sequencer.store.ledger import Entry, Ledger
from sequencer.values.message import Message, PastAttempt

from .steps_model import actions as model
from .steps_model.cases import MOST_ACTIONS, WELL, Case
from .steps_model.declared import App
from .steps_model.ledger import Ledger as ModelLedger


class CardDeclined(Exception):
    """Says that nothing happened, where a step declares that."""


Rows = list[Any]
ENDINGS = {"park": "park", "dead": "dead_letter", "drop": "drop"}


def options(app: App) -> QueueOptions:
    return QueueOptions(
        queue="q",
        max_attempts=app.max_attempts,
        kind_by=None if set(app.kinds) <= {""} else "code",
        on_failure=ENDINGS[app.on_failure],  # type: ignore[arg-type]  # from a table
        on_unknown=ENDINGS[app.on_unknown],  # type: ignore[arg-type]
        on_unresolved=ENDINGS[app.on_unresolved],  # type: ignore[arg-type]
        retired=tuple(sorted(app.retired)),
    )


def declared(app: App) -> Steps:
    """The same steps, as a program registers them."""
    found = Steps(options(app).kind_by)
    nothing = lambda message: None  # noqa: E731
    for kind, steps in app.kinds.items():
        for one in steps:
            declined = (CardDeclined,) if one.once else ()
            how: Any = {"optional": one.optional, "attempts": one.attempts, "declined": declined, "name": one.name}
            step = new_step(nothing, kind=kind, order=one.order, once=one.once, after=one.before, **how)
            if one.has_check:
                step.check(lambda message, call: None)
            found.add(step)
    found.check()
    return found


def ledger_of(ledger: ModelLedger | None) -> Ledger | None:
    if ledger is None:
        return None
    entries = [
        Entry(e.name, e.once, e.optional, e.state, e.attempts, e.turn, e.token, e.who, result=e.result, error=e.error)
        for e in ledger.entries
    ]
    return Ledger(ledger.stamp, tuple(entries), tuple(PastAttempt(1, 0.0, text) for text in ledger.log))


def rows(ledger: Ledger | ModelLedger) -> Mapping[str, Any]:
    """Without the texts of errors, which are longer in the product."""
    entries = [
        [e.name, e.kind, e.state, e.attempts, e.turn, e.who or e.token, e.result if e.state == "done" else None]
        for e in ledger.entries
    ]
    return {"k": ledger.stamp, "s": entries, "log": len(ledger.log)}


def error_of(raised: model.Raised) -> BaseException:
    kinds: dict[str, BaseException] = {
        "error": RuntimeError("no"),
        "retry": Retry("later", raised.after),
        "outage": ConnectionError("away"),
        "outage by hand": Outage("away", after=raised.after),
        "park": Park("look"),
        "set aside": SetAside("no"),
        "declined": CardDeclined("no"),
    }
    return kinds[raised.error]


def heard(event: model.Event) -> Returned | Raised:
    if isinstance(event, model.Returned):
        return Returned(event.result)
    assert isinstance(event, model.Raised)
    return Returned(object()) if event.error == "result" else Raised(error_of(event))


def facts_of(facts: model.Facts) -> PassFacts:
    refusals: dict[str, BaseException] = {"drop": TooLate(on_late="drop"), "dead": TooLate(on_late="dead_letter")}
    refusals["park"] = Park("unreadable")
    attempt, token, stamp = facts.unanswered + 1, facts.token, facts.stamp
    return PassFacts(
        Message(facts.id, (facts.group,), 1.0, None, {}, attempt, token, 0.0, "q", stamp),
        facts.kind,
        refusals[facts.given_up_as] if facts.given_up else None,
        facts.outages >= facts.counts_outage,
        facts.has_waited,
    )


class Runner:
    """Hands on what a pass asks for."""

    def __init__(self, app: App) -> None:
        self.queue, self.steps, self.is_stopping = options(app), declared(app), False

    def wall(self) -> float:
        return 0.0

    def call(self, step: Step, call: Any, *, is_check: bool) -> Any:
        return (yield "check" if is_check else "call", step.name, call)

    def note(self, ledger: Ledger, *, has_progressed: bool, is_start: bool) -> Any:
        return (yield "note", ledger, has_progressed, is_start)


def played(case: Case) -> list[Rows]:
    """The actions of the product's pass, and its end."""
    done: list[Rows] = []
    runner: Any = Runner(case.app)
    generator: Any = Pass(runner, facts_of(case.facts), ledger_of(case.ledger)).run()
    answers = list(case.answers)
    answer: Any = None
    while len(done) < MOST_ACTIONS:
        runner.is_stopping = case.stops_at is not None and len(done) >= case.stops_at
        try:
            asked = generator.send(answer)
        except StopIteration as end:
            return [*done, _end(end.value)]
        except Ended as ended:
            return [*done, _end(ended.end)]
        what, *about = asked
        if what == "check":
            done.append(["check", about[0], about[1].key])
            answer = heard(case.checks.get(about[0], model.Returned(None)))
        elif what == "call":
            done.append(["call", about[0], about[1].key, dict(about[1].results)])
            answer = heard(case.calls.get(about[0], WELL))
        else:
            ledger, has_progressed, is_start = about
            done.append(["note", rows(ledger), ledger.has_effects, has_progressed])
            answer = answers.pop(0) if answers else 1
            answer = 1 if answer == UNCONFIRMED and not is_start else answer
    raise AssertionError(f"a pass without an end: {done[-6:]}")


def _end(end: Any) -> Rows:
    if isinstance(end, Finished):
        return ["ack", bool(end.failed), rows(end.ledger)]
    if isinstance(end, Stopped):
        return ["release"]
    if isinstance(end, Lost):
        return ["lost", end.code]
    if end.is_missing:
        assert isinstance(end.error, StepMissing)
        assert end.ledger is None
        return ["missing", end.error.fields["steps"]]
    questions = tuple(end.error.fields["steps"]) if isinstance(end.error, StepUnknown) else ()
    missing = end.error.fields["steps"] if isinstance(end.error, StepMissing) else ()
    delay = None if end.ending else 2 ** max(end.attempts - 1, 0) if end.after_s is None else end.after_s
    written = (rows(end.ledger), end.ledger.has_effects, end.has_progressed)
    is_outage = not end.ending and end.outage is not None
    return ["nack", end.ending or "", delay, is_outage, questions, missing, *written]


# -- the model, in the same words ----------------------------------------------------------------------------------


def model_action(action: model.Action) -> Rows:
    if isinstance(action, model.Call):
        return ["call", action.step, action.key, dict(action.results)]
    if isinstance(action, model.Check):
        return ["check", action.step, action.key]
    if isinstance(action, model.Note):
        return ["note", rows(action.ledger), action.ledger.has_effects, action.has_progressed]
    if isinstance(action, model.Ack):
        return ["ack", action.with_failures, rows(action.ledger)]
    if isinstance(action, model.Release):
        return ["release"]
    if isinstance(action, model.Lost):
        return ["lost", action.code]
    failure, ledger = action.failure, action.ledger
    if action.is_missing:
        return ["missing", failure.missing]
    written = (rows(ledger), ledger.has_effects, action.has_progressed)
    about = (action.is_outage, failure.questions, () if failure.questions else failure.missing)
    return ["nack", action.ending, action.delay, *about, *written]

"""Cases: one pass as plain data, what went in and what came out. An implementation is compared with `played`.

A case says how each step and check ends and what the notes are answered. `CASES` draws ledgers that passes before have
left, at their end or where their process died.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import hypothesis.strategies as st

from .actions import (
    UNCONFIRMED,
    Ack,
    Action,
    Answered,
    Began,
    Call,
    Check,
    End,
    Event,
    Facts,
    Lost,
    Nack,
    Note,
    Raised,
    Release,
    Returned,
)
from .declared import App, Step, registration_errors
from .ledger import Ledger
from .passes import begin, next_action, stopped
from .rules import Rules

MOST_ACTIONS = 400
WELL = Returned("ok")


@dataclass(frozen=True)
class Case:
    """What goes into one pass."""

    app: App
    facts: Facts = field(default_factory=Facts)
    ledger: Ledger | None = None
    """What the record has; None for a message without a ledger."""
    calls: Mapping[str, Event] = field(default_factory=dict)
    """How the call of a step ends; WELL if it is not here."""
    checks: Mapping[str, Event] = field(default_factory=dict)
    """What the check of a step finds; None, that nothing happened, if it is not here."""
    answers: tuple[int, ...] = ()
    """To the notes in turn; 1 to those behind."""
    stops_at: int | None = None
    """A stop signal comes before this action, counted from 0."""


@dataclass(frozen=True)
class Played:
    """What came out."""

    actions: tuple[Action, ...]
    """In their order; the last one is the end."""

    @property
    def end(self) -> End:
        last = self.actions[-1]
        assert isinstance(last, (Ack, Nack, Release, Lost))
        return last

    @property
    def called(self) -> list[str]:
        return [action.step for action in self.actions if isinstance(action, Call)]

    @property
    def notes(self) -> list[Note]:
        return [action for action in self.actions if isinstance(action, Note)]

    def ledger(self, before: Ledger | None, *, cut: int | None = None) -> Ledger | None:
        """What the server has after it; with `cut`, if the process dies before that action."""
        for action in self.actions[:cut]:
            if isinstance(action, (Note, Nack)):
                before = action.ledger
        return before


def played(case: Case, rules: Rules | None = None) -> Played:
    """The actions of the pass."""
    state, answers = begin(case.app, case.facts, case.ledger, rules or Rules()), list(case.answers)
    event: Event = Began()
    actions: list[Action] = []
    while len(actions) < MOST_ACTIONS:
        if case.stops_at is not None and len(actions) >= case.stops_at:
            state = stopped(state)
        state, action = next_action(state, event)
        actions.append(action)
        if isinstance(action, Call):
            event = case.calls.get(action.step, WELL)
        elif isinstance(action, Check):
            event = case.checks.get(action.step, Returned(None))
        elif isinstance(action, Note):
            event = Answered(answers.pop(0) if answers else 1)
        else:
            return Played(tuple(actions))
    raise AssertionError(f"a pass without an end: {actions[-6:]}")


# -- cases for hypothesis ----------------------------------------------------------------------------------------

_NAMES = ("charge", "points", "mail", "label")
_ERRORS = st.sampled_from(
    ("error", "error", "retry", "outage", "outage by hand", "park", "set aside", "declined", "result")
)
_ENDS = st.one_of(
    st.just(WELL), st.builds(Returned, st.integers(0, 9)), st.builds(Raised, _ERRORS, st.sampled_from((None, 3)))
)
_FINDS = st.one_of(
    st.just(Returned(None)), st.just(Returned("found")), st.builds(Raised, st.sampled_from(("error", "outage")))
)


@st.composite
def _declared(draw: st.DrawFn) -> tuple[Step, ...]:
    steps: list[Step] = []
    for name in draw(st.lists(st.sampled_from(_NAMES), min_size=1, max_size=4, unique=True)):
        step = Step(
            name,
            draw(st.sampled_from((1, 1, 5, 10))),
            draw(st.booleans()),
            draw(st.sampled_from(["", "", *(step.name for step in steps), " ".join(step.name for step in steps[:2])])),
            draw(st.booleans()),
            draw(st.sampled_from((None, 1, 2))),
        )
        step = replace(step, has_check=step.once and draw(st.booleans()))
        steps.append(replace(step, after="") if registration_errors([*steps, step]) else step)
    return tuple(steps)


@st.composite
def _apps(draw: st.DrawFn) -> App:
    return App(
        {"": draw(_declared())},
        frozenset(draw(st.lists(st.sampled_from(_NAMES), max_size=1))),
        draw(st.sampled_from((1, 2, 3))),
        draw(st.sampled_from(("park", "dead", "drop"))),
        on_unresolved=draw(st.sampled_from(("park", "dead"))),
    )


@st.composite
def _cases(draw: st.DrawFn) -> Case:
    ledger: Ledger | None = None
    apps = [draw(_apps()), draw(_apps())]
    for token in range(1, draw(st.integers(1, 4))):
        before = draw(_one_case(draw(st.sampled_from(apps)), ledger, token))
        done = played(before)
        ledger = done.ledger(ledger, cut=draw(st.one_of(st.none(), st.integers(0, len(done.actions)))))
    return draw(_one_case(draw(st.sampled_from(apps)), ledger, 9))


@st.composite
def _one_case(draw: st.DrawFn, app: App, ledger: Ledger | None, token: int) -> Case:
    facts = Facts(
        stamp=draw(st.integers(1, 3)),
        token=token,
        unanswered=draw(st.sampled_from((0, 0, 0, 1, 3))),
        given_up=draw(st.sampled_from(("", "", "", "", "late"))),
        given_up_as=draw(st.sampled_from(("drop", "dead"))),
        outages=draw(st.sampled_from((0, 0, 9))),
        has_waited=draw(st.booleans()),
    )
    calls = {name: draw(_ENDS) for name in _NAMES}
    checks = {name: draw(_FINDS) for name in _NAMES}
    answers = tuple(draw(st.lists(st.sampled_from((1, 1, 1, UNCONFIRMED, 0, -1)), max_size=3)))
    return Case(app, facts, ledger, calls, checks, answers, draw(st.sampled_from((None, None, 0, 1, 2, 4))))


CASES = _cases()
"""Cases whose ledgers were left by up to three passes of two versions of an app."""

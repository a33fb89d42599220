"""One pass, case by case: what is called, noted and said at its end. An implementation is compared with the same."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings

from ..support.examples import examples
from ..support.steps_model.actions import UNCONFIRMED, Ack, Call, Check, Facts, Nack, Raised, Release, Returned
from ..support.steps_model.cases import CASES, Case, Played, played
from ..support.steps_model.declared import App, Step
from ..support.steps_model.ledger import Entry, Ledger

CHARGE, POINTS, MAIL = Step("charge", 10, once=True), Step("points", 20), Step("mail", 100, optional=True)
Z, AFTER = Step("z", 30), replace(POINTS, after="charge")
GIFT = replace(CHARGE, optional=True)
ASKS = replace(CHARGE, has_check=True)
FAILS = Raised("error")
LOST = Ledger(1, (Entry("points", state="done", attempts=1, error="result"),))
STARTED = Ledger(1, (Entry("charge", once=True, state="started", token=1),))
FAILED = Ledger(1, (Entry("charge", once=True, state="failed", attempts=1, token=1),))


def case(*steps: Step, ledger: Ledger | None = None, facts: Any = None, policy: Any = None, **given: Any) -> Case:
    app = App({"": steps}, **(policy or {}))
    return Case(app, Facts(token=2, **(facts or {})), ledger, **given)


def words(done: Played) -> str:
    """A pass in words: `call charge`, `note`, `nack park`."""
    said = []
    for action in done.actions:
        name = action.step if isinstance(action, (Call, Check)) else ""
        if isinstance(action, Nack):
            name = action.ending or f"after {action.delay}"
            name += "".join(f" ?{one}" for one in action.failure.questions)
        how = type(action).__name__.lower()
        if isinstance(action, Ack):
            how = "finished with failures" if action.with_failures else "finished"
        said.append(f"{how} {name}".strip())
    return ", ".join(said)


PASSES = [
    # round trips
    (case(POINTS), "call points, finished"),
    (case(POINTS, Step("label")), "call label, note, call points, finished"),
    (case(CHARGE), "note, call charge, note, finished"),
    (case(POINTS, CHARGE, replace(Z, once=True)),
     "note, call charge, note, call points, note, call z, note, finished"),
    # once
    (case(CHARGE, POINTS, calls={"charge": FAILS}), "note, call charge, note, call points, nack park ?charge"),
    (case(CHARGE, ledger=STARTED), "nack park ?charge"),
    (case(CHARGE, POINTS, ledger=STARTED), "call points, nack park ?charge"),
    (case(CHARGE, ledger=STARTED, policy={"on_unresolved": "dead"}), "nack dead ?charge"),
    (case(CHARGE, ledger=STARTED, policy={"on_failure": "drop"}), "nack park ?charge"),
    (case(CHARGE, calls={"charge": Raised("retry", 7)}), "note, call charge, nack after 7"),
    (case(replace(CHARGE, attempts=1), calls={"charge": Raised("retry", 7)}), "note, call charge, nack park"),
    (case(CHARGE, calls={"charge": Raised("outage")}), "note, call charge, nack park ?charge"),
    (case(CHARGE, calls={"charge": Raised("outage by hand", 2)}), "note, call charge, nack after 2"),
    # once in this version or in the one before it
    (case(replace(CHARGE, once=False), ledger=FAILED), "nack park ?charge"),
    (case(CHARGE, ledger=Ledger(1, (Entry("charge", state="failed", attempts=1),))), "nack park ?charge"),
    # nothing happened
    (case(CHARGE, POINTS, calls={"charge": Raised("park")}), "note, call charge, nack park"),
    (case(CHARGE, POINTS, calls={"charge": Raised("set aside")}), "note, call charge, nack dead"),
    (case(CHARGE, POINTS, calls={"charge": Raised("declined")}), "note, call charge, nack park"),
    (case(CHARGE, calls={"charge": Raised("declined")}, policy={"on_failure": "dead"}), "note, call charge, nack dead"),
    (case(GIFT, POINTS, calls={"charge": Raised("declined")}),
     "note, call charge, note, call points, finished with failures"),
    # a start that replicas did not confirm
    (case(CHARGE, answers=(UNCONFIRMED,)), "note, nack after 1"),
    (case(CHARGE, POINTS, answers=(UNCONFIRMED,)), "note, note, call points, nack after 1"),
    (case(replace(CHARGE, attempts=1), answers=(UNCONFIRMED,), facts={"outages": 9}), "note, nack after 1"),
    (case(GIFT, answers=(UNCONFIRMED,)), "note, nack after 1"),
    # check
    (case(ASKS, ledger=STARTED), "check charge, note, call charge, note, finished"),
    (case(ASKS, ledger=STARTED, checks={"charge": Returned("p9")}), "check charge, finished"),
    (case(ASKS, ledger=FAILED, checks={"charge": FAILS}), "check charge, nack after 2"),
    (case(replace(ASKS, attempts=1), calls={"charge": FAILS}), "note, call charge, nack after 1"),
    (case(replace(ASKS, attempts=1), ledger=FAILED, checks={"charge": Returned("p9")}), "check charge, finished"),
    (case(replace(ASKS, attempts=1), ledger=FAILED), "check charge, nack park"),
    (case(replace(ASKS, attempts=1), ledger=FAILED, checks={"charge": FAILS}), "check charge, nack park ?charge"),
    (case(replace(ASKS, optional=True), calls={"charge": FAILS}), "note, call charge, nack after 1"),
    # a check before the message is given up
    (case(ASKS, MAIL, ledger=STARTED, facts={"unanswered": 3}, checks={"charge": Returned("p9")}),
     "check charge, note, call mail, finished"),
    (case(ASKS, ledger=STARTED, facts={"unanswered": 3}), "check charge, nack park"),
    (case(ASKS, ledger=STARTED, facts={"unanswered": 3}, checks={"charge": FAILS}), "check charge, nack park ?charge"),
    (case(ASKS, ledger=STARTED, facts={"unanswered": 4}), "nack park ?charge"),
    (case(ASKS, ledger=STARTED, facts={"given_up": "late", "given_up_as": "drop"}), "check charge, nack drop"),
    (case(ASKS, ledger=STARTED, facts={"unanswered": 3}, stops_at=0), "release"),
    (case(Step("points", 1), ASKS, ledger=STARTED, calls={"points": Raised("park")}),
     "call points, note, check charge, nack park"),
    (case(ASKS, POINTS, calls={"charge": FAILS, "points": Raised("park")}),
     "note, call charge, note, call points, nack park ?charge"),
    (case(ASKS, ledger=FAILED, checks={"charge": Raised("outage")}), "check charge, nack after 1"),
    (case(ASKS, ledger=FAILED, checks={"charge": Raised("outage")}, facts={"outages": 9}),
     "check charge, nack after 2"),
    # after
    (case(Step("points", 1, after="charge"), CHARGE), "note, call charge, note, call points, finished"),
    (case(CHARGE, AFTER, calls={"charge": FAILS}), "note, call charge, nack park ?charge"),
    (case(POINTS, replace(MAIL, after="points"), calls={"points": FAILS}), "call points, nack after 1"),
    (case(MAIL, Step("z", 200, after="mail", optional=True), calls={"mail": FAILS}),
     "call mail, finished with failures"),
    (case(CHARGE, Step("points", 1), replace(Z, after="charge points"), calls={"points": FAILS}),
     "call points, note, call charge, note, nack after 1"),
    (case(CHARGE, Step("points", 1), replace(Z, after="charge points")),
     "call points, note, call charge, note, call z, finished"),
    (case(CHARGE, MAIL, Step("z", 200, after="charge mail", optional=True), calls={"mail": FAILS}),
     "note, call charge, note, call mail, finished with failures"),
    # optional
    (case(MAIL, calls={"mail": FAILS}), "call mail, finished with failures"),
    (case(replace(MAIL, attempts=2), calls={"mail": FAILS}), "call mail, nack after 1"),
    (case(GIFT, calls={"charge": FAILS}), "note, call charge, note, finished with failures"),
    (case(GIFT, ledger=Ledger(1, (Entry("charge", True, True, "started", token=1),))),
     "finished with failures"),
    # attempts, and what a step asks for its message
    (case(POINTS, Z, calls={"points": FAILS}), "call points, note, call z, nack after 1"),
    (case(POINTS, calls={"points": FAILS}, policy={"max_attempts": 1}), "call points, nack park"),
    (case(POINTS, calls={"points": Raised("set aside")}), "call points, nack dead"),
    (case(CHARGE, POINTS, ledger=STARTED, calls={"points": Raised("set aside")}), "call points, nack park ?charge"),
    (case(POINTS, Z, calls={"points": Raised("park")}), "call points, nack park"),
    (case(POINTS, Z, calls={"points": Raised("result")}), "call points, nack park"),
    (case(POINTS, Z, ledger=LOST), "nack park"),
    (case(MAIL, calls={"mail": Raised("result")}), "call mail, finished with failures"),
    (case(MAIL, Step("z", 200), calls={"mail": Raised("result")}),
     "call mail, note, call z, finished with failures"),
    (case(POINTS, facts={"unanswered": 3}), "nack park"),
    (case(CHARGE, ledger=STARTED, facts={"unanswered": 3}, policy={"on_failure": "drop"}), "nack park ?charge"),
    (case(POINTS, facts={"given_up": "late", "given_up_as": "drop"}), "nack drop"),
    (case(CHARGE, ledger=STARTED, facts={"given_up": "late", "given_up_as": "drop"}), "nack park ?charge"),
    # a stop
    (case(CHARGE, stops_at=0), "release"),
    (case(CHARGE, stops_at=1), "note, call charge, note, finished"),
    (case(POINTS, Z, stops_at=1), "call points, note, release"),
    (case(POINTS, stops_at=1), "call points, finished"),
    # a lease or a message that was lost
    (case(CHARGE, answers=(0,)), "note, lost"),
    (case(POINTS, CHARGE, answers=(1, -1)), "note, call charge, note, lost"),
]  # fmt: skip
"""A case, and its pass in words."""


@pytest.mark.parametrize(("one", "expected"), PASSES, ids=lambda one: one if isinstance(one, str) else "")
def test_what_a_pass_does(one: Case, expected: str) -> None:
    assert words(played(one)) == expected


UNKNOWN: list[tuple[Entry, dict[str, Any], str]] = [
    (Entry("old", state="done"), {}, "call points, finished"),
    (Entry("old", optional=True, state="failed", attempts=1), {}, "call points, finished with failures"),
    (Entry("old"), {}, "nack after None"),
    (Entry("old", state="failed", attempts=1), {}, "nack after None"),
    (Entry("old", once=True, state="started"), {}, "nack after None"),
    (Entry("old"), {"retired": frozenset({"old"})}, "call points, finished"),
    (Entry("old", state="failed", attempts=1), {"retired": frozenset({"old"})}, "call points, finished"),
    (Entry("old", once=True), {"retired": frozenset({"old"})}, "nack after None"),
    (Entry("old", once=True, state="started"), {"retired": frozenset({"old"})}, "nack after None"),
]


@pytest.mark.parametrize(("entry", "policy", "expected"), UNKNOWN, ids=lambda one: str(one)[:60])
def test_a_step_that_this_version_lacks(entry: Entry, policy: dict[str, Any], expected: str) -> None:
    """It is released without an attempt and without a write, and parks when the wait for another version is over."""
    done = played(case(POINTS, ledger=Ledger(1, (entry,)), policy=policy))
    assert words(done) == expected
    if isinstance(done.end, Nack):
        assert done.end.is_missing
        waited = played(case(POINTS, ledger=Ledger(1, (entry,)), policy=policy, facts={"has_waited": True})).end
        assert isinstance(waited, Nack)
        assert (waited.ending, waited.failure.missing) == ("park", ("old",))


def test_a_kind_that_this_version_lacks() -> None:
    unknown = case(POINTS, facts={"kind": "refund"}, policy={"on_unknown": "drop"})
    assert words(played(unknown)) == "nack after None"
    waited = case(POINTS, facts={"kind": "refund", "has_waited": True}, policy={"on_unknown": "drop"})
    assert words(played(waited)) == "nack drop"
    assert words(played(replace(waited, ledger=STARTED))) == "nack park ?charge"
    again = Ledger(1, (Entry("charge", once=True, turn=2),))
    assert words(played(replace(waited, ledger=again))) == "nack park", "what took effect once is not dropped"


def test_results_and_keys_go_from_step_to_step() -> None:
    again = Ledger(7, (Entry("charge", once=True, turn=2),))
    calls = {"charge": Returned({"payment": "p9"})}
    first, second = (a for a in played(case(CHARGE, POINTS, ledger=again, calls=calls)).actions if isinstance(a, Call))
    assert (first.key, second.key) == ("q/g/m/0000000000000007/charge#2", "q/g/m/0000000000000007/points")
    assert second.results == {"charge": {"payment": "p9"}}


def test_an_optional_step_waits_for_what_a_person_may_answer() -> None:
    """It is left only if the step that it comes after is left."""
    end = played(case(CHARGE, replace(MAIL, after="charge"), ledger=STARTED)).end
    assert isinstance(end, Nack)
    assert [entry.state for entry in end.ledger.entries] == ["started", "open"]


@pytest.mark.slow
@settings(max_examples=examples(400))
@given(CASES)
def test_a_pass_keeps_its_bounds(one: Case) -> None:
    assert broken(one) == []


def broken(one: Case) -> list[str]:
    """What is wrong with the pass, whatever the case is."""
    done = played(one)
    end, found = done.end, []
    has_begun = any(e.state == "started" and e.token == one.facts.token for n in done.notes for e in n.ledger.entries)
    checks = sum(isinstance(action, Check) for action in done.actions)
    if len(done.called) != len(set(done.called)):
        found.append("a step was called twice")
    taken_back = {note.start for note in done.notes} - {"", *done.called}
    if len(done.notes) > len(done.called) + checks + len(taken_back) + (1 if has_begun else 0):
        found.append("it noted more often than once a step, once for the first start, and for each that was taken back")
    if isinstance(end, Release):
        before = done.ledger(one.ledger) or Ledger(one.facts.stamp)
        returned = {name for name in done.called if isinstance(one.calls[name], Returned)}
        if returned - {entry.name for entry in before.entries if entry.state == "done"}:
            found.append("it was released before everything was noted")
    if isinstance(end, Ack | Nack):
        asked = [e for e in end.ledger.entries if e.once and not e.optional and e.state in ("started", "failed")]
        is_told = isinstance(end, Nack) and end.failure.questions and end.ending == one.app.on_unresolved
        if asked and (isinstance(end, Ack) or end.ending) and not is_told:
            found.append("a question is given up")
    if isinstance(end, Ack):
        required = {step.name for step in one.app.steps("") if not step.optional}
        states = {entry.name: entry.state for entry in end.ledger.entries}
        found += [f"{name} is {states[name]}" for name in required if states[name] not in ("done", "left")]
    return found if played(one) == done else [*found, "it differs when it is repeated"]

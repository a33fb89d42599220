"""The product's pass and the model's, pass by pass: the same cases, each action and the end compared.

What both of them know of a case is in tests/support/steps_product.py. Here a rule of the model that is taken out shows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis.errors import NoSuchExample

from ..support.examples import examples
from ..support.steps_model import cases
from ..support.steps_model.actions import Facts, Raised
from ..support.steps_model.cases import CASES, Case
from ..support.steps_model.controls import CONTROLS
from ..support.steps_model.declared import App, Step
from ..support.steps_model.ledger import Entry
from ..support.steps_model.ledger import Ledger as ModelLedger
from ..support.steps_model.rules import Rules
from ..support.steps_product import model_action, played
from .test_steps_pass import PASSES, POINTS, UNKNOWN, case

RULES = [name for name, control in CONTROLS.items() if issubclass(control, Rules)]
"""Those that a case shows."""
DROP = Facts(token=9, given_up_as="drop")


def rare(*steps: Step, entries: tuple[Entry, ...] = (), retired: frozenset[str] = frozenset(), **given: Any) -> Case:
    ledger = ModelLedger(1, entries) if entries else None
    return Case(App({"": steps}, retired=retired, max_attempts=1), DROP, ledger, **given)


CHARGE = Step("charge", once=True)
RARE = {
    "a Retry in a once step counts an attempt": rare(CHARGE, Step("mail"), calls={"charge": Raised("retry")}),
    "a check that raises counts an attempt": rare(
        Step("charge"),
        Step("label", once=True, has_check=True),
        Step("points"),
        entries=(Entry("charge", state="done", attempts=1), Entry("label", True, state="started", token=1)),
        checks={"label": Raised()},
    ),
    "a step behind one that a person may answer waits": rare(
        Step("label"),
        Step("charge", after="label", optional=True),
        entries=(Entry("label", True, state="started", token=1),),
    ),
    "a step behind one that is left is left too": rare(
        Step("label", optional=True),
        Step("points", once=True, after="label", optional=True),
        Step("mail"),
        calls={"label": Raised()},
    ),
    "a step whose start replicas did not confirm is not called": rare(CHARGE, Step("points"), answers=(2,)),
    "an automatic step that raised is failed, counted or not": rare(
        Step("charge"), Step("label"), calls={"label": Raised("outage")}
    ),
    "an optional step without its result holds nothing back": rare(
        Step("charge"), Step("label", optional=True), calls={"label": Raised("result")}
    ),
    "fresh attempts are written by the nack that parks or buries": rare(
        Step("charge"), Step("label"), calls={"label": Raised()}
    ),
    "retired covers automatic steps only": rare(
        Step("points"), retired=frozenset({"charge"}), entries=(Entry("charge", True, state="started", token=1),)
    ),
}
"""A search took seconds for each: what it found, and shrank."""


def expected(one: Case, rules: Rules | None = None) -> list[Any]:
    return [model_action(action) for action in cases.played(one, rules).actions]


def known(one: Case) -> Case:
    """Only a Retry and an Outage say when; the product drops nothing behind one lease alone that ended unanswered."""
    calls = {name: _timed(event) for name, event in one.calls.items()}
    is_dropped = one.app.on_failure == "drop" and one.app.max_attempts == 1
    facts = replace(one.facts, unanswered=3) if is_dropped and one.facts.unanswered == 1 else one.facts
    return replace(one, calls=calls, facts=facts)


def _timed(event: Any) -> Any:
    is_timed = not isinstance(event, Raised) or event.error in ("retry", "outage by hand")
    return event if is_timed else replace(event, after=None)


@pytest.mark.slow
@settings(max_examples=examples(800))
@given(CASES)
def test_both_do_the_same_in_each_case(one: Case) -> None:
    assert played(known(one)) == expected(known(one))


@pytest.mark.parametrize("entry", [entry for entry, _, _ in UNKNOWN], ids=lambda one: one.state)
@pytest.mark.parametrize(
    "facts", [{}, {"has_waited": True}, {"kind": "refund"}, {"kind": "refund", "has_waited": True}]
)
def test_both_do_the_same_with_what_this_version_lacks(entry: Any, facts: dict[str, Any]) -> None:
    one = case(POINTS, ledger=ModelLedger(1, (entry,)), facts=facts, policy={"on_unknown": "drop"})
    assert played(one) == expected(one)


@pytest.mark.nightly
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", RULES)
def test_without_a_rule_the_model_differs(name: str) -> None:
    rules = CONTROLS[name]()
    if name in RARE:
        assert not _differs(RARE[name], Rules())
        assert _differs(RARE[name], rules)
        return
    checks = list(HealthCheck)
    search = settings(max_examples=20_000, phases=[Phase.generate], suppress_health_check=checks, database=None)
    try:
        find(CASES, lambda one: _differs(known(one), rules), settings=search)
    except NoSuchExample:
        pytest.fail(f"no case shows that the product has the rule: {name}")


@pytest.mark.parametrize(("one", "in_words"), PASSES, ids=lambda one: one if isinstance(one, str) else "")
def test_both_do_the_same_in_the_cases_of_the_table(one: Case, in_words: str) -> None:
    assert played(one) == expected(one)


def _differs(one: Case, rules: Rules) -> bool:
    found = played(one)
    try:
        return found != expected(one, rules)
    except (StopIteration, AssertionError):  # the model without its rule fails, or goes on for ever
        return True

"""What a person says of steps: as the model has it, and one sentence where it can't be said."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sequencer.drain.steps.answers import answered, unanswered
from sequencer.store.ledger import Entry, Ledger, LedgerError

from ..support.steps_model import consumer as model
from ..support.steps_model import ledger as model_ledger
from ..support.steps_model.record import Record
from ..support.steps_model.rules import Rules
from ..support.steps_product import ledger_of, model_rows, rows

STATES: Any = ("open", "started", "done", "failed", "left")
ENTRIES = [
    model_ledger.Entry("charge", once, optional, state, tries=2, token=7, error=error)
    for once in (False, True)
    for optional in (False, True)
    for state in STATES
    for error in ("", "no result")
]


@pytest.mark.parametrize("answer", ["p9", None])
@pytest.mark.parametrize("entry", ENTRIES, ids=str)
def test_answers_are_as_in_the_model(entry: model_ledger.Entry, answer: str | None) -> None:
    before = model_ledger.Ledger(1, (entry,))
    ours = ledger_of(before)
    assert ours is not None
    record = Record("g7", "ann", "", 1, 1, ledger=before)
    done, again = ({}, ["charge"]) if answer is None else ({"charge": answer}, [])
    expected = said(lambda: model_rows(model.answered(Rules(), record, {"charge": answer})))
    assert said(lambda: rows(answered(ours, done, again, who="ann", at=5.0))) == expected


def said(answer: Callable[[], Any]) -> Any:
    try:
        return answer()
    except (LedgerError, model_ledger.LedgerError) as refused:
        return str(refused)


def test_what_can_not_be_said_is_refused_in_one_sentence() -> None:
    ledger = Ledger(1, (Entry("charge", once=True, state="started"), Entry("mail")))
    with pytest.raises(LedgerError, match="the message has no step sms; it has charge, mail"):
        answered(ledger, {"sms": 1}, [], who="ann", at=1.0)
    with pytest.raises(LedgerError, match="step charge can't be done and run again; say one of them"):
        answered(ledger, {"charge": 1}, ["charge"], who="ann", at=1.0)
    with pytest.raises(LedgerError, match="the result can't be written as JSON"):
        answered(ledger, {"charge": object()}, [], who="ann", at=1.0)


def test_a_question_is_open_until_it_is_answered() -> None:
    ledger = Ledger(1, (Entry("charge", once=True, state="started"), Entry("sms", True, True, "started")))
    assert unanswered(ledger) == ("charge",)
    assert unanswered(answered(ledger, {"charge": None}, [], who="ann", at=1.0)) == ()

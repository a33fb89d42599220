"""What a person says of steps: as the model has it, for each state of an entry; and what is refused, in a sentence."""

from __future__ import annotations

import itertools
from typing import Any, get_args

import pytest

from sequencer.drain.steps.answers import Answers
from sequencer.errors import AnswerRefused, ConfigurationError, InvalidBody
from sequencer.store.ledger import Ledger

from ..support.steps_model import ledger as model
from ..support.steps_model.rules import Rules
from ..support.steps_product import ledger_of, model_rows, rows

ENTRIES = [
    model.Entry("pay", once, optional, state, attempts=2, token=7 if state == "started" else 0, error=error)
    for once, optional, state, error in itertools.product(
        (False, True), (False, True), get_args(model.State), ("", "lost")
    )
    if once or state != "started"
]


def by_model(entry: model.Entry, *, done: bool) -> Any:
    rules = Rules()
    try:
        moved = rules.done_by(entry, "ann", 9) if done else rules.again(entry)
    except model.LedgerError:
        return "refused"
    return model_rows(model.Ledger(1, (moved,)))


def by_product(entry: model.Entry, *, done: bool) -> Any:
    answers = Answers.of({"pay": 9}, []) if done else Answers.of({}, ["pay"])
    try:
        return rows(answers.applied(ledger_of(model.Ledger(1, (entry,))), who="ann", at=5.0))
    except AnswerRefused:
        return "refused"


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda one: f"{one.kind} {one.state} {one.error}".strip())
def test_each_answer_is_taken_or_refused_as_in_the_model(entry: model.Entry) -> None:
    for done in (True, False):
        assert by_product(entry, done=done) == by_model(entry, done=done)


def ledger(*entries: model.Entry) -> Ledger:
    found = ledger_of(model.Ledger(1, entries))
    assert found is not None
    return found


PAID = model.Entry("pay", once=True, state="done", result=3)
ASKED = model.Entry("pay", once=True, state="started", token=7)
SAID = model.Entry("pay", once=True, state="done", who="ann", result=3)
LATER = model.Entry("mail", state="failed", error="no")


@pytest.mark.parametrize(
    ("entries", "done", "again", "said"),
    [
        ((PAID,), {"pay": 1}, [], "step pay is done already"),
        ((SAID,), {"pay": 1}, [], "step pay is done already (said by ann)"),
        ((PAID,), {}, ["pay"], "step pay is done; a step that is done does not run again"),
        ((LATER,), {}, ["mail"], "step mail is failed, and runs again by itself; leave it out"),
        ((ASKED, LATER), {"refund": 1}, [], "the message has no step refund; it has mail, pay"),
        ((), {"pay": 1}, [], "the message has no step pay; it has none"),
    ],
)
def test_what_is_refused_says_why(entries: Any, done: Any, again: Any, said: str) -> None:
    with pytest.raises(AnswerRefused) as refused:
        Answers.of(done, again).applied(ledger(*entries), who="ann", at=5.0)
    assert str(refused.value) == said


def test_without_a_ledger_there_is_nothing_to_answer() -> None:
    with pytest.raises(AnswerRefused, match=r"^no step of this message has begun"):
        Answers.of({}, ["pay"]).applied(None, who="ann", at=5.0)


@pytest.mark.parametrize(
    ("done", "again", "error", "said"),
    [
        ("pay", [], ConfigurationError, "done='pay' must be a mapping"),
        ({}, "pay", ConfigurationError, "again='pay' must be a list of names of steps"),
        ({"pay": 1}, ["pay"], ConfigurationError, "step pay stands in done and in again; leave it in one"),
        ({"": 1}, [], ConfigurationError, "step name '' must be"),
        ({"pay": {1, 2}}, [], InvalidBody, "a result given in done can't be kept"),
        ({"pay": "x" * 20_000}, [], InvalidBody, "a result given in done can't be kept: the result is 20002 bytes"),
    ],
)
def test_bad_input_is_refused_before_anything_is_asked(done: Any, again: Any, error: Any, said: str) -> None:
    with pytest.raises(error) as refused:
        Answers.of(done, again)
    assert str(refused.value).startswith(said)


def test_a_result_is_what_json_makes_of_it_and_another_turn_has_fresh_attempts() -> None:
    answered = Answers.of({"pay": (1, 2)}, ["note"]).applied(
        ledger(ASKED, model.Entry("note", optional=True, state="left", attempts=4)), who="ann", at=5.0
    )
    pay, note = answered.entries
    assert (pay.result, pay.who, pay.token, pay.at, pay.error) == ([1, 2], "ann", 0, 5.0, "")
    assert (note.state, note.turn, note.attempts) == ("open", 2, 0)

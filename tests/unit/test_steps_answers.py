"""What a person says of steps: as the model has it, for each state of an entry; and what is refused."""

from __future__ import annotations

import itertools
from typing import Any, get_args

import pytest

from sequencer.drain.steps.answers import Answers
from sequencer.errors import AnswerRefused, ConfigurationError, InvalidBody

from ..support.refused import refused
from ..support.steps_model import ledger as model
from ..support.steps_model.rules import Rules
from ..support.steps_product import ledger_of, rows

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
    return rows(model.Ledger(1, (moved,)))


def by_product(entry: model.Entry, *, done: bool) -> Any:
    answers = Answers.of({"pay": 9}, [], by="ann") if done else Answers.of({}, ["pay"], by="ann")
    try:
        return rows(answers.applied(ledger_of(model.Ledger(1, (entry,))), at=5.0))
    except AnswerRefused:
        return "refused"


def test_each_answer_is_taken_or_refused_as_in_the_model() -> None:
    for entry, done in itertools.product(ENTRIES, (True, False)):
        assert by_product(entry, done=done) == by_model(entry, done=done), entry


@pytest.mark.parametrize(
    ("done", "again", "error"),
    [
        ("pay", [], (ConfigurationError, "steps_mapping_expected")),
        ({}, "pay", (ConfigurationError, "not_a_list")),
        ({"pay": 1}, ["pay"], (ConfigurationError, "answered_twice")),
        ({"": 1}, [], (ConfigurationError, "step_name_invalid")),
        ({"pay": {1, 2}}, [], (InvalidBody, "answer_too_large")),
        ({"pay": "x" * 20_000}, [], (InvalidBody, "answer_too_large")),
    ],
)
def test_bad_input_is_refused_before_anything_is_asked(done: Any, again: Any, error: Any) -> None:
    with refused(*error):
        Answers.of(done, again)


def test_a_result_is_what_json_makes_of_it_and_another_turn_has_fresh_attempts() -> None:
    asked = model.Entry("pay", once=True, state="started", token=7)
    left = model.Entry("note", optional=True, state="left", attempts=4)
    ledger = ledger_of(model.Ledger(1, (asked, left)))
    pay, note = Answers.of({"pay": (1, 2)}, ["note"], by="ann").applied(ledger, at=5.0).entries
    assert (pay.result, pay.who, pay.token, pay.at, pay.error) == ([1, 2], "ann", 0, 5.0, "")
    assert (note.state, note.turn, note.attempts) == ("open", 2, 0)

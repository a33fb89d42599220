"""What chance rarely finds, as chosen steps: each contradiction with its rule, and without it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ..support.steps_model.actions import Ack, Answered, Began, Call, Facts, Failure, Nack, Note, Raised, Returned
from ..support.steps_model.consumer import answered
from ..support.steps_model.controls import CONTROLS
from ..support.steps_model.declared import App, Step
from ..support.steps_model.ledger import LedgerError
from ..support.steps_model.passes import Pass, begin, next_action
from ..support.steps_model.record import Claim, Record
from ..support.steps_model.rules import Rules
from ..support.steps_model.shard import Shard

MESSAGE = Record("g7", "ann", "gift", 0, 1)


class Play:
    """One shard and the passes over its only message, an action at a time."""

    def __init__(self, *steps: Step, without: str = "", **policy: Any) -> None:
        control = CONTROLS.get(without)
        self.shard, self.rules = (control.shard(), control.rules()) if control else (Shard(), Rules())
        self.app = App({"gift": steps}, **policy)
        self.shard.append(MESSAGE)
        self.state: Pass | None = None
        self.action: Any = None
        self.calls: list[str] = []

    def claim(self) -> Claim:
        """A new lease; the lease before it has ended."""
        self.shard.now += 10_000
        self.claimed = self.shard.claim("ann", 1)
        self.record = self.claimed.records[0]
        facts = Facts("g7", "ann", self.record.stamp, "gift", self.claimed.token, self.record.unanswered)
        self.state = begin(self.app, facts, self.record.ledger, self.rules)
        self.hear(Began())
        return self.claimed

    def hear(self, event: Any) -> None:
        assert self.state is not None
        self.state, self.action = next_action(self.state, event)

    def note(self) -> Record:
        """Carry out the note; what was sent."""
        assert isinstance(self.action, Note)
        self.record = replace(self.record, serial=self.record.serial + 1)
        self.sent = self.action
        self.hear(Answered(self.shard.note("ann", self.claimed.token, self.record, None, self.sent)))
        return self.record

    def call(self, end: Any = None) -> None:
        """Call the step that is asked for; without an end the process dies in it."""
        assert isinstance(self.action, Call), self.action
        self.calls.append(self.action.key)
        if end is not None:
            self.hear(end)

    def nack(self) -> None:
        assert isinstance(self.action, Nack), self.action
        self.shard.nack("ann", self.claimed.token, self.record, None, self.action)

    def fail(self) -> None:
        """Each step that is called raises, to the end of the pass."""
        while isinstance(self.action, (Call, Note)):
            if isinstance(self.action, Call):
                self.call(Raised("error"))
            else:
                self.note()
        self.nack()

    @property
    def letter(self) -> Any:
        return self.shard.letters["g7"]


@pytest.mark.parametrize(("without", "is_unresolved"), [("", True), ("a late repeat of a note undoes nothing", False)])
def test_a_late_repeat_of_a_note_undoes_no_start(without: str, is_unresolved: bool) -> None:
    """The note of points comes twice, and late: behind the start of charge. The process dies in charge."""
    play = Play(Step("points"), Step("mail"), Step("charge", 2, once=True), without=without)
    play.claim()
    play.call(Returned(1))
    repeated, note = play.note(), play.sent
    play.call(Returned(2))
    play.note()
    play.call()
    assert play.shard.note("ann", play.claimed.token, repeated, None, note) == 1
    play.claim()
    if is_unresolved:
        assert isinstance(play.action, Nack)
        assert play.action.failure.questions == ("charge",)
    else:
        play.call(Returned(2))
        play.note()
        assert isinstance(play.action, Call)
        assert play.action.key in play.calls, "a once step runs a second time"


@pytest.mark.parametrize(("without", "keys"), [("", 1), ("reschedule keeps the stamp of the keys", 2)])
def test_a_first_step_that_may_have_acted_keeps_its_key_over_a_reschedule(without: str, keys: int) -> None:
    play = Play(Step("charge"), without=without)
    play.claim()
    play.call()
    play.shard.reschedule("ann", "g7", play.shard.now + 5)
    play.claim()
    play.call(Returned("paid"))
    assert isinstance(play.action, Ack)
    assert len(set(play.calls)) == keys


def test_a_message_that_was_never_due_has_no_ledger_after_a_reschedule() -> None:
    shard = Shard()
    shard.append(replace(MESSAGE, due=50))
    shard.reschedule("ann", "g7", 90)
    assert shard.groups["ann"].records["g7"].ledger is None


@pytest.mark.parametrize(("without", "is_again"), [("", False), ("redrive compares the failure that was seen", True)])
def test_two_persons_at_one_letter_repeat_no_step(without: str, is_again: bool) -> None:
    """Both see that charge is unknown. The first says done; points runs; mail fails: a letter again, another one."""
    steps = (Step("charge", once=True), Step("points", 2), Step("mail", 3, attempts=1))
    play = Play(*steps, without=without, on_unresolved="dead", on_failure="dead")
    play.claim()
    play.note()
    play.call()
    play.claim()
    play.fail()
    for _ in range(2):  # points has two attempts more
        play.claim()
        play.fail()
    record, seen = play.letter
    ledger = answered(play.rules, record, {"charge": {"payment": "p9"}})
    assert play.shard.redrive("g7", seen, ledger)
    play.claim()
    play.call(Returned("ten points"))
    play.note()
    play.call(Raised("error"))
    play.nack()
    assert play.shard.redrive("g7", seen, ledger) == is_again
    if is_again:
        play.claim()
        assert isinstance(play.action, Call)
        assert play.action.step == "points", "a done step runs again"


@pytest.mark.parametrize(("without", "is_tried"), [("", True), (
    "fresh attempts are written by the nack that parks or buries", False)])  # fmt: skip
def test_a_redriven_message_is_tried_again(without: str, is_tried: bool) -> None:
    play = Play(Step("points", attempts=1), without=without, on_failure="dead")
    play.claim()
    play.call(Raised("error"))
    play.nack()
    play.shard.redrive("g7", play.letter[1], None)
    play.claim()
    assert isinstance(play.action, Call) == is_tried


@pytest.mark.parametrize(("without", "code"), [("", -2), ("a note is behind the acknowledgements of its group", 1)])
def test_notes_and_nacks_wait_for_the_acknowledgement_before_them(without: str, code: int) -> None:
    """An ack failed alone: the message that was handled is still there, and would be handled again."""
    play = Play(Step("charge", once=True), without=without)
    play.shard.append(replace(MESSAGE, id="g8", score=2))
    claim = play.shard.claim("ann", 2)
    first, second = claim.records
    ledger = answered(Rules(), second, {})
    sent = replace(second, serial=1)
    assert play.shard.note("ann", claim.token, sent, first.member, Note(ledger, False)) == code
    nack = Nack(ledger, False, "", Failure("error"), 1)
    assert play.shard.nack("ann", claim.token, second, first.member, nack) == code
    assert play.shard.ack("ann", claim.token, first) == (1 if code == -2 else 0)


@pytest.mark.parametrize(("without", "is_asked"), [("", True), ("a question stays required", False)])
def test_a_version_in_which_a_step_is_optional_answers_no_question(without: str, is_asked: bool) -> None:
    play = Play(Step("charge", once=True), without=without)
    play.claim()
    play.note()
    play.call()
    play.app = App({"gift": (Step("charge", once=True, optional=True),)})
    play.claim()
    assert isinstance(play.action, Nack if is_asked else Ack)


def test_answers_that_the_table_does_not_have_are_refused() -> None:
    play = Play(Step("charge", once=True), Step("mail", 2, attempts=1), Step("points", 3))
    play.claim()
    play.note()
    play.call(Returned("paid"))
    play.note()
    play.call(Raised("error"))
    play.note()
    record = play.shard.groups["ann"].records["g7"]
    for name, answer, sentence in [
        ("charge", {"payment": "p9"}, "step charge can't go from done to done"),
        ("charge", None, "step charge can't go from done to open"),
        ("mail", None, "step mail can't be run again: it is failed and automatic"),
    ]:
        with pytest.raises(LedgerError, match=sentence):
            answered(Rules(), record, {name: answer})
    done = answered(Rules(), record, {"mail": "sent by hand", "points": 10})
    assert [(entry.state, entry.who) for entry in done.entries[1:]] == [("done", "ann"), ("done", "ann")]

"""What a person sees and says of steps, over a MemoryQueue: resume, resume_many, redrive, steps."""

from __future__ import annotations

from typing import Any

import pytest

from sequencer.errors import AnswerNeeded, AnswerRefused, ConfigurationError, MessageNotFound, NotParked
from sequencer.testing import MemoryQueue

from ..support.refused import refused


def gifts(**settings: Any) -> tuple[MemoryQueue, list[tuple[str, Any]]]:
    """Three steps after a gift; the one that must not happen twice always fails at its first call of a message."""
    seq, ran = MemoryQueue("gifts", group_by=["couple"], id_by="gift", max_attempts=2, **settings), list[Any]()

    @seq.step(order=10, once=True)
    def charge(message: Any, step: Any) -> Any:
        ran.append((message.id, step.key))
        if message.body.get("fails") and "#" not in step.key:
            raise ConnectionResetError("no answer from the bank")
        return {"payment": step.key[-8:]}

    @seq.step(order=20, after="charge")
    def points(message: Any, step: Any) -> Any:
        ran.append((message.id, step.result))

    @seq.step(order=30, optional=True)
    def notify(message: Any) -> None:
        raise ValueError("no address")

    return seq, ran


def asked(**settings: Any) -> tuple[MemoryQueue, list[tuple[str, Any]]]:
    """The same, with a gift whose charge may have taken effect."""
    seq, ran = gifts(**settings)
    seq.append({"couple": "ann", "gift": "g7", "fails": True})
    seq.append({"couple": "ann", "gift": "g8"})
    seq.drain()
    return seq, ran


def test_steps_are_seen_with_what_became_of_them() -> None:
    seq, _ = asked()
    found = seq.steps("ann")
    assert found is not None
    assert (found.id, found.group, found.is_dead, found.questions) == ("g7", ("ann",), False, ("charge",))
    seen = [(one.name, one.state, one.once, one.optional) for one in found.steps]
    expected = [("charge", "failed", True, False), ("points", "open", False, False), ("notify", "left", False, True)]
    assert seen == expected
    charge = found.steps[0]
    assert charge.error == "ConnectionResetError: no answer from the bank"
    assert charge.key.endswith("/charge")
    assert charge.at == pytest.approx(seq.now, abs=60)
    assert [one.error for one in found.failures] == [charge.error, "ValueError: no address"]
    behind = seq.steps("ann", "g8")
    assert behind is not None
    assert (behind.steps, behind.questions, behind.unreadable) == ((), (), "")
    assert (seq.steps("ann", "g9"), seq.steps("bob")) == (None, None)


def test_an_answer_for_one_message_is_not_taken_for_the_next() -> None:
    """A line of the log that two persons use: the first answer lets the group go on to a question of its own."""
    seq, ran = gifts()
    for gift in ("g7", "g8"):
        seq.append({"couple": "ann", "gift": gift, "fails": True})
    seq.drain()
    assert seq.resume("ann", id="g7", done={"charge": 1})
    seq.drain()
    with refused(NotParked, "other_head", head="g8", id="g7"):
        seq.resume("ann", id="g7", done={"charge": 1})
    found = seq.steps("ann")
    assert found is not None
    assert (found.id, found.questions) == ("g8", ("charge",))
    assert [id for id, _ in ran] == ["g7", "g7", "g8"]


def test_done_is_never_called_again_and_its_result_is_handed_on() -> None:
    seq, ran = asked()
    assert seq.resume("ann", done={"charge": {"payment": "p9"}}, by="ann@bank")
    found = seq.steps("ann")
    assert found is not None
    assert (found.steps[0].state, found.steps[0].who, found.questions) == ("done", "ann@bank", ())
    done = seq.drain()
    assert [message.id for message in done.handled] == ["g7", "g8"]
    assert ran[1] == ("g7", {"payment": "p9"})
    assert [id for id, _ in ran].count("g7") == 2


def test_results_that_leave_no_room_for_what_comes_are_refused() -> None:
    """Else a step that ran could not be noted, and would run again."""
    seq = MemoryQueue("gifts", max_attempts=1)
    for name in "abcd":
        seq.step(name=name, once=True)(lambda message: 1 / 0)
    seq.append({}, "ann", id="g7")
    seq.drain()
    results = dict.fromkeys("abc", "x" * 16_300)
    with refused(AnswerRefused, "answer_too_large"):
        seq.resume("ann", done=results | {"d": "x" * 1_000})
    assert seq.resume("ann", done=results | {"d": None, "c": "x" * 15_000})
    assert len(seq.drain().handled) == 1


def test_again_runs_it_under_another_key() -> None:
    seq, ran = asked()
    assert seq.resume("ann", again=["charge"])
    assert [message.id for message in seq.drain().handled] == ["g7", "g8"]
    first, second = [said for id, said in ran if id == "g7"][:2]
    assert second == f"{first}#2"


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ({}, (AnswerNeeded, "answer_needed")),
        ({"done": {"notify": 1}}, (AnswerNeeded, "more_answers_needed")),
        ({"done": {"refund": 1}}, (AnswerRefused, "step_not_found")),
        ({"again": ["points"], "done": {"charge": 1}}, (AnswerRefused, "step_runs_again")),
        ({"done": {"charge": 1}, "by": "a\nb"}, (ConfigurationError, "by_invalid")),
    ],
)
def test_what_does_not_fit_is_refused_and_changes_nothing(said: Any, error: Any) -> None:
    seq, _ = asked()
    before = seq.steps("ann")
    with refused(*error):
        seq.resume("ann", **said)
    assert seq.steps("ann") == before
    assert seq.snapshot().parked == 1


def test_many_leave_questions_alone_and_answer_all_of_them_at_once() -> None:
    seq, ran = gifts()
    for couple in ("ann", "bob", "cy"):
        seq.append({"couple": couple, "gift": f"of {couple}", "fails": True})
    seq.drain()
    left = seq.resume_many(everything=True)
    assert (left.chosen, left.done, left.asked) == (0, 0, 3)
    dry = seq.resume_many(error="StepUnknown", again=["charge"], dry_run=True)
    assert (dry.chosen, dry.done) == (3, 0)
    done = seq.resume_many(error="StepUnknown", again=["charge"])
    assert (done.chosen, done.done, done.asked) == (3, 3, 0)
    assert len(seq.drain().handled) == 3
    assert sum(str(said).endswith("/charge#2") for _, said in ran) == 3


def test_a_dead_letter_keeps_its_question_and_comes_back_with_the_answer() -> None:
    seq, ran = asked(on_unresolved="dead_letter")
    found = seq.steps("ann", "g7")
    assert found is not None
    assert (found.is_dead, found.questions) == (True, ("charge",))
    assert [letter.message.id for letter in seq.dead()] == ["g7"]
    redriven = seq.redrive(everything=True)
    assert (redriven.redriven, redriven.asked, redriven.stayed) == (0, 1, ((("ann",), "g7"),))
    with refused(AnswerNeeded, "dead_letter_asks", id="g7"):
        seq.redrive(id="g7")
    with pytest.raises(MessageNotFound):
        seq.redrive(id="g9", done={"charge": 1})
    assert seq.redrive(id="g7", done={"charge": {"payment": "p9"}}).redriven == 1
    assert [message.id for message in seq.drain().handled] == ["g7"]
    assert ran[-1] == ("g7", {"payment": "p9"})


@pytest.mark.parametrize("late", [{"again": ["charge"]}, {"done": {"charge": None}}])
def test_an_answer_for_an_attempt_before_the_last_one_is_refused(late: Any) -> None:
    """Two operators see one question; the step runs between their answers, and is a question again."""
    seq = MemoryQueue("gifts", max_attempts=1)

    @seq.step(once=True)
    def charge(message: Any, step: Any) -> Any:
        if not step.key.endswith("#3"):
            raise ConnectionResetError("no answer from the bank")

    seq.append({}, "ann", id="g7")
    seq.drain()
    found = seq.steps("ann")
    assert found is not None
    seen = {step.name: step.attempts for step in found.steps}
    assert seen == {"charge": 1}
    assert seq.resume("ann", again=["charge"], attempts=seen)
    assert seq.drain().parked
    with refused(AnswerRefused, "answer_outdated", attempt=1, last=2):
        seq.resume("ann", **late, attempts=seen)
    assert seq.resume("ann", again=["charge"], attempts={"charge": 2})
    assert len(seq.drain().handled) == 1


@pytest.mark.parametrize("attempts", [["charge"], {"charge": -1}, {"points": 1}])
def test_an_attempt_is_a_number_of_a_step_that_is_answered_for(attempts: Any) -> None:
    seq, _ = asked()
    with pytest.raises(ConfigurationError):
        seq.resume("ann", again=["charge"], attempts=attempts)

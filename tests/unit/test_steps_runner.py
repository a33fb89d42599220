"""A note is sent again until it is answered, while the lease holds; then the lease counts as lost."""

from __future__ import annotations

from typing import Any

from sequencer.calls.claim import LeasedGroup
from sequencer.drain.effects import Control, Note, Run, Sleep
from sequencer.drain.held import Held
from sequencer.drain.steps.actions import Lost, Returned
from sequencer.drain.steps.declared import Function, Steps, new_step
from sequencer.drain.steps.runner import StepRunner
from sequencer.errors import ServerUnavailable
from sequencer.settings.options import QueueOptions
from sequencer.store.keys import lane_keys
from sequencer.values.message import Message

LEASE_S = 15.0


def ends_of_a_note(
    answers: list[int | None], *, is_stopping: bool = False, takes_s: float = 0.0
) -> tuple[Any, list[Any], float]:
    """The end of a pass over two steps whose only note is answered so, None for a lost connection; with the effects
    from the note on, and how long they took.
    """
    now, control = 100.0, Control()
    held = Held([lane_keys("n", "q", 0)], LEASE_S)
    message = Message("m", ("g",), 1.0, {}, {}, 1, 5, 0.0, "q", 9)
    held.take(0, [LeasedGroup("g", ("g",), "5", "", [message], ["m"], ["1"], "", "handle")], now, now)
    declared = Steps()
    for order in (1, 2):
        run = Function(lambda message: None, takes_call=False)
        declared.add(new_step(run, checked=lambda function, _: Function(function), name=f"s{order}", order=order))
    clocks: Any = (lambda: now, lambda: now, lambda: 0.5)
    runner = StepRunner(held, QueueOptions(queue="q"), declared, control, "me", *clocks)
    generator, seen = runner.handle(held.groups[0], 0), list[Any]()
    resume: Any = generator.send
    answer: Any = None
    while True:
        try:
            effect: Any = resume(answer)
        except StopIteration as end:
            return end.value, seen, now - 100.0
        resume, answer = generator.send, Returned(None)
        if isinstance(effect, Run):
            control.is_stopping = is_stopping
            continue
        seen.append(effect)
        if isinstance(effect, Note):
            answer, now = (answers.pop(0) if answers else None), now + takes_s
            if answer is None:
                resume, answer = generator.throw, ServerUnavailable("away")
        elif isinstance(effect, Sleep):
            now, answer = now + effect.seconds, None


def test_a_note_is_sent_again_until_it_is_answered() -> None:
    end, seen, _ = ends_of_a_note([None, None, -2, 1])
    assert type(end).__name__ == "Finished"
    notes = [effect for effect in seen if isinstance(effect, Note)]
    assert len(notes) == 4
    assert len({id(note.written) for note in notes}) == 1, "the same serial: a repeat changes nothing"


def test_a_stop_does_not_shorten_the_waits_between() -> None:
    _, seen, took_s = ends_of_a_note([None, None, 1], is_stopping=True)
    sleeps = [effect for effect in seen if isinstance(effect, Sleep)]
    assert all(one.is_whole for one in sleeps)
    assert took_s > 0.1


def test_past_the_end_of_the_lease_it_counts_as_lost() -> None:
    end, _, took_s = ends_of_a_note([])
    assert isinstance(end, Lost)
    assert LEASE_S <= took_s < LEASE_S + 6


def test_an_answer_that_comes_past_the_end_of_the_lease_lets_no_step_begin() -> None:
    """A process that stood still while it waited for the answer: another consumer may have the group by now."""
    end, seen, _ = ends_of_a_note([1], takes_s=LEASE_S)
    assert isinstance(end, Lost)
    assert [type(effect) for effect in seen] == [Note]


def test_a_lease_or_a_message_that_is_gone_ends_the_pass() -> None:
    for code in (0, -1):
        end, _, _ = ends_of_a_note([code])
        assert isinstance(end, Lost)
        assert end.code == code

"""A note is sent again until it is answered, while the lease holds; then the lease counts as lost."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest

from sequencer.calls.claim import LeasedGroup
from sequencer.consume.in_flight import InFlight
from sequencer.drain.effects import Note, Run, Sleep
from sequencer.drain.held import Held
from sequencer.drain.steps.actions import AGAIN, UNCONFIRMED, Lost, Returned, Unfinished
from sequencer.drain.steps.declared import Steps, new_step
from sequencer.drain.steps.runner import StepRunner
from sequencer.errors import Outage, ServerUnavailable
from sequencer.settings.options import QueueOptions
from sequencer.store.keys import shard_keys
from sequencer.store.ledger import Written
from sequencer.values.message import Message

LEASE_S = 15.0


def ends_of_a_note(
    answers: list[int | None], *, is_stopping: bool = False, takes_s: float = 0.0, **replicas: Any
) -> tuple[Any, list[Any], float]:
    """The end of a pass over two steps whose only note is answered so, None for a lost connection; with the effects
    from the note on, and how long they took. With `replicas` there is one `once` step, and the note is of its start.
    """
    now = 100.0
    held = Held([shard_keys("n", "q", 0)], LEASE_S)
    message: Message = Message("m", ("g",), 1.0, {}, {}, 1, 5, 0.0, "q", 9)
    held.take(0, [LeasedGroup("g", ("g",), "5", "", [message], ["m"], ["1"], "", "handle")], now, now)
    declared = Steps()
    once = bool(replicas)
    for order in (1,) if once else (1, 2):
        declared.add(new_step(lambda message: None, name=f"s{order}", order=order, once=once))
    clocks: Any = (lambda: now, lambda: now, lambda: 0.5)
    runner = StepRunner(held, QueueOptions(queue="q", **replicas), declared, "me", *clocks)
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
            runner.is_stopping = is_stopping
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


def test_a_start_that_is_sent_again_is_written_again_and_waits_within_its_lease() -> None:
    """Replicas confirm what is written: by the same serial nothing would be."""
    end, seen, _ = ends_of_a_note([None, AGAIN, UNCONFIRMED], wait_replicas=2, wait_timeout_s=4.0)
    assert isinstance(end, Unfinished)
    assert isinstance(end.outage, Outage)
    notes = [effect for effect in seen if isinstance(effect, Note)]
    assert [note.written.serial for note in notes] == [1, 2, 3]
    assert [note.wait for note in notes] == [(2, 4000)] * 3


def test_a_wait_for_replicas_ends_before_the_lease_does() -> None:
    _, seen, _ = ends_of_a_note([AGAIN] * 9, takes_s=4.0, wait_replicas=1, wait_timeout_s=4.0)
    waits = [effect.wait[1] for effect in seen if isinstance(effect, Note) and effect.wait]
    assert waits[0] == 4000
    assert 0 < waits[-1] < 2000, "half of what is left"


@pytest.mark.parametrize(
    ("code", "is_repeat", "confirmed", "said"),
    [
        (1, False, 1, UNCONFIRMED),
        (1, False, 2, 1),
        (1, True, 2, AGAIN),
        (-1, False, 0, -1),
        (0, True, 2, 0),
        (-2, False, 2, -2),
    ],
)
def test_what_replicas_say_of_a_note(code: int, is_repeat: bool, confirmed: int, said: int) -> None:
    held = Held([shard_keys("n", "q", 0)], LEASE_S)
    message: Message = Message("m", ("g",), 1.0, {}, {}, 1, 5, 0.0, "q", 9)
    held.take(0, [LeasedGroup("g", ("g",), "5", "", [message], ["m"], ["1"], "", "handle")], 0.0, 0.0)
    link = Mock(is_repeat=is_repeat, confirmed=confirmed, **{"run.return_value": [code]})
    in_flight = InFlight(held, "q", "me", link, clock=lambda: 0.0)
    assert in_flight.note(Note(held.groups[0], Written(b"{}", 1, False), False, (2, 100))) == said
    assert link.run.call_args.kwargs == {"wait": (2, 100)}

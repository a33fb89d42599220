"""Which dead letters do not go back: those whose id is pending again, or was handled since."""

from __future__ import annotations

from typing import Any

import pytest

from sequencer import Message, Sequencer
from sequencer.errors import IdConflict
from sequencer.testing import MemoryQueue
from tests.support.handling import Make

from .test_dead_letters import run


def fails_if_bad(message: Message) -> None:
    if message.body == "bad":
        raise ValueError("no")


def buried(make: Make, **options: Any) -> Sequencer:
    """A queue with a dead letter x in group g."""
    seq = make(max_attempts=1, on_failure="dead_letter", **options)
    seq.append("bad", group="g", id="x", score=1)
    run(seq, lambda message: ValueError("no") if message.body == "bad" else None)
    assert [letter.message.id for letter in seq.dead()] == ["x"]
    return seq


def stays(seq: Sequencer, why: str) -> None:
    """It is not redriven, by its id nor with others."""
    done = seq.redrive(everything=True)
    assert (done.redriven, done.stayed) == (0, ((("g",), "x"),))
    assert (done.pending, done.handled) == (why == "pending", why == "handled")
    with pytest.raises(IdConflict):
        seq.redrive(id="x")
    assert len(seq.dead()) == 1


def test_a_letter_whose_id_was_handled_since_stays(make: Make) -> None:
    seq = buried(make)
    seq.append("good", group="g", id="x", score=1, replace=True)
    stays(seq, "pending")
    assert run(seq, lambda message: None) == [("x", 1)]
    stays(seq, "handled")


@pytest.mark.parametrize("what", ["cancelled", "died too", "nothing remembered"])
def test_a_letter_whose_id_was_not_handled_since_goes_back(make: Make, what: str) -> None:
    seq = buried(make, dedup_window=0.0 if what == "nothing remembered" else 60.0)
    seq.append("bad", group="g", id="x", score=1, replace=True)
    if what == "cancelled":
        seq.cancel("g", "x")
    else:
        run(seq, lambda message: ValueError("no") if what == "died too" else None)
    assert seq.redrive(id="x").redriven == 1
    assert run(seq, lambda message: None) == [("x", 1)]


def test_of_two_letters_with_one_id_one_goes_back(make: Make) -> None:
    seq = buried(make)
    seq.append("bad", group="g", id="x", score=1, replace=True)
    run(seq, lambda message: ValueError("no"))
    told = list[tuple[int, int]]()
    done = seq.redrive(everything=True, on_progress=lambda *counts: told.append(counts))
    assert (done.redriven, done.pending, told) == (1, 1, [(2, 2)])
    assert run(seq, lambda message: None) == [("x", 1)]
    stays(seq, "handled")


def test_a_letter_older_than_the_window_stays_when_its_id_came_again() -> None:
    queue = MemoryQueue("jobs", max_attempts=1, on_failure="dead_letter", dedup_window=60.0)
    queue.append("bad", group="g", id="x")
    queue.drain(fails_if_bad)
    queue.advance(200)
    queue.append("good", group="g", id="x")
    assert len(queue.drain(fails_if_bad).handled) == 1
    assert queue.redrive(everything=True).handled == 1
    for seconds in (40, 21):
        queue.advance(seconds)
        queue.append("other", group="h")
        queue.drain(fails_if_bad)
    assert queue.redrive(everything=True).handled == 1, "in the older generation"
    queue.advance(500)
    assert queue.redrive(everything=True).redriven == 1, "it is not known any more"

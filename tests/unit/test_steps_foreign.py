"""No ledger of another message is ever read: an id that is used again, or replaced, has steps and keys of its own."""

from __future__ import annotations

from typing import Any

import pytest

from sequencer.drain.steps.runner import StepRunner
from sequencer.errors import StopConsuming
from sequencer.store.ledger import Written
from sequencer.testing import MemoryQueue

from ..support.changed_script import changed_script


def ran_by_id(how: str) -> list[tuple[str, str]]:
    """Step and key of each call: a message fails behind its first step and is gone, and its id is used again."""
    ends: Any = {"handled": "park", "dropped": "drop", "skipped": "park", "replaced": "park"}
    seq = MemoryQueue("gifts", max_attempts=1, on_failure=ends[how], dedup_window=60)

    @seq.step(order=1, optional=how == "replaced")
    def charge(message: Any) -> None:
        if how == "replaced" and message.body == 1:
            raise ValueError("nothing happened")

    @seq.step(order=2)
    def points(message: Any) -> None:
        if message.body == 1 and how != "handled":
            raise ValueError("no")

    seq.append(1, "ann", id="g7")
    runs = seq.drain().steps
    if how == "skipped":
        seq.skip("ann", yes=True)
    if how != "replaced":
        seq.advance(61)
    assert not seq.append(2, "ann", id="g7", replace=how == "replaced").duplicate
    runs += seq.drain().steps
    return [(run.step, run.key) for run in runs]


@pytest.mark.parametrize("how", ["handled", "dropped", "skipped", "replaced"])
def test_an_id_that_is_used_again_has_steps_and_keys_of_its_own(how: str) -> None:
    ran = ran_by_id(how)
    assert [name for name, _ in ran] == ["charge", "points"] * 2
    assert len({key for _, key in ran}) == 4


def test_a_ledger_that_is_kept_by_group_and_id_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not with its message, but in a hash of its own."""
    kept: dict[tuple[str, str], Written] = {}
    real = StepRunner.handle

    def handle(self: Any, group: Any, position: int) -> Any:
        leased = group.leased
        name, ledgers = (leased.key, leased.messages[position].id), [None] * len(leased.messages)
        leased.ledgers = [*ledgers[:position], kept.get(name), *ledgers[position + 1 :]]
        end = yield from real(self, group, position)
        if self._last.ledger:
            kept[name] = self._last
        return end

    monkeypatch.setattr(StepRunner, "handle", handle)
    assert [name for name, _ in ran_by_id("dropped")] == ["charge", "points", "points"], "a charge is skipped"


def keys_over_a_reschedule() -> set[str]:
    """Of a first step that may have acted: it was interrupted, and somebody gave its message another time."""
    seq, keys = MemoryQueue("gifts", max_attempts=3), list[str]()

    @seq.step
    def charge(message: Any, step: Any) -> None:
        keys.append(step.key)
        if len(keys) == 1:
            raise StopConsuming

    seq.append(1, "ann", id="g7")
    assert seq.drain().reason == "stopped"
    seq.reschedule("ann", "g7", delay=40)
    assert len(seq.drain().handled) == 1
    return {*keys}


def test_a_reschedule_keeps_the_keys() -> None:
    assert len(keys_over_a_reschedule()) == 1


def test_a_reschedule_that_forgets_them_is_found() -> None:
    with changed_script("update", "if ledger == '' and due_us <= now", "if false"):
        assert len(keys_over_a_reschedule()) == 2

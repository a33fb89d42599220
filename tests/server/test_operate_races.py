"""What changes between a look and the act that follows it: nobody acts on what they did not see."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sequencer import Gap, Message, Sequencer, calls
from sequencer.errors import GroupBusy


def fail(_: Message) -> None:
    raise ValueError("no")


def before(monkeypatch: pytest.MonkeyPatch, name: str, act: Callable[[], Any]) -> None:
    """Do this once, between the next look and the call of this script that follows it."""
    original = getattr(calls, name)

    def make(*args: Any, **kwargs: Any) -> Any:
        monkeypatch.setattr(calls, name, original)
        act()
        return original(*args, **kwargs)

    monkeypatch.setattr(calls, name, make)


def test_a_skip_removes_no_other_message_than_the_one_it_saw(
    make: Callable[..., Sequencer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another removes that, and the next one fails, before the script runs."""
    seq, other = make(max_attempts=1), make()
    for n in (1, 2, 3):
        seq.append(n, group="g", id=f"m{n}")
    seq.consume(fail, until_empty=True)

    def act() -> None:
        assert isinstance(skipped := other.skip("g"), Message)
        assert skipped.id == "m1"
        seq.consume(fail, until_empty=True)

    before(monkeypatch, "resume", act)
    with pytest.raises(GroupBusy):
        seq.skip("g")
    assert [message.id for message in seq.peek("g")] == ["m2", "m3"]


def test_a_step_goes_over_no_other_gap_than_the_one_it_saw(
    make: Callable[..., Sequencer], monkeypatch: pytest.MonkeyPatch
) -> None:
    seq, other = make(sequence=True), make()
    for n in (2, 4):
        seq.append(n, group="g", score=n)

    def act() -> None:
        assert other.skip("g") == Gap(("g",), 1, 1)
        assert seq.consume(lambda message: None, max_messages=1).handled == 1

    before(monkeypatch, "skip_gap", act)
    with pytest.raises(GroupBusy):
        seq.skip("g")
    assert seq.skip("g") == Gap(("g",), 3, 3)


def test_a_group_that_fails_again_meanwhile_is_resumed_all_the_same(
    make: Callable[..., Sequencer], monkeypatch: pytest.MonkeyPatch
) -> None:
    seq, other = make(max_attempts=1), make()
    seq.append(1, group="g")
    seq.consume(fail, until_empty=True)

    def act() -> None:
        assert other.resume("g")
        seq.consume(fail, until_empty=True)

    before(monkeypatch, "resume", act)
    assert seq.resume("g") is True
    assert not seq.parked()
    assert seq.consume(lambda message: None, until_empty=True).handled == 1

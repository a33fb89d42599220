"""A payload shows in no error, log or view but those that print messages. Passwords: process/test_passwords.py."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sequencer import Sequencer
from sequencer.errors import SequencerError
from sequencer.values.message import Message

pytestmark = pytest.mark.nightly

SECRET = "payload-5d1e"
WRONG: dict[str, Callable[[Sequencer], Any]] = {
    "conflict": lambda seq: seq.append({"secret": SECRET, "n": 1}, group="g", id="a"),
    "body that is no JSON": lambda seq: seq.append({"secret": SECRET, "f": object()}, group="g"),
    "key that is no text": lambda seq: seq.append({"f": {1: SECRET}, "g": {2}}, group="g"),
    "NaN beside it": lambda seq: seq.append({"secret": SECRET, "f": float("nan")}, group="g"),
    "too large": lambda seq: seq.append(SECRET * 100_000, group="g"),
    "header that is no text": lambda seq: seq.append(1, group="g", headers={"a": SECRET, "b": 5}),  # type: ignore[dict-item]
    "headers that are no mapping": lambda seq: seq.append(1, group="g", headers=[SECRET]),  # type: ignore[arg-type]
    "no group": lambda seq: seq.append({"secret": SECRET}),
    "one of many": lambda seq: seq.append_many([{"body": SECRET, "group": "g"}, {"body": {1: SECRET}, "gruop": "g"}]),
    "no mapping": lambda seq: seq.append_many([SECRET]),
    "many without a group": lambda seq: seq.append_many([{"body": SECRET}]),
}


def chain(error: BaseException | None) -> Iterator[str]:
    """Everything that an error, its causes and its contexts say."""
    waiting, seen = [error], set[int]()
    while waiting:
        one = waiting.pop()
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            yield f"{one!s} {one!r} {one.args!r} {vars(one)!r} {''.join(traceback.format_exception(one))}"
            waiting += [one.__cause__, one.__context__]


@pytest.fixture
def seq(seq: Sequencer, caplog: pytest.LogCaptureFixture) -> Sequencer:
    caplog.set_level(logging.DEBUG)
    seq.append({"secret": SECRET}, group="g", id="a", score=1, headers={"token": SECRET})
    return seq


@pytest.mark.parametrize("name", WRONG)
def test_no_error_shows_a_payload(seq: Sequencer, caplog: pytest.LogCaptureFixture, name: str) -> None:
    with pytest.raises(SequencerError) as caught:
        WRONG[name](seq)
    assert SECRET not in "".join(chain(caught.value))
    assert SECRET not in caplog.text


def test_no_log_and_no_view_shows_a_payload(make: Callable[..., Sequencer], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    seq = make(max_attempts=1, on_failure="dead_letter")
    seq.append({"secret": SECRET}, group="g", id="a", headers={"token": SECRET})

    def fail(message: Message) -> None:
        raise ValueError("no such currency")

    seq.consume(fail, until_empty=True)
    said = [*map(repr, (seq, seq.endpoint, seq.options, seq.explain("g"), seq.info())), caplog.text]
    assert "no such currency" in caplog.text
    assert SECRET not in "".join(said)
    logging.getLogger("sequencer").debug("connecting with %s", SECRET)
    assert SECRET in caplog.text, "what does show it is found"

"""Events: the list, its wording (tests/unit/events.txt), and what becomes of a failed message as fields."""

from __future__ import annotations

import json
import logging
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sequencer.calls.outage import ShardOutage
from sequencer.drain.outcome import Decision, Failed, describe, event_of, failed_with
from sequencer.errors import (
    LeaseExpired,
    Park,
    Retry,
    ServerUnavailable,
    StepUnknown,
    StopConsuming,
    TooLate,
    Undecodable,
)
from sequencer.processes.logs import _OWN
from sequencer.settings.options import OnFailure, QueueOptions
from sequencer.store.ledger import Written
from sequencer.texts.events import EVENTS, Event, event
from sequencer.values.message import Message

from ..support.catalogue import FILE, examples, worded

RAW = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
SECRET = "the body's own text"
LEDGER = b'{"k":1,"s":[["points","a","d",1,1,1,0,1.0,0.1,"' + b"x" * 10_000 + b'"]]}'
QUEUE = QueueOptions(queue="orders", backoff_s=1.0, backoff_cap_s=1.0)


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")

    __repr__ = __str__


def message(group: tuple[str, ...] = ("1002", "77"), id: str = "evt-1", attempt: int = 2) -> Message:
    return Message(id, group, 1.0, {"card": SECRET}, {"h": SECRET}, attempt, 5, 0.0, "orders", 9)


def told(
    error: BaseException, *, is_held: bool = True, one: Message | None = None, parked: int = 0, **options: Any
) -> Event:
    queue = QueueOptions(queue="orders", **{"backoff_s": 1.0, "backoff_cap_s": 1.0, **options})
    judged = failed_with(queue, one or message(), error, owner="me", at=1.0, random=0.5, is_held=is_held)
    return event_of(queue, "me", judged, parked=parked)


def test_the_wording() -> None:
    """After a change: `python -m tests.support.catalogue`, and read what git shows."""
    assert worded() == FILE.read_text()


def test_each_event_has_an_example_with_each_field_and_command() -> None:
    seen: dict[str, set[str]] = {}
    for one in examples():
        seen.setdefault(one.name, set()).update(one.fields)
    assert seen == {name: set(kind.fields.split()) for name, kind in EVENTS.items()}
    with pytest.raises(KeyError, match="has no field"):
        event("server back", "orders", away=1)


def test_no_field_has_a_name_that_a_log_record_or_a_json_line_needs() -> None:
    taken = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName", *_OWN}
    assert not taken & {name for one in examples() for name in (*one.fields, *one.commands)}


def test_fields_are_plain_values_and_fit_into_one_write_to_a_pipe() -> None:
    for one in examples():
        assert json.loads(json.dumps(one.fields)) == one.fields
    whole, error = message(("g" * 250, "h" * 250), "i" * 200), ValueError("\x1b" * 10_000)
    written = Written(LEDGER, 1, True)
    dropped = Failed(whole, error, Decision(None, "drop"), describe(error, whole, "me", 1.0, 3), written=written)
    for long in (told(error, one=whole), event_of(QUEUE, "me", dropped)):
        assert len(json.dumps(dict(long.fields))) < 4000


@pytest.mark.parametrize(
    ("error", "options", "name", "level"),
    [
        (ValueError("no"), {}, "message failed", logging.WARNING),
        (Retry(after=3), {}, "message failed", logging.WARNING),
        (ValueError("no"), {"max_attempts": 2}, "group parked", logging.ERROR),
        (ValueError("no"), {"max_attempts": 2, "on_failure": "dead_letter"}, "dead letter", logging.ERROR),
        (ValueError("no"), {"max_attempts": 2, "on_failure": "drop"}, "message dropped", logging.ERROR),
        (Undecodable("no"), {}, "group parked", logging.ERROR),
        (LeaseExpired("no"), {"max_attempts": 1}, "group parked", logging.ERROR),
        (TooLate(on_late="dead_letter"), {}, "dead letter", logging.ERROR),
        (TooLate(on_late="drop"), {}, "message dropped", logging.WARNING),
    ],
)
def test_what_becomes_of_a_message_is_its_event(
    error: BaseException, options: dict[str, Any], name: str, level: int
) -> None:
    one, is_late = told(error, **options), isinstance(error, TooLate)
    assert (one.name, one.level) == (name, level)
    assert one.error is (None if is_late else error), "nobody raised that a message is late"
    assert one.fields.get("late", False) is is_late
    assert one.cause is (one.error if level == logging.ERROR and not isinstance(error, LeaseExpired) else None)


def test_a_failure_whose_lease_is_gone_parks_nothing_and_names_no_delay() -> None:
    one = told(ValueError("no"), is_held=False, max_attempts=2)
    assert (one.name, one.fields.get("retry_in_s")) == ("message failed", None)


def test_of_an_outage_no_attempt_is_counted_and_the_probe_is_named() -> None:
    one = told(ConnectionError("refused"))
    assert (one.fields["outage"], "attempts" in one.fields, "since" in one.fields) == (True, False, False)
    failed = failed_with(QUEUE, message(), ConnectionError("refused"), owner="me", at=1.0, random=0.5)
    held = ShardOutage(10**15, 10**15, 10**15 + 10**6, True)
    since = event_of(QUEUE, "me", replace(failed, held_back=held))
    assert (since.fields["since"], since.fields["retry_in_s"]) == (1e9, held.probe_s)


@pytest.mark.parametrize("cause", [None, ValueError("no")])
def test_a_step_that_nobody_knows_the_end_of_names_both_answers_once(cause: BaseException | None) -> None:
    failed_at = {"step": "charge", "state": "failed", "at": 1e9, "error": "OSError: no"}
    error, one = StepUnknown(steps=["charge"], runs=[2], questions=[failed_at], is_dead=False), message()
    error.__cause__ = cause
    failed = Failed(one, error, Decision(None, "park"), describe(error, one, "me", 1.0, 3))
    asked = event_of(QUEUE, "me", failed)
    assert (asked.fields["steps"], asked.fields["runs"], "--done" in asked.fields["error"]) == (["charge"], [2], False)
    resume = f"sequencer resume orders 1002 77 --id {one.id}"
    assert asked.commands == {
        "inspect": "sequencer explain orders 1002 77",
        "done": f"{resume} --done charge --attempt 2",
        "again": f"{resume} --again charge --attempt 2",
    }
    assert (asked.error, asked.cause) == (error, cause), "the traceback is the step's own"


def test_an_error_that_can_not_say_what_it_is_is_told_all_the_same() -> None:
    assert told(Unspeakable()).fields["error"] == "its text could not be read: RuntimeError"


TEXT = st.text(max_size=20)


@given(TEXT, TEXT, TEXT, st.sampled_from(["park", "dead_letter", "drop"]), st.integers(1, 2))
def test_no_body_and_no_control_character_reaches_a_line(
    part: str, id: str, text: str, on_failure: OnFailure, max_attempts: int
) -> None:
    one = message((part, "\x1b[2J"), id + "\n", 1)
    event = told(ValueError(text), one=one, on_failure=on_failure, max_attempts=max_attempts)
    assert not RAW.search(event.line)
    event.line.encode()
    assert SECRET not in event.line + json.dumps(event.record)


def test_what_nobody_foresaw_has_a_traceback_and_what_we_raised_has_none() -> None:
    errors = ServerUnavailable("x"), StopConsuming(), OSError("x")
    assert [event("renewal failed", "q", error=error).cause for error in errors] == [None, None, errors[2]]
    assert told(Park("x")).cause is not None

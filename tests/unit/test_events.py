"""Events: the list, their sentences, and the commands in them."""

from __future__ import annotations

import json
import logging
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sequencer.calls.claim import Halted, LeasedGroup
from sequencer.calls.outage import Began, Ended, ShardOutage
from sequencer.calls.settle import Ending
from sequencer.drain import consumer_events
from sequencer.drain.outcome import Decision, Failed, OfSteps, describe, failed_with
from sequencer.drain.steps import events as steps_events
from sequencer.drain.steps.actions import CallStep, Finished
from sequencer.drain.steps.declared import Function, Step
from sequencer.errors import LeaseExpired, Park, Retry, SetAside, StepMissing, StepUnknown, TooLate, Undecodable
from sequencer.processes import service_events
from sequencer.processes.logs import _OWN, lines_lost
from sequencer.queue.registry.logged import policy_changed, queue_new, queue_restored
from sequencer.settings.options import OnFailure, QueueOptions
from sequencer.store.ledger import Entry, Ledger, Written
from sequencer.texts.events import EVENTS, FIELDS, Event, event
from sequencer.values.message import Message, StepCall

RAW = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
ENDED = ("handled", "failed", "outages", "lost", "parked", "dead", "dropped", "started", "died", "killed", "unreported")
SECRET = "the body's own text"
LEDGER = b'{"k":1,"s":[["points","a","d",1,1,1,0,1.0,0.1,"' + b"x" * 10_000 + b'"]]}'


class Unspeakable(Exception):
    """Can't say what it is."""

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
    return consumer_events.failed(queue, "me", judged, parked=parked)


def told_of_steps(error: BaseException, ending: Ending, one: Message | None = None) -> Event:
    queue, asked = QueueOptions(queue="orders"), one or message()
    steps = OfSteps(Written(LEDGER, 1, True), False, 0, True)
    failed = Failed(asked, error, Decision(None, ending), describe(error, asked, "me", 1.0, 3), steps=steps)
    return consumer_events.failed(queue, "me", failed)


def events_of_steps() -> list[Event]:
    """What is told of steps."""
    queue, step = QueueOptions(queue="orders"), Step("mail", Function(print), optional=True)
    asked, ledger = CallStep(step, StepCall("mail", "k", 1, 1, None, {})), Ledger(1, (Entry("mail", state="done"),))
    question = StepUnknown("step charge failed", ("charge",), "resume --done charge", "resume --again charge")
    return [
        *(told_of_steps(question, ending) for ending in ("park", "dead")),
        told_of_steps(ValueError("no"), "drop"),
        steps_events.step_failed(queue, "me", message(), asked, ValueError("no")),
        steps_events.with_failures(
            queue, "me", message(), Finished(Ledger(1, (Entry("mail", state="left"),)), ("mail",))
        ),
        steps_events.step_missing(queue, "me", message(), StepMissing("no step"), 30.0),
        steps_events.message_gone(queue, "me", message(), ledger),
    ]


def all_events() -> list[Event]:
    options, error = QueueOptions(queue="orders"), ValueError("no")
    leased = LeasedGroup("a", ("a",), "1", "host:1:ff", [message()], ["m"], ["1"], "", "handle")
    late = TooLate(1.0, "5.0", "dead_letter")
    service = service_events
    return [
        consumer_events.mixed_scores(options, "me", {"seconds": (("a",), 1.0), "milliseconds": (("b",), 2e12)}),
        service.pool_down("orders", deaths=5, why="before they began a message", retry_in_s=60.0),
        service.pool_back("orders", lasted_s=61.0),
        service.pool_scaled("orders", before=2, now=3, why="3 groups wait, the first for 2.0 s"),
        service.consumer_overdue(
            "orders",
            pid=7,
            lived_s=4900.0,
            begun=service.Begun("group=a id=m1", "sequencer explain orders a"),
            kill_in_s=15.0,
        ),
        service.runs_already("/srv/shop/sequencer.toml", 77),
        service.service_reloading("/srv/shop/sequencer.toml"),
        service.service_reloaded("/srv/shop/sequencer.toml"),
        service.reload_failed("orders", "no module 'shop'"),
        service.check_says("orders", "the disk is full"),
        service.alert_sent("orders", "parked", "open", "chat"),
        service.alert_not_sent("chat", "the server answered 500"),
        *(told(error), told(Park("x"), parked=1), told(SetAside("x")), told(late), told(error, is_held=False)),
        told(error, max_attempts=2, on_failure="drop"),
        *consumer_events.expired("orders", "me", [leased]),
        consumer_events.halted(options, "me", Halted(("a",), 10**15, "i", 7, (6, 6))),
        consumer_events.halted(options, "me", Halted(("a",), None, "i", 9, (6, 8))),
        consumer_events.halted(options, "me", Halted(("a",), None, "i")),
        consumer_events.halted(options, "me", Halted(("a",), None, error="WRONGTYPE")),
        consumer_events.lease_lost("orders", "me", "a:b", "5"),
        consumer_events.answer_repeated("orders", "me", "a:b"),
        consumer_events.server_lost("orders", error, owner="me"),
        consumer_events.server_back("orders", 2.5, owner="me"),
        consumer_events.leases_not_kept("orders", "me", error),
        consumer_events.groups_not_released("orders", "me", error),
        consumer_events.failure_not_recorded("orders", "me", ("a",), error),
        consumer_events.observer_failed("orders", print, error),
        told(ConnectionError("refused")),
        consumer_events.outage_began(options, "me", Began(ShardOutage(10**15, 10**15, 10**15 + 10**6, True), b"{}")),
        consumer_events.outage_over("orders", "me", Ended("closed", 92.5, 20, b"")),
        service.service_started("orders", server="s", app="shop:seq", processes=1, lease_s=15.0, version="1"),
        service.consumer_died("orders", pid=1, ended_by="signal SIGKILL", lived_s=3.0),
        service.consumer_starts_again("orders", retry_in_s=1.0),
        service.queue_unused("orders", known=["order"], namespace="sequencer"),
        service.service_gives_up("orders", deaths=5, why="before they began a message"),
        service.consumer_cant_start("orders", OSError("no")),
        *(service.service_stopping("orders", stage, 2) for stage in (1, 2, 3)),
        service.consumer_killed("orders", pid=1, why="it did not end"),
        service.expired_leases("orders", owner="host:1:ff", groups=47, tried="group=a id=m", attempts=2),
        service.output_blocked("orders"),
        service.output_closed("orders"),
        service.consumer_cant_work("orders", error),
        consumer_events.interrupted("orders", "me", message()),
        consumer_events.runs_long(options, "host:1:0000ff", message(), 61.0, is_stopping=True),
        consumer_events.stuck(options, "host:1:0000ff", message(), 8.0, is_ended=False),
        service.service_ended("orders", "consumed", seconds=1.0, **dict.fromkeys(ENDED, 1)),
        consumer_events.server_lost("orders", "refused"),
        consumer_events.server_back("orders", 2.0),
        service.supervisor_trouble("orders", error, what="reading a report"),
        service.consumer_trouble("orders", error, what="what is done each second"),
        policy_changed("orders", "on_late", "handle", "drop"),
        queue_restored("orders", 4),
        queue_new("ordrs", "orders", "sequencer"),
        lines_lost(3, "No space left on device"),
        *events_of_steps(),
    ]


def test_a_second_parked_group_names_what_fixes_all() -> None:
    one, other = (told(Park("x"), parked=parked) for parked in (0, 1))
    assert "fix_all" not in one.fields
    assert other.fields["fix_all"] == "sequencer resume orders --all"
    assert other.text.endswith("; or all that are parked by Park: sequencer resume orders --error Park")


def test_a_third_parked_group_names_the_option_for_an_outage() -> None:
    errors = OSError("x"), KeyError("x"), Park("x")
    said = [told(error, parked=parked, max_attempts=2).text for error in errors for parked in (1, 2)]
    names = "ConnectionError,TimeoutError,OSError"
    named = f"; if what all handlers need was away, consume with --outage {names}: the queue waits then"
    assert [text.endswith(named) for text in said] == [False, True, False, False, False, False]


def test_every_event_is_in_the_list_and_none_is_listed_that_nobody_tells() -> None:
    assert {one.name for one in all_events()} == set(EVENTS)


def test_an_event_carries_the_fields_that_the_list_names() -> None:
    seen: dict[str, set[str]] = {}
    for one in all_events():
        seen.setdefault(one.name, set()).update(one.fields)
    assert seen == {name: set(kind.fields) for name, kind in EVENTS.items()}
    assert {field for kind in EVENTS.values() for field in kind.fields} | {"suppressed", "errors"} == set(FIELDS)
    with pytest.raises(KeyError, match="has no field"):
        event("server back", "orders", "", {"away": 1})


def test_no_field_has_a_name_that_a_log_record_or_a_json_line_needs() -> None:
    taken = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName", *_OWN}
    assert not taken & set(FIELDS)


def test_fields_are_plain_values_and_fit_into_one_write_to_a_pipe() -> None:
    for one in all_events():
        assert json.loads(json.dumps(one.fields)) == one.fields
    whole, error = message(("g" * 250, "h" * 250), "i" * 200), ValueError("\x1b" * 10_000)
    for long in (told(error, one=whole), told_of_steps(error, "drop", whole)):
        assert len(json.dumps(dict(long.fields))) < 4000


def test_a_question_is_told_with_both_answers() -> None:
    assert events_of_steps()[0].text == (
        "orders: group parked: group=1002 77 id=evt-1 error=StepUnknown: step charge failed; see: sequencer explain "
        "orders 1002 77; look whether it took effect; if it did: resume --done charge; if it did not: resume --again "
        "charge"
    )


def test_the_sentences() -> None:
    assert told(ValueError("no stock")).text == (
        "orders: message failed: group=1002 77 id=evt-1 attempt=2 of 5 error=ValueError: no stock; retried in 750 ms"
    )
    parked = told(ValueError("no stock"), max_attempts=2)
    assert parked.text == (
        "orders: group parked: group=1002 77 id=evt-1 attempt=2 of 2 error=ValueError: no stock; "
        "see: sequencer explain orders 1002 77; then: sequencer resume orders 1002 77; "
        "or without this message: sequencer skip orders 1002 77"
    )
    assert told(SetAside("bad"), namespace="shop").text.endswith(
        "see: sequencer dead show orders 1002 77 --id evt-1 --namespace shop; "
        "then: sequencer dead redrive orders 1002 77 --id evt-1 --namespace shop"
    )
    gap = consumer_events.halted(QueueOptions(queue="q"), "me", Halted(("a",), 1_000_000_000_000_000, "i", 9, (6, 8)))
    assert gap.text == (
        "q: gap wait: group=a id=i: numbers 6 to 8 are missing before 9; it waits until 2001-09-09 01:46:40 UTC, "
        "unless that comes; see: sequencer explain q a; then: sequencer skip q a"
    )
    started = service_events.service_started("q", server="s", app="a:b", processes=1, lease_s=15, version="9")
    assert started.text == "q: service started: 1 consumer, a:b, on s, lease 15 s, sequencer 9"
    unused = service_events.queue_unused("q", known=None, namespace="shop")
    assert unused.text == (
        "q: queue unused: it has had no message yet; its first message comes by append() or: "
        "sequencer append q FILE.ndjson --namespace shop"
    )
    assert service_events.expired_leases("q", owner="X", groups=47).text == (
        "q: expired leases: 47 groups of consumer X waited for their leases"
    )
    tried = service_events.expired_leases("q", owner="X", groups=1, tried="group=a id=m", attempts=2)
    stuck = consumer_events.stuck(QueueOptions(queue="q"), "host:1:0000ff", message(), 8.0, is_ended=True)
    assert stuck.text.endswith("; its consumer is killed; see: sequencer explain q 1002 77")
    assert tried.text == (
        "q: expired leases: 1 group of consumer X waited for its lease; begun before: group=a id=m, 2 attempts so far"
    )


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
        (TooLate(1.0, "5", "dead_letter"), {}, "dead letter", logging.ERROR),
        (TooLate(1.0, "5", "drop"), {}, "message dropped", logging.WARNING),
    ],
)
def test_what_becomes_of_a_message_is_its_event(
    error: BaseException, options: dict[str, Any], name: str, level: int
) -> None:
    one, is_late = told(error, **options), isinstance(error, TooLate)
    assert (one.name, one.level) == (name, level)
    assert one.error is (None if is_late else error), "nobody raised that a message is late"


def test_a_failure_whose_lease_is_gone_says_so_and_parks_nothing() -> None:
    one = told(ValueError("no"), is_held=False, max_attempts=2)
    assert one.name == "message failed"
    assert "its lease was lost" in one.text
    assert "retry_in_s" not in one.fields


def test_an_error_that_can_not_say_what_it_is_is_told_all_the_same() -> None:
    assert "error=Unspeakable: its text could not be read: RuntimeError" in told(Unspeakable()).text
    lost = consumer_events.server_lost("q", Unspeakable(), owner="me")
    assert "its text could not be read" in lost.text


def test_a_long_text_is_cut() -> None:
    one = told(ValueError("x" * 10_000 + "end"))
    assert len(one.text) < 700
    assert "xxx...; retried" in one.text


TEXT = st.text(max_size=20)


@given(TEXT, TEXT, TEXT, st.sampled_from(["park", "dead_letter", "drop"]), st.integers(1, 2))
def test_no_body_and_no_control_character_reaches_a_line(
    part: str, id: str, text: str, on_failure: OnFailure, max_attempts: int
) -> None:
    one = message((part, "\x1b[2J"), id + "\n", 1)
    for error in (ValueError(text), Park(text), SetAside(text), Undecodable(text)):
        line = told(error, one=one, on_failure=on_failure, max_attempts=max_attempts).text
        assert not RAW.search(line)
        assert SECRET not in line
        line.encode()

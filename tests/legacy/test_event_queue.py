"""000: handlers by code in sort order, each by itself; an event's status, message and times."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sequencer import Message, MessageInfo, Sequencer, StepCall

from .conftest import Load

Said = pytest.CaptureFixture[str]


@pytest.fixture
def events(load: Load) -> Any:
    return load("event_queue", missing_wait=0.0)


def run(seq: Sequencer) -> None:
    seq.consume(until_empty=True)


def outcomes(info: MessageInfo) -> dict[str, str]:
    """Each handler with its error, or "done": the legacy's column `message`, in one text."""
    parts = re.findall(r"(\w+) (done|left) in \d+ ms(?: \((.*?)\))?(?:, |$)", info.note)
    return {name: error or state for name, state, error in parts}


def test_handlers_run_in_sort_order_and_ties_as_they_were_registered(events: Any, capsys: Said) -> None:
    """add_points and tell_shop have sort order 1 by default, and stand before init_invoice in the file."""
    events.add_event(1, "order_invoice", {"amount": 250})
    run(events.seq)
    assert capsys.readouterr().out.splitlines() == [
        "1: invoice",
        "1: 25 points",
        "1: shop told of ['add_points', 'init_invoice']",
    ]


def test_a_handler_that_fails_stops_no_other_and_the_event_is_finished(events: Any, capsys: Said) -> None:
    events.add_event(1, "order_invoice", {"amount": -5})
    events.add_event(2, "order_invoice", {})
    run(events.seq)
    said = capsys.readouterr().out.splitlines()
    assert [line for line in said if line.startswith("1")] == ["1: invoice", "1: shop told of ['init_invoice']"]
    assert [line for line in said if line.startswith("2")] == ["2: invoice", "2: shop told of []"]
    one, two = events.seq.get([1], "1"), events.seq.get([2], "2")
    assert (one.status, one.state, one.kind, one.attempts) == ("finished", "failed", "order_invoice", 1)
    assert outcomes(one) == {"init_invoice": "done", "add_points": "ValueError: no points for -5", "tell_shop": "done"}
    assert outcomes(two) == {
        "init_invoice": "KeyError: 'amount'",
        "add_points": "KeyError: 'init_invoice'",
        "tell_shop": "done",
    }
    assert [info.id for info in events.seq.history(kind="order_invoice", outcome="failed", group=[1])] == ["1"]


def test_an_unknown_code_is_told_and_not_finished(events: Any, caplog: pytest.LogCaptureFixture) -> None:
    """The legacy finished such an event without a word. The other events go on."""
    events.add_event(1, "order_opened", {})
    events.add_event(2, "order_closed", {})
    run(events.seq)
    assert events.seq.get([2], "2").status == "finished"
    unknown = events.seq.get([1], "1")
    assert (unknown.status, unknown.state, unknown.error.type) == ("error", "parked", "StepMissing")
    assert "'order_opened'" in caplog.text

    def open_order(message: Message, step: StepCall) -> None: ...

    events.handles("order_opened", "open")(open_order)
    events.seq.resume([1])
    run(events.seq)
    assert events.seq.get([1], "1").status == "finished"


def test_an_event_passes_from_pending_to_running_to_finished_with_its_times(events: Any) -> None:
    seen = []

    def look(message: Message, step: StepCall) -> None:
        seen.append(events.seq.get(message.group, message.id).status)

    events.handles("order_closed", "look")(look)
    scheduled_at = datetime.now(UTC) + timedelta(seconds=0.3)
    events.add_event(1, "order_closed", {}, scheduled_at)
    waiting = events.seq.get([1], "1")
    assert (waiting.status, waiting.state) == ("pending", "delayed")
    run(events.seq)
    done = events.seq.get([1], "1")
    assert seen == ["running"]
    assert done.status == "finished"
    assert done.appended_at == pytest.approx(waiting.appended_at, abs=0.001)
    assert done.began_at >= scheduled_at.timestamp() - 0.01, "the legacy took it up to 60 s early"
    assert done.appended_at < done.began_at <= done.finished_at

"""The emitter: limits in virtual time, counts, observers, forwarding; and controls that must fail."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sequencer.consume.emitter
from sequencer.calls.claim import Halted
from sequencer.consume.emitter import LINES, ConsumerEvents, EventEmitter
from sequencer.errors import CommandFailed
from sequencer.settings.options import QueueOptions
from sequencer.texts.events import Event, event


class Lines(logging.Handler):
    """What was logged."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.records: list[Any] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@pytest.fixture
def lines() -> Iterator[Lines]:
    handler, logger = Lines(), logging.getLogger("test of the emitter")
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    yield handler
    logger.removeHandler(handler)


def failed(name: str, error: BaseException, parked: int = 1) -> Event:
    fields: dict[str, Any] = {"parked": parked} if name == "group parked" else {}
    return event(name, "orders", group=["g"], id="m", attempt=1, error=error, **fields)


class Emitted:
    """An emitter in virtual time."""

    def __init__(self, **options: Any) -> None:
        self.now_s = 100.0
        logger = logging.getLogger("test of the emitter")
        self.emitter = EventEmitter("orders", log=logger, clock=lambda: self.now_s, **options)

    def fail(self, kind: str = "ValueError", name: str = "message failed") -> None:
        self.emitter.emit(failed(name, type(kind, (Exception,), {})("no")))


def test_a_storm_is_ten_lines_and_one_that_counts_the_rest_by_type_of_error(lines: Lines) -> None:
    emitted = Emitted()
    for n in range(1_244):
        emitted.fail("ValueError" if n >= 1_210 else "ConnectionError")
    assert len(lines.records) == LINES
    emitted.now_s += 0.9
    emitted.emitter.tick()
    assert len(lines.records) == LINES, "its second is not over"
    emitted.now_s += 0.1
    emitted.emitter.tick()
    rest = lines.records[-1]
    assert rest.getMessage().endswith("ConnectionError 1,200, ValueError 34")
    assert (rest.event, rest.queue, rest.suppressed, rest.levelno) == (
        "message failed",
        "orders",
        1234,
        logging.WARNING,
    )
    emitted.now_s += 10
    emitted.emitter.tick()
    assert len(lines.records) == LINES + 1, "it is said once"


@given(st.lists(st.tuples(st.sampled_from([0.0, 0.01, 0.3, 1.5]), st.sampled_from(["a", "b"])), max_size=200))
def test_no_event_is_lost_and_no_second_holds_more_lines_than_it_may(steps: list[tuple[float, str]]) -> None:
    handler, logger = Lines(), logging.getLogger("test of the emitter")
    logger.addHandler(handler)
    try:
        emitted, at = Emitted(), list[float]()
        for pause_s, kind in steps:
            emitted.now_s += pause_s
            emitted.fail(kind)
            at += [emitted.now_s] * (len(handler.records) - len(at))
        emitted.emitter.close()
    finally:
        logger.removeHandler(handler)
    assert sum(getattr(record, "suppressed", 1) for record in handler.records) == len(steps)
    assert emitted.emitter.counts.failed == len(steps)
    for begin in at:
        assert len([one for one in at if begin <= one < begin + 1]) <= 2 * (LINES + 1)


def test_a_control_without_a_limit_is_seen(lines: Lines, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sequencer.consume.emitter, "LINES", 10**9)
    with pytest.raises(AssertionError):
        test_a_storm_is_ten_lines_and_one_that_counts_the_rest_by_type_of_error(lines)


def test_an_error_brings_its_traceback_and_a_warning_does_not(lines: Lines) -> None:
    emitted = Emitted()
    try:
        raise ValueError("no")
    except ValueError as error:
        for name in ("message failed", "group parked"):
            emitted.emitter.emit(failed(name, error))
    emitted.emitter.emit(failed("group parked", CommandFailed("exit status 1")))
    warning, parked, command = lines.records
    assert (warning.exc_info, command.exc_info) == (None, None), "the traceback of a command would be ours"
    assert parked.exc_info[1].__traceback__.tb_frame.f_code.co_name.startswith("test_an_error_brings")


def test_a_percent_sign_is_no_argument(lines: Lines) -> None:
    emitted = Emitted()
    emitted.emitter.emit(event("server lost", "orders", error="100 % of %s and %(x)d"))
    assert "100 % of %s and %(x)d" in lines.records[0].getMessage()


def test_counts(lines: Lines) -> None:
    emitted = Emitted()
    for name in ("message failed", "group parked", "dead letter", "message dropped"):
        emitted.fail(name=name)
    for name in ("dead letter", "message dropped"):
        emitted.emitter.emit(event(name, "orders", group=["g"], id="m", late=True, attempt=0, error="too late"))
    emitted.emitter.emit(event("group parked", "orders", group=["g"], number=7, first_missing=6, last_missing=6))
    emitted.emitter.emit(event("group broken", "orders", group=["g"], error="WRONGTYPE"))
    emitted.emitter.emit(event("lease lost", "orders", group=["g"], token="5"))
    counts = emitted.emitter.counts
    assert (counts.failed, counts.parked, counts.dead, counts.dropped) == (4, 3, 2, 2)


def test_observers_hear_first_and_one_that_raises_is_logged_once(lines: Lines) -> None:
    seen: list[tuple[str, int]] = []

    def broken(one: Event) -> None:
        raise RuntimeError("no network")

    emitted = Emitted(observers=[broken, lambda one: seen.append((one.name, len(lines.records)))])
    emitted.fail()
    emitted.fail(name="group parked")
    emitted.emitter.emit(event("lease lost", "orders", group=["g"], token="5"))
    assert [name for name, _ in seen] == ["message failed", "group parked"]
    assert seen[1][1] == 2, "before its line; the first line is that of the observer"
    (said,) = [record for record in lines.records if record.event == "observer failed"]
    assert said.exc_info is not None
    assert (said.observer.rpartition(".")[2], said.error_type, said.error) == ("broken", "RuntimeError", "no network")


def test_what_is_routed_is_counted_and_observed_but_not_said(lines: Lines) -> None:
    forwarded: list[Event] = []
    seen: list[Event] = []

    def forward(one: Event) -> bool:
        forwarded.append(one)
        if one.name == "message failed":
            raise OSError("the supervisor is gone")
        return True

    emitted = Emitted(observers=[seen.append], forward=forward)
    emitted.fail()
    emitted.fail(name="group parked")
    assert [record.event for record in lines.records] == ["message failed"]
    assert (len(forwarded), len(seen), emitted.emitter.counts.parked) == (2, 2, 1)


def test_threads_tell_at_once_and_nothing_is_lost(lines: Lines) -> None:
    emitted = Emitted()

    def fail_often() -> None:
        for _ in range(500):
            emitted.fail()

    with ThreadPoolExecutor(4) as pool:
        for _ in range(4):
            pool.submit(fail_often)
    emitted.emitter.close()
    assert emitted.emitter.counts.failed == 2000
    assert sum(getattr(record, "suppressed", 1) for record in lines.records) == 2000


# -- one consumer's own ---------------------------------------------------------------------------------------------


@pytest.fixture
def consumer(lines: Lines) -> tuple[Emitted, ConsumerEvents]:
    emitted = Emitted()
    return emitted, ConsumerEvents(emitted.emitter, QueueOptions(queue="orders"), "me")


def test_a_group_at_a_gap_is_told_once_for_the_gap(lines: Lines, consumer: Any) -> None:
    """An append wakes the group, and the next claim puts it off again."""
    emitted, tells = consumer
    wait, parked = Halted(("a",), 10**15, "i", 7, (6, 6)), Halted(("a",), None, "i", 7, (6, 6))
    for _ in range(5):
        tells.halted([wait])
    for _ in range(5):
        tells.halted([parked])
    tells.halted([wait._replace(id="j", number=9, missing=(8, 8))])
    assert [record.event for record in lines.records] == ["gap wait", "group parked", "gap wait"]
    assert emitted.emitter.counts.parked == 1


def test_what_was_told_once_is_remembered_within_bounds(consumer: Any) -> None:
    emitted, tells = consumer
    tells.halted(Halted((str(n),), 10**15, "i", 7, (6, 6)) for n in range(5_000))
    assert len(emitted.emitter._seen) == sequencer.consume.emitter.REMEMBERED

"""A handler that runs longer than `handler_timeout`: interrupted where it can be, and told of where it can't."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import FrameType
from typing import Any, TypeVar

import pytest

from sequencer import Message, Sequencer
from sequencer.consume import time_limit
from sequencer.consume.threads import Consumer
from sequencer.errors import HandlerTimeout
from sequencer.net.link import Link
from sequencer.store.keys import shard_keys
from sequencer.testing import wait_until

LIMIT_S = 0.3
T = TypeVar("T")
PATIENCE_S = 30.0


def waits(message: Message) -> None:
    wait_until(lambda: False, 60.0)


def computes(message: Message) -> None:
    while True:
        pass


def swallows_exceptions(message: Message) -> None:
    while True:
        try:
            waits(message)
        except Exception:
            continue


@pytest.mark.parametrize("handler", [waits, swallows_exceptions])
def test_it_is_interrupted_and_its_message_failed(
    make: Callable[..., Sequencer], caplog: pytest.LogCaptureFixture, handler: Callable[[Message], None]
) -> None:
    seq = make(max_attempts=2, backoff=0.01)
    seq.append(1, group="slow")
    seq.append(1, group="quick")
    handled: list[Message] = []

    def handle(message: Message) -> None:
        if message.group == ("slow",):
            handler(message)
        handled.append(message)

    summary = seq.consume(handle, until_empty=True, handler_timeout=LIMIT_S)
    assert (summary.handled, summary.failed, summary.lost) == (1, 2, 0)
    (parked,) = seq.parked()
    assert parked.failure
    assert (parked.failure.type, parked.failure.attempt) == ("HandlerTimeout", 2)
    assert parked.failure.message == str(HandlerTimeout(limit_s=LIMIT_S))
    assert f"in {handler.__name__}" in parked.failure.traceback
    assert "time_limit.py" not in parked.failure.traceback, "our own frames are left out"
    assert "interruption.py" not in caplog.text
    assert [record.levelname for record in caplog.records if "HandlerTimeout" in record.getMessage()] == [
        "WARNING",
        "ERROR",
    ]


class Stubborn:
    """A handler that goes on whatever comes, until the test lets it end."""

    def __init__(self) -> None:
        self.is_begun, self.may_end = threading.Event(), threading.Event()

    def __call__(self, message: Message) -> None:
        if message.group != ("stuck",):
            return
        self.is_begun.set()
        while not self.may_end.is_set():
            try:
                self.may_end.wait(0.05)
            except BaseException:
                continue


def beside(watch: Callable[[], object], stubborn: Stubborn, consume: Callable[[], T]) -> T:
    """Consume in this thread, while another one watches, and then lets the handler end."""

    def run() -> None:
        try:
            watch()
        finally:
            stubborn.may_end.set()

    with ThreadPoolExecutor(1) as pool:
        watching = pool.submit(run)
        summary = consume()
        watching.result()
        return summary


@pytest.fixture
def stubborn(monkeypatch: pytest.MonkeyPatch) -> Stubborn:
    monkeypatch.setattr(time_limit, "IGNORED_S", 0.5)
    return Stubborn()


def test_one_that_ignores_it_is_told_once_and_the_end_of_its_lease_is_an_attempt(
    make: Callable[..., Sequencer],
    stubborn: Stubborn,
    caplog: pytest.LogCaptureFixture,
    link: Link,
    namespace: str,
) -> None:
    """Without a supervisor nobody ends it: its group goes on elsewhere, and its message is retried there."""
    seq = make("q")
    seq.append_many([{"group": name, "body": 1} for name in ("stuck", "beside")])
    keys, claimed = shard_keys(namespace, "q", 0), list[Message]()

    def is_claimed() -> bool:
        with seq.claim() as lease:
            claimed.extend(lease)
        return bool(claimed)

    def watch() -> None:
        assert stubborn.is_begun.wait(PATIENCE_S)
        wait_until(lambda: (link.command("HGET", keys.leases, "stuck") or b" " * 17)[16:17] == b"1", PATIENCE_S)
        with seq.claim() as lease:
            assert not lease, "it is not over"
        wait_until(is_claimed, PATIENCE_S)

    summary = beside(
        watch, stubborn, lambda: seq.consume(stubborn, lease=1.0, handler_timeout=LIMIT_S, until_empty=True)
    )
    assert [(message.group, message.attempt) for message in claimed] == [(("stuck",), 2)]
    (told,) = [record for record in caplog.records if getattr(record, "event", "") == "handler stuck"]
    fields = vars(told)
    assert (told.levelname, fields["group"], fields["id"]) == ("ERROR", ["stuck"], claimed[0].id)
    assert fields["inspect"].startswith("sequencer explain q stuck")
    assert re.fullmatch(r"kill -KILL \d+", fields["kill"])
    assert summary.lost == 1, "messages it finished since are not acknowledged"


@pytest.mark.nightly
@pytest.mark.slow
def test_an_interrupt_at_any_line_of_its_start_leaves_no_renewer_behind(make: Callable[..., Sequencer]) -> None:
    """Ctrl-C while a consumer starts: its thread would renew leases for nobody."""
    seq = make("q")
    seq.connect()

    def interrupted_at(line: int) -> bool:
        passed, is_started = 0, False

        def trace(frame: FrameType, event: str, _argument: Any) -> Any:
            nonlocal passed, is_started
            is_started = is_started or frame.f_code.co_name == "perform"
            if frame.f_code.co_name not in ("run", "start") or "sequencer/consume" not in frame.f_code.co_filename:
                return None
            if event == "line" and not is_started:
                passed += 1
                if passed == line:
                    raise KeyboardInterrupt
            return trace

        sys.settrace(trace)
        try:
            seq.consume(lambda message: None, until_empty=True)
        except KeyboardInterrupt:
            return True
        finally:
            sys.settrace(None)
        return False

    line = 1
    while interrupted_at(line):
        line += 1
        wait_until(lambda: "sequencer-renewer" not in {one.name for one in threading.enumerate()}, PATIENCE_S)
    assert line > 6


@pytest.mark.parametrize("kind", ["handler", pytest.param("inline", marks=pytest.mark.nightly)])
def test_a_message_that_hangs_past_the_age_of_its_consumer_has_failed(
    make: Callable[..., Sequencer], kind: str
) -> None:
    """What its supervisor asks of it: `hang` by the control thread, `interrupt` by a signal in the main thread."""
    seq = make(max_attempts=1)
    consumers: list[Consumer] = []

    def hangs(*_: Any) -> None:
        consumers[0].hang()
        consumers[0].interrupt()

    seq.handler((lambda message: hangs()) if kind == "handler" else lambda message, steps: steps.run("s", hangs))
    seq.append(1, group="g")
    assert seq.consume(on_start=consumers.append).reason == "stopped"
    (parked,) = seq.parked()
    assert parked.failure is not None
    assert "HandlerTimeout" in parked.failure.type + parked.failure.message

"""Observers: told of what went wrong, with the error, before the server learns it; with the real Sentry client too."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sentry_sdk
from sentry_sdk.integrations.logging import LoggingIntegration, ignore_logger, unignore_logger
from sentry_sdk.transport import Transport

from sequencer import Message, Sequencer, StopConsuming
from sequencer.consume.emitter import ConsumerEvents
from sequencer.drain.outcome import Failed
from sequencer.errors import ConfigurationError
from sequencer.net.link import Link
from sequencer.testing import wait_until
from sequencer.texts.events import Event
from tests.support.handling import Make


class NoStock(Exception):
    pass


def fail(message: Message) -> None:
    raise NoStock(f"none for {message.id}")


def check_observers_come_first(seq: Sequencer, looking: Sequencer) -> None:
    """When an observer is told, the group is still in its consumer's hands, and the server knows of no failure."""
    seen: list[tuple[str, str, bool]] = []

    @seq.observe
    def observer(event: Event) -> None:
        (group,) = looking.groups()
        seen.append((event.name, group.state, group.failure is None or group.failure.attempt < event.fields["attempt"]))

    seq.append(1, group="g")
    seq.consume(fail, until_empty=True)
    assert seen == [("message failed", "leased", True), ("group parked", "leased", True)]


def test_an_observer_is_told_before_the_server(make: Make) -> None:
    check_observers_come_first(make(max_attempts=2, backoff=0.01), make())


def test_a_control_that_tells_observers_behind_the_nack_is_seen(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting: list[tuple[ConsumerEvents, Failed]] = []
    now, run = ConsumerEvents.failed, Link.run

    def later(self: ConsumerEvents, one: Failed) -> None:
        waiting.append((self, one))

    def run_then_tell(self: Link, *args: Any, **options: Any) -> Any:
        found, waiting[:] = waiting[:], []
        results = run(self, *args, **options)
        for emitter, one in found:
            now(emitter, one)
        return results

    monkeypatch.setattr(ConsumerEvents, "failed", later)
    monkeypatch.setattr(Link, "run", run_then_tell)
    with pytest.raises(AssertionError):
        check_observers_come_first(make(max_attempts=2, backoff=0.01), make())


@pytest.mark.parametrize("handler", [fail, lambda _: None], ids=["of failures", "of successes"])
def test_an_observer_may_end_the_consumer(make: Make, handler: Any) -> None:
    seq = make(max_attempts=1)

    @seq.observe(successes=handler is not fail)
    def observer(event: Event) -> None:
        raise StopConsuming

    for group in "abc":
        seq.append(1, group=group)
    summary = seq.consume(handler)
    assert (summary.reason, summary.failed + summary.handled) == ("stopped", 1)
    info = seq.info()
    assert (info.parked, info.backlog) == ((1, 3) if handler is fail else (0, 2)), "what it was told of is done"


def test_a_loop_of_ones_own_tells_the_same(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    seq, seen = make(max_attempts=3, backoff=0.0), list[Event]()
    seq.observe(seen.append)
    seq.append(1, group="g", id="m")
    error = NoStock("none")
    with seq.claim() as lease:
        (message,) = lease
        lease.nack(message, error)
    with seq.claim() as lease:
        for message in lease:
            lease.nack(message, "in words")
    with pytest.raises(NoStock), seq.claim() as lease:
        for _ in lease:
            raise error
    assert [(one.name, one.fields["attempt"]) for one in seen] == [
        *(("message failed", 1), ("message failed", 2), ("group parked", 3))
    ]
    assert (seen[0].error, seen[2].error) == (error, error)
    said = [one for one in caplog.records if getattr(one, "event", "") in ("message failed", "group parked")]
    assert [one.levelname for one in said] == ["WARNING", "WARNING", "ERROR"]
    assert seq._emitter.counts.failed == 3


def test_many_short_claims_share_one_limit(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    seq = make(max_attempts=1)
    seq.append_many([{"body": 1, "group": n} for n in range(60)])
    for _ in range(60):
        with seq.claim() as lease:
            for message in lease:
                lease.nack(message, NoStock("none"))
    seq.close()
    said = [one for one in caplog.records if getattr(one, "event", "") == "group parked"]
    assert sum(getattr(one, "suppressed", 1) for one in said) == 60
    assert any(hasattr(one, "suppressed") for one in said)


async def coroutine(event: Event) -> None:
    return


@pytest.mark.parametrize("wrong", [None, "name", coroutine])
def test_what_is_no_plain_function_is_refused(seq: Sequencer, wrong: Any) -> None:
    with pytest.raises(ConfigurationError):
        seq.observe(wrong)


def test_leases_are_kept_while_an_observer_takes_its_time(make: Make) -> None:
    seq = make(max_attempts=1)

    @seq.observe
    def observer(event: Event) -> None:
        until = time.monotonic() + 0.9
        wait_until(lambda: time.monotonic() > until)

    for group in "ab":
        seq.append(1, group=group)
    summary = seq.consume(fail, lease=0.3, until_empty=True)
    assert (summary.failed, summary.lost, seq.info().totals["expired"]) == (2, 0, 0)
    assert [info.attempts for info in seq.parked()] == [1, 1]


# -- Sentry -------------------------------------------------------------------------------------------------------


class Collector(Transport):
    """Keeps what would be sent."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[Any] = []

    def capture_envelope(self, envelope: Any) -> None:
        if (event := envelope.get_event()) is not None:
            self.events.append(event)


@pytest.fixture
def sentry() -> Iterator[Collector]:
    collector = Collector()
    with sentry_sdk.isolation_scope():
        sentry_sdk.init(
            dsn="http://key@localhost/1",
            transport=collector,
            default_integrations=False,  # they change the whole process
            integrations=[LoggingIntegration()],
        )
        ignore_logger("sequencer")
        yield collector
        unignore_logger("sequencer")
        sentry_sdk.get_client().close()
        sentry_sdk.init()


def to_sentry(event: Event) -> None:
    """As the page on alerts has it."""
    recipe = (Path(__file__).parents[2] / "docs" / "alerts.md").read_text(encoding="utf-8")
    found = re.search(r"(import sentry_sdk\n.*?)@seq.observe\n(.*?)```", recipe, re.DOTALL)
    assert found
    assert 'ignore_logger("sequencer")' in found[1]
    names: dict[str, Any] = {"sentry_sdk": sentry_sdk}
    exec(found[2], names)
    names["to_sentry"](event)


def test_each_parked_group_arrives_at_sentry_once_with_its_traceback(make: Make, sentry: Collector) -> None:
    seq = make(max_attempts=2, backoff=0.01)
    seq.observe(to_sentry)
    for number in range(20):
        seq.append({"card": "4711 0815"}, group=["user", number], id=f"m{number}")
    seq.consume(fail, until_empty=True)
    assert seq.snapshot().parked == len(sentry.events) == 20
    tags = {(one["tags"]["queue"], one["tags"]["group"], one["tags"]["message_id"]) for one in sentry.events}
    assert tags == {("jobs", f"user {number}", f"m{number}") for number in range(20)}
    for one in sentry.events:
        (error,) = one["exception"]["values"]
        assert (error["type"], error["value"]) == ("NoStock", f"none for {one['tags']['message_id']}")
        assert error["stacktrace"]["frames"][-1]["function"] == "fail"


def test_a_gap_arrives_at_sentry_as_a_message(make: Make, sentry: Collector) -> None:
    seq = make(sequence=True, gap_timeout=0)
    seq.observe(to_sentry)
    seq.append(1, group="g", score=2)
    seq.consume(lambda message: None, until_empty=True)
    (one,) = sentry.events
    assert "missing before 2: number 1" in one["message"]
    assert one["contexts"]["sequencer"]["skip"].startswith("sequencer skip jobs g")

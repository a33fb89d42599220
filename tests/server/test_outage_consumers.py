"""What consumers do in an outage on a real server: they hold back, probe, and go on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sequencer import Message, Sequencer
from sequencer.errors import Outage
from sequencer.testing import wait_until
from sequencer.texts.events import Event


class Shop:
    """Handlers that need a bank, which is away until someone opens it."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error or ConnectionRefusedError("the bank is closed")
        self.is_open = False
        self.calls = 0
        self.attempts: list[int] = []

    def handle(self, message: Message) -> None:
        if not self.is_open:
            self.calls += 1
            raise self.error
        self.attempts.append(message.attempt)


@pytest.fixture
def run() -> Iterator[Callable[..., list[threading.Thread]]]:
    """Starts consumers in threads until the queue is empty."""
    consumers: list[Any] = []
    threads: list[threading.Thread] = []

    def start(seq: Sequencer, handler: Any, count: int = 2, **options: Any) -> list[threading.Thread]:
        for _ in range(count):
            given = {"until_empty": True, "on_start": consumers.append, **options}
            threads.append(threading.Thread(target=seq.consume, args=(handler,), kwargs=given))
            threads[-1].start()
        return threads

    yield start
    for consumer in consumers:
        consumer.stop()
    for thread in threads:
        thread.join(30.0)


@pytest.mark.parametrize("error", [None, Outage("closed")])
def test_consumers_hold_back_until_what_they_need_is_there(seq: Sequencer, run: Any, error: BaseException) -> None:
    """`until_empty` waits for the end of it too; no attempt is lost."""
    events: list[Event] = []
    seq.observe(events.append)
    seq.append_many({"group": str(number % 60), "body": number} for number in range(180))
    shop = Shop(error)
    threads = run(seq, shop.handle)
    wait_until(lambda: seq.info().outage, what="the outage")
    assert shop.calls <= 12
    assert {one.state for one in seq.groups()} <= {"due", "waiting", "leased"}
    shop.is_open = True
    wait_until(lambda: not any(thread.is_alive() for thread in threads), 20.0, "the end")
    assert shop.attempts == [1] * 180
    info = seq.info()
    assert (info.backlog, info.parked, info.totals["outages"]) == (0, 0, 1)
    names = [one.name for one in events if one.name.startswith("outage")]
    assert names == ["outage began", "outage ended"]
    failed = next(one for one in events if one.name == "message failed")
    assert failed.fields["outage"] is True


def test_a_loop_of_ones_own_probes_and_ends_an_outage(make: Callable[..., Sequencer]) -> None:
    seq = make(backoff=0.0)
    seq.append_many({"group": str(number), "body": 1} for number in range(6))

    def fail_one() -> None:
        with seq.claim() as lease:
            for message in lease:
                lease.nack(message, ConnectionError("refused"))

    for _ in range(5):
        fail_one()
    assert seq.info().outage
    assert not seq.claim()
    seq.probe_outage()
    with seq.claim() as lease:
        assert len(lease) == 1
    assert (found := seq.info().outage)
    assert found.next_probe_s == 0.0, "released untried"
    with seq.claim(messages=9, groups=9) as lease:
        (message,) = lease
        lease.ack(message)
    assert seq.info().outage is None
    seq.consume(lambda _: None, until_empty=True)

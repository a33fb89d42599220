"""How a consumer in this process ends: at once, with its answers taken, and with nothing left behind."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
import redis

from sequencer import Message, Sequencer
from sequencer.drain import protocol
from sequencer.net.link import Link
from sequencer.settings.backoff import Backoff
from sequencer.testing import wait_until
from sequencer.testing.wire import Wire, name_of, wired

from ..support.background import Background


def clients(link: Link) -> set[str]:
    """The connections that the server has."""
    return {line.partition(" ")[0] for line in link.command("CLIENT", "LIST").decode().splitlines()}


def test_its_connections_are_closed(seq: Sequencer, link: Link) -> None:
    seq.connect()
    others = clients(link)
    with Background(seq, lambda message: None) as ended:
        wait_until(lambda: b"cmd=blpop" in link.command("CLIENT", "LIST"), what="it waits")
        assert len(clients(link) - others) == 2
    wait_until(lambda: clients(link) <= others, what="both are closed")
    assert ended.consumer.owner, "which is so while somebody still has it, too"


def test_what_it_set_in_the_interpreter_is_put_back(seq: Sequencer) -> None:
    numbers = (signal.SIGINT, signal.SIGTERM)
    sys.setswitchinterval(0.005)  # consumers in threads of other tests may have left theirs
    seq.append(1, group="g")
    handlers, interval_s = [signal.getsignal(number) for number in numbers], sys.getswitchinterval()
    within: list[float] = []
    assert seq.consume(lambda _: within.append(sys.getswitchinterval()), until_empty=True).handled == 1
    assert within[0] < interval_s
    assert sys.getswitchinterval() == interval_s
    assert [signal.getsignal(number) for number in numbers] == handlers


def test_a_consumer_whose_server_is_gone_hears_a_stop_while_it_pauses(
    make: Callable[..., Sequencer], seq: Sequencer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(protocol, "RECONNECT", Backoff(base_s=40.0, cap_s=40.0))
    lost = threading.Event()

    class Losing(Wire):
        def sending(self, commands: list[Any]) -> list[Any]:
            if lost.is_set():
                raise redis.ConnectionError("gone")
            return commands

    client = make(redis=wired(seq.endpoint, Losing))
    with Background(client, lambda message: None) as consumer:
        lost.set()
        wait_until(lambda: any("gone" in record.message for record in caplog.records), what="it says so, and pauses")
        consumer.consumer.stop()
        consumer.thread.join(10)
        assert not consumer.thread.is_alive()
    assert consumer.summary.reason == "stopped"


@pytest.mark.parametrize("fails", [False, True])
def test_between_two_handlers_an_interruption_is_a_stop(
    make: Callable[..., Sequencer], seq: Sequencer, fails: bool
) -> None:
    """It cuts nothing of what is being told to the server, also after a handler that failed."""
    consumers: list[Any] = []
    told: list[str] = []

    class Interrupting(Wire):
        def sending(self, commands: list[Any]) -> list[Any]:
            names = {name_of(words) for words in commands} & {"ack", "nack"}
            if names and threading.current_thread() is threading.main_thread():
                told.extend(names)
                consumers[0].interrupt()
            return commands

    def handle(_: Message) -> None:
        if fails:
            raise ValueError("no")

    seq.append(1, group="g", id="x")
    seq.append(2, group="g", id="y")
    client = make(redis=wired(seq.endpoint, Interrupting), backoff=30)
    done = client.consume(handle, on_start=consumers.append)
    assert (done.reason, done.failed, done.lost) == ("stopped", int(fails), 0)
    assert set(told) == {"nack" if fails else "ack"}
    found = seq.get("g", "x")
    assert found
    assert found.state == ("waiting" if fails else "handled")

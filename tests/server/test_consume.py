"""Consuming in this process on a real server: order, limits, and how it ends: at once, with nothing left behind."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
import redis

from sequencer import Message, Sequencer
from sequencer.drain import protocol
from sequencer.errors import HandlerNotFound
from sequencer.net.link import Link
from sequencer.settings.backoff import Backoff
from sequencer.testing import wait_until
from sequencer.testing.wire import Wire, name_of, wired

from ..support.background import Background
from ..support.handling import got
from ..support.refused import refused


def test_each_group_is_handled_in_order_of_score_then_arrival(seq: Sequencer) -> None:
    for n in range(300):
        seq.append(n, group=n % 3, score=(n * 7919) % 50)
    seen: dict[tuple[str, ...], list[tuple[float, int]]] = {}
    summary = seq.consume(lambda m: seen.setdefault(m.group, []).append((m.score, m.stamp)), until_empty=True)
    assert (summary.reason, summary.handled, summary.failed, summary.lost) == ("drained", 300, 0, 0)
    assert len(seen) == 3
    assert all(keys == sorted(keys) for keys in seen.values())
    assert seq.info().groups == 0


def test_without_a_usable_handler_nothing_is_consumed(seq: Sequencer) -> None:
    with refused(HandlerNotFound, "handler_not_found"):
        seq.consume(until_empty=True)
    with refused(HandlerNotFound, "not_callable", role="handler", value="x"):
        seq.consume("x", until_empty=True)  # type: ignore[arg-type]


def test_a_consumer_ends_after_so_many_messages_or_seconds(seq: Sequencer) -> None:
    for n in range(100):
        seq.append(n, group=n % 9)
    summary = seq.consume(lambda message: None, max_messages=40)
    assert (summary.reason, summary.handled) == ("recycled", 40)
    assert seq.info().backlog == 60
    summary = seq.consume(lambda message: time.sleep(0.02), max_age=0.1)
    assert (summary.reason, summary.failed, 0 < summary.handled < 60) == ("recycled", 0, True)


def test_until_empty_waits_for_groups_that_others_hold(make: Callable[..., Sequencer]) -> None:
    seq = make()
    seq.append(1, group="g")
    lease = seq.claim(lease=30)
    seen: list[int] = []
    with Background(seq, lambda m: seen.append(m.body), until_empty=True) as background:
        assert background.thread.is_alive()
        lease.release()
        background.thread.join(10)
    assert seen == [1]


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
    found = got(seq, "g", "x")
    assert found.state == ("waiting" if fails else "handled")

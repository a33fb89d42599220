"""A consumer that waits: a hint comes with the message that it is about, and what a wait took is never left lying."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sequencer import EmbeddedServer, Message, Sequencer, calls
from sequencer.consume import threads as consumer_module
from sequencer.errors import ServerUnavailable
from sequencer.net import wait as waiter_module
from sequencer.net.endpoint import Endpoint
from sequencer.net.link import REFRESH_EVERY_S, Link
from sequencer.net.wait import Waiter
from sequencer.settings.options import ClaimLimits
from sequencer.settings.pace import IDLE_S
from sequencer.store.keys import ShardKeys, shard_keys
from sequencer.testing import wait_until
from sequencer.testing.wire import Wire, name_of, wired

from ..support.background import Background
from ..support.link_clock import stopped_clock
from ..support.refused import refused


@pytest.fixture
def keys(seq: Sequencer, namespace: str) -> ShardKeys:
    seq.connect()
    return shard_keys(namespace, "jobs", 0)


@pytest.fixture
def other(seq: Sequencer) -> Iterator[Link]:
    link = Link(seq.endpoint)
    yield link
    link.close()


@pytest.fixture
def waiter(seq: Sequencer, keys: ShardKeys, other: Link) -> Iterator[Waiter]:
    waiter = Waiter(seq.endpoint, [keys], other)
    yield waiter
    waiter.link.close()


def is_blocked(link: Link) -> bool:
    return b"cmd=blpop" in link.command("CLIENT", "LIST")


def claim_of(keys: ShardKeys) -> calls.Call[Any]:
    return calls.claim(keys, "q", "w", 5.0, ClaimLimits(10, 10, 10**6))


def test_a_script_that_the_server_lost_is_left_to_the_next_claim(
    seq: Sequencer, keys: ShardKeys, waiter: Waiter, other: Link
) -> None:
    waiter.wait(0.02, lambda: False, claim_of(keys))
    other.command("SCRIPT", "FLUSH")
    seq.append("x", group="a", id="1")
    assert waiter.wait(0.02, lambda: False, claim_of(keys)) is None
    other.command("RPUSH", keys.dispatch, "again")
    claimed = waiter.wait(5.0, lambda: False, claim_of(keys))
    assert claimed is not None
    assert len(claimed.groups) == 1


class Watched(Wire):
    """Notes what each request of a connection is made of."""

    def __init__(self, inner: Any, seen: list[list[str]]) -> None:
        super().__init__(inner)
        self._seen = seen

    def sending(self, commands: list[Any]) -> list[Any]:
        self._seen.append([name_of(words) for words in commands])
        return commands


def test_an_idle_consumer_begins_a_message_without_another_request(
    make: Callable[..., Sequencer], seq: Sequencer, link: Link
) -> None:
    seen: list[list[str]] = []
    begun: list[list[list[str]]] = []
    client = make(redis=wired(seq.endpoint, lambda inner: Watched(inner, seen)))
    with Background(client, lambda message: begun.append(list(seen))):
        wait_until(lambda: is_blocked(link), what="the consumer waits")
        asked = len(seen)
        seq.append("x", group="a")
        wait_until(lambda: begun)
    assert begun[0][asked - 1] == ["BLPOP", "claim"]
    assert begun[0][asked:] == [], "it asked nothing between the append and the handler"


def test_a_consumer_that_is_stopped_while_it_waits_gives_back_what_it_gets(
    make: Callable[..., Sequencer], seq: Sequencer, keys: ShardKeys, link: Link
) -> None:
    """The message comes with the very wait that a stop ends: nobody has begun it, and the next one has it at once."""
    handled: list[str] = []
    stopped = threading.Event()
    background: list[Background] = []

    class Stopping(Wire):
        def sending(self, commands: list[Any]) -> list[Any]:
            if [name_of(words) for words in commands] == ["BLPOP", "claim"] and background and not stopped.is_set():
                background[0].consumer.stop()
                seq.append("x", group="a", id="1")
                stopped.set()
            return commands

    def handle(message: Message) -> None:
        handled.append(message.id)

    client = make(redis=wired(seq.endpoint, Stopping))
    with Background(client, handle) as consumer:
        background.append(consumer)
        assert stopped.wait(10)
        consumer.thread.join(10)
        assert consumer.summary.reason == "stopped"
    assert handled == []
    assert link.command("HLEN", keys.leases) == 0
    assert seq.consume(handle, until_empty=True).handled == 1
    assert handled == ["1"]


def test_a_waiting_consumer_knows_the_connection_on_which_it_waits(server: EmbeddedServer) -> None:
    """One that went stale is replaced by the first command on it; found by `python -m tests.faults simulate`."""
    endpoint = Endpoint.from_url(server.url)
    other, number = Link(endpoint), {}
    waiter = Waiter(endpoint, [shard_keys("t", "none", 0)], other)
    waiter.link.connection()
    number["stale"] = waiter.link.command("CLIENT", "ID")
    other.command("CLIENT", "KILL", "ID", number["stale"])
    waiter.wait(0.02, lambda: False)
    number["waiter"] = waiter.link.command("CLIENT", "ID")
    waiter.link.close()
    clients = other.command("CLIENT", "LIST").decode()
    assert "cmd=blpop" not in clients, clients
    assert f"id={number['stale']} " not in clients
    other.close()


def test_a_wait_whose_answer_never_comes_is_given_up(
    seq: Sequencer, keys: ShardKeys, other: Link, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else its consumer would wait for ever on a connection that was dropped on its way."""
    monkeypatch.setattr(waiter_module, "CALL_TIMEOUT_S", 0.1)
    monkeypatch.setattr(waiter_module, "IDLE_S", 1.0)

    class Silent(Wire):
        def sending(self, commands: list[Any]) -> list[Any]:
            return [("PING",) if words[0] != "BLPOP" else ("BLPOP", f"{keys.prefix}none", "30") for words in commands]

    waiter = Waiter(wired(seq.endpoint, Silent), [keys], other)
    waiter._client_id = (waiter.link.connection(), 1)
    with refused(ServerUnavailable, "unreachable", error=""):
        waiter.wait(1.0, lambda: False)


def test_a_wait_that_a_pause_of_writes_holds_is_ended_behind_that(start_server: Callable[..., str]) -> None:
    """Redis 7.0 dies of an UNBLOCK for a client that waits for the end of a pause, and takes the queue along."""
    endpoint = Endpoint.from_url(f"unix://{start_server()}?socket_timeout=60")
    operator, other = Link(endpoint), Link(endpoint)
    waiter = Waiter(endpoint, [shard_keys("t", "none", 0)], other)
    waiter.link.command("PING")
    operator.command("CLIENT", "PAUSE", 600_000, "WRITE")
    thread = threading.Thread(target=lambda: waiter.wait(0.02, lambda: False))
    thread.start()

    def held() -> set[str]:
        clients = operator.command("CLIENT", "LIST").decode().splitlines()
        words = [dict(word.partition("=")[::2] for word in client.split()) for client in clients]
        return {client["cmd"] for client in words if "b" in client["flags"]}

    wait_until(lambda: held() == {"blpop", "hdel"}, what="the wait, and what would end it, are held back by the pause")
    operator.command("CLIENT", "UNPAUSE")
    thread.join(60)
    assert not thread.is_alive()
    for link in (operator, other, waiter.link):
        link.close()


def test_a_wait_with_a_claim_behind_it_is_over_while_most_of_its_lease_is_left(
    make: Callable[..., Sequencer], seq: Sequencer
) -> None:
    """Its lease counts from before the wait. The server would end it after a second, longer than the lease."""
    ended: list[Any] = []

    class Ending(Wire):
        def sending(self, commands: list[Any]) -> list[Any]:
            ended.extend(words for words in commands if words[:2] == ("CLIENT", "UNBLOCK"))
            return commands

    client = make(redis=wired(seq.endpoint, Ending))
    with Background(client, lambda message: None, lease=0.6):
        wait_until(lambda: len(ended) >= 2, what="waits are ended by the consumer")


def test_a_frozen_consumer_that_waits_takes_one_group_and_is_not_blamed(
    make: Callable[..., Sequencer], seq: Sequencer, keys: ShardKeys, link: Link
) -> None:
    """Its claim is carried out by the server at the hint, though nobody handles what it takes."""
    frozen, go_on = threading.Event(), threading.Event()
    background: list[Background] = []

    class Freezing(Wire):
        is_waiting = False

        def sending(self, commands: list[Any]) -> list[Any]:
            self.is_waiting = commands[0][0] == "BLPOP"
            return commands

        def can_read(self, timeout: float = 0) -> bool:
            if self.is_waiting and background and not go_on.is_set():
                frozen.set()
                go_on.wait(20)
            return super().can_read(timeout)

    handled: list[tuple[Any, int]] = []
    thawed: list[Any] = []
    client = make(redis=wired(seq.endpoint, Freezing), max_attempts=1)
    other = make(max_attempts=1)
    with Background(client, lambda message: thawed.append(message.body), lease=0.5) as consumer:
        background.append(consumer)
        assert frozen.wait(10)
        seq.append_many({"body": n, "group": ["g", n]} for n in range(20))
        wait_until(lambda: link.command("HLEN", keys.leases) == 1)
        with Background(other, lambda message: handled.append((message.body, message.attempt)), lease=0.5):
            wait_until(lambda: len(handled) == 20, what="all are handled, the frozen one's after its lease")
        assert not other.parked()
        go_on.set()
        seq.append("after", group="after")
        wait_until(lambda: thawed, what="it goes on")
    assert thawed == ["after"], "its lease is counted from before the wait: it begins nothing of what others had since"
    assert sorted(handled) == [(n, 1) for n in range(20)]


def test_what_a_waiting_consumer_claims_with_is_not_left_silent(
    make: Callable[..., Sequencer], seq: Sequencer, link: Link, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection that nobody uses for long is closed by the server, or forgotten on its way."""
    monkeypatch.setattr(consumer_module, "SILENT_S", 0.2)
    seen: list[list[str]] = []
    begun: list[Any] = []
    client = make(redis=wired(seq.endpoint, lambda inner: Watched(inner, seen)))
    with Background(client, lambda message: begun.append(message.body), lease=0.3):
        wait_until(lambda: ["BLPOP"] in seen[:-2], what="a wait without a claim")
        at = seen.index(["BLPOP"])
        assert seen[at + 1] == ["claim"], "the next claim went over the main link"
        assert ["BLPOP", "claim"] in seen
        seq.append("x", group="a")
        wait_until(lambda: begun)


@pytest.mark.parametrize("shards", [pytest.param(1, marks=pytest.mark.nightly), 4])
def test_an_idle_consumer_costs_half_a_command_a_second(
    make: Callable[..., Sequencer], seq: Sequencer, link: Link, monkeypatch: pytest.MonkeyPatch, shards: int
) -> None:
    """Two whole waits, and the look of each minute: managed servers are paid by the command."""
    clock, seen = stopped_clock(monkeypatch), list[tuple[float, str]]()

    class Counted(Wire):
        def sending(self, commands: list[Any]) -> list[Any]:
            seen.extend((time.monotonic(), str(words[0])) for words in commands)
            return commands

    def waits() -> list[int]:
        return [at for at, (_, name) in enumerate(seen) if name == "BLPOP"]

    client = make(redis=wired(seq.endpoint, Counted), shards=shards)
    with Background(client, lambda message: None):
        wait_until(lambda: is_blocked(link), what="it waits")
        known = len(waits())
        wait_until(lambda: len(waits()) > known, what="it waits for the second time")
        clock.now += REFRESH_EVERY_S + 1
        wait_until(lambda: len(waits()) > known + 1, what="it waits for the third time, behind a look")
        first, second, third = waits()[known - 1 : known + 2]
    per_wait, with_look = second - first, third - second
    assert (per_wait, seen[second][0] - seen[first][0] > 0.95 * IDLE_S) == (1 + shards, True)
    rate = per_wait / IDLE_S + (with_look - per_wait) / REFRESH_EVERY_S
    assert rate <= 0.5 + 0.2 * (shards - 1), "commands a second"

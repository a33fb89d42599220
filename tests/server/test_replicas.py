"""`wait_replicas` on a server without replicas: what is said of what was stored, and of what was not.

Replicas that do confirm: tests/faults/test_server_faults.py.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import fakeredis
import pytest

from sequencer import Event, Sequencer
from sequencer.errors import (
    BatchRefused,
    ConfigurationError,
    IdConflict,
    NotReplicated,
    ServerNotUsable,
    ServerUnavailable,
)
from sequencer.net.endpoint import Endpoint
from sequencer.net.link import Link
from sequencer.store.group import shard_of
from sequencer.testing.wire import Wire, name_of, wired
from tests.support.handling import Make

from ..support.refused import refused
from .conftest import command
from .test_steps import ledger_of

GONE: dict[str, Any] = {"wait_replicas": 1, "wait_timeout": 0.01}


@pytest.fixture
def url(start_server: Callable[..., str]) -> str:
    return f"unix://{start_server()}"


def test_what_is_stored_is_said_to_be_and_can_be_asked_for_again(url: str) -> None:
    with Sequencer("q", url, **GONE) as seq:
        for _ in range(2):
            with refused(NotReplicated, "not_replicated", id="a", confirmed=0, replicas=1):
                seq.append(1, "g", id="a")
        with refused(NotReplicated, "not_replicated", id="b to c"):
            seq.append_many([{"body": 1, "group": "g", "id": "b"}, {"body": 2, "group": "h", "id": "c"}])
        assert seq.info().backlog == 3


def test_after_a_replace_nobody_is_told_to_repeat_it(url: str) -> None:
    """Once the message was handled, that would add it again."""
    with Sequencer("q", url, **GONE) as seq, refused(NotReplicated, "not_replicated", replaces=True):
        seq.append(1, "g", id="a", replace=True)


@pytest.mark.parametrize("shards", [1, 4])
def test_what_is_refused_is_not_said_to_be_stored(url: str, shards: int) -> None:
    clash = {"body": 2, "group": "g", "id": "a"}
    with Sequencer("q", url, shards=shards, **GONE) as seq:
        with pytest.raises(NotReplicated):
            seq.append(1, "g", id="a")
        with pytest.raises(IdConflict):
            seq.append(2, "g", id="a")
        with pytest.raises(BatchRefused) as caught:
            seq.append_many([*({"body": 0, "group": n, "id": "b"} for n in range(8)), clash])
        others = sum(shard_of(str(n), shards) != shard_of("g", shards) for n in range(8))
        assert caught.value.stored == others
        assert [one.index for one in seq.append_many([clash], on_refused="skip").refused] == [0]
        assert seq.info().backlog == 1 + others


@pytest.mark.parametrize("count", [1, 8])
def test_a_server_that_wants_more_replicas_has_stored_nothing_and_says_it(
    start_server: Callable[..., str], count: int
) -> None:
    path = start_server()
    with Sequencer("q", f"unix://{path}", shards=4, **GONE) as seq:
        with pytest.raises(NotReplicated):
            seq.append(1, "g", id="a")
        command(path, "CONFIG", "SET", "min-replicas-to-write", "1")
        with refused(ServerUnavailable, "too_few_replicas"):
            seq.append_many({"body": 2, "group": f"g{n}", "id": "c"} for n in range(count))
        assert seq.info().backlog == 1


@pytest.mark.parametrize("option", ["socket_timeout=0.3", "socket_timeout=1"])
def test_a_reply_must_have_more_time_than_the_replicas(option: str) -> None:
    with refused(ConfigurationError, "wait_timeout_too_long", wait_s=1):
        Sequencer("q", f"redis://127.0.0.1:1?{option}", wait_replicas=1)
    Sequencer("q", f"redis://127.0.0.1:1?{option}", wait_replicas=1, wait_timeout=0.2)


def test_a_server_that_can_not_wait_is_refused_before_anything_is_stored() -> None:
    client = fakeredis.FakeRedis(server=fakeredis.FakeServer(), version=(7,))
    with Sequencer("q", client, wait_replicas=1) as seq, refused(ServerNotUsable, "command_unknown"):
        seq.append(1, "g")
    assert client.keys() == []
    with Sequencer("q", client) as seq:
        assert seq.append(1, "g").stamp
    client.close()


def test_a_user_who_may_not_wait_is_refused_before_anything_is_stored(start_server: Callable[..., str]) -> None:
    path = start_server()
    command(path, "ACL", "SETUSER", "app", "on", "nopass", "~*", "+@all", "-wait")
    with (
        Sequencer("q", f"unix://app:x@{path}", wait_replicas=1) as seq,
        refused(ServerNotUsable, "rights_missing", rights=["+wait"]),
    ):
        seq.append(1, "g")
    assert command(path, "KEYS", "*", default="none") == "none"


def test_threads_of_one_client_are_told_apart(url: str) -> None:
    def told(id: str) -> str:
        with pytest.raises(NotReplicated) as caught:
            seq.append(1, "g", id=id)
        return caught.value.id

    ids = [str(n) for n in range(8)]
    with Sequencer("q", url, **GONE) as seq, ThreadPoolExecutor(8) as pool:
        assert [*pool.map(told, ids)] == ids
    link = Link(Endpoint.from_url(url))
    assert link.command("HLEN", "{sequencer:q:0}:body:g") == 8
    link.close()


class OneReplica(Wire):
    """As if one replica had confirmed each write; notes each command."""

    def __init__(self, inner: Any, seen: list[str], one: str = "one") -> None:
        """`one`: a key that has one bit."""
        super().__init__(inner)
        self._seen, self._one = seen, one

    def sending(self, commands: list[Any]) -> list[Any]:
        self._seen += [name_of(words) for words in commands]
        return [("BITCOUNT", self._one) if words[0] == "WAIT" else words for words in commands]


@pytest.mark.parametrize("wanted", [1, 2])
def test_fewer_replicas_than_asked_for_are_too_few(url: str, wanted: int) -> None:
    command(url.removeprefix("unix://"), "SET", "one", "\x01")
    endpoint = wired(Endpoint.from_url(url), lambda inner: OneReplica(inner, []))
    with Sequencer("q", endpoint, wait_replicas=wanted, wait_timeout=0.01) as seq:
        if wanted == 1:
            seq.append(1, "g", id="a")
        else:
            with refused(NotReplicated, "not_replicated", confirmed=1, replicas=2):
                seq.append(1, "g", id="a")
        assert seq.info().backlog == 1


def test_what_is_only_looked_for_waits_for_no_replica(url: str) -> None:
    """What replaces is looked for first, since a script can't undo that."""
    command(url.removeprefix("unix://"), "SET", "one", "\x01")
    seen: list[str] = []
    endpoint = wired(Endpoint.from_url(url), lambda inner: OneReplica(inner, seen))
    with Sequencer("q", endpoint, shards=4, wait_replicas=1, wait_timeout=0.01) as seq:
        seq.append(0, "g", id="first")
        seen.clear()
        items = [{"body": n, "group": n, "id": n} for n in range(20)]
        assert seq.append_many(items, replace=True).appended == 20
    assert seen.count("append") > 4, "it was looked for first"
    assert seen.count("WAIT") == 1


# -- the start of a once step ----------------------------------------------------------------------------------------

Declare = Callable[[Sequencer, list[str]], None]
ALONE: dict[str, Any] = {"wait_replicas": 1, "wait_timeout": 0.01, "backoff": 0.01, "max_attempts": 2}


def declared(client: Sequencer, ran: list[str]) -> None:
    client.step(name="charge", once=True)(lambda message: ran.append("charge"))
    client.step(name="mail", order=2)(lambda message: ran.append("mail"))


def inline(client: Sequencer, ran: list[str]) -> None:
    @client.handler
    def handle(message: Any, steps: Any) -> None:
        steps.run("mail", ran.append, "mail")
        steps.run("charge", ran.append, "charge", once=True)


def consume_until(client: Sequencer, failures: int) -> list[Event]:
    """Until so many passes failed."""
    told: list[Event] = []
    consumers: list[Any] = []

    @client.observe
    def observe(event: Event) -> None:
        told.append(event)
        if len(told) == failures:
            consumers[0].stop()

    assert client.consume(on_start=consumers.append).reason == "stopped"
    return told


def waits(seen: list[str]) -> list[str]:
    """Notes and waits for replicas, since the first claim."""
    return [name for name in seen[seen.index("claim") :] if name in ("save_step", "WAIT")]


@pytest.mark.parametrize("declare", [declared, inline])
def test_a_step_whose_start_no_replica_confirms_is_not_called(
    make: Make, seq: Sequencer, link: Link, declare: Declare
) -> None:
    seq.append(1, group="g", id="m")
    client, ran = make(**ALONE), list[str]()
    declare(client, ran)
    told = consume_until(client, 3)
    assert ran == ["mail"], "other steps need no replica"
    assert {event.name for event in told} == {"message failed"}
    assert "charge" in told[0].text
    charge = ledger_of(link, seq).get("charge")
    assert charge is not None
    assert (charge.state, charge.attempts) == ("open", 0), "nobody is asked, and nothing is counted"
    (group,) = seq.groups()
    assert group.state != "parked"
    seq.resume("g")
    after = make(backoff=0.01)
    declare(after, ran)
    after.consume(until_empty=True)
    assert ran == ["mail", "charge"]


@pytest.mark.parametrize("declare", [declared, inline])
def test_a_step_whose_start_is_confirmed_is_called(make: Make, link: Link, declare: Declare) -> None:
    link.command("SET", one := "{sequencer-test}:one", "\x01")
    seen: list[str] = []
    endpoint = wired(make().endpoint, lambda inner: OneReplica(inner, seen, one))
    client, ran = make(redis=endpoint, **ALONE), list[str]()
    declare(client, ran)
    client.append(1, group="g", id="m")
    seen.clear()
    client.consume(until_empty=True)
    link.command("DEL", one)
    assert sorted(ran) == ["charge", "mail"]
    assert waits(seen).count("WAIT") == 1, "the start alone waits"


def test_a_start_that_was_sent_twice_is_written_again_before_replicas_are_asked(
    make: Make, proxy: Any, link: Link
) -> None:
    """By another connection than that of the first attempt, WAIT says nothing of it."""
    link.command("SET", one := "{sequencer-test}:one", "\x01")
    seen: list[str] = []
    endpoint = wired(Endpoint.from_url(proxy.url), lambda inner: OneReplica(inner, seen, one))
    client, ran = make(redis=endpoint, **ALONE), list[str]()
    client.step(name="charge", once=True)(lambda message: ran.append("charge"))
    client.append(1, group="g", id="m")
    seen.clear()
    proxy.add("reply lost", on=("save_step",))
    client.consume(until_empty=True)
    link.command("DEL", one)
    assert ran == ["charge"]
    assert waits(seen) == [*["save_step", "WAIT"] * 3, "save_step"], (
        "a lost attempt, its repeat, the one that counts; end"
    )

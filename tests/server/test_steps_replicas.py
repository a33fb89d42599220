"""The start of a `once` step and `wait_replicas`: a start that a failover may lose calls no step, and asks nobody.

What a replica really has: tests/faults/test_server_faults.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sequencer import Event, Sequencer
from sequencer.net.endpoint import Endpoint
from sequencer.net.link import Link
from sequencer.testing.wire import wired

from .test_replicas import OneReplica
from .test_steps import ledger_of

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
    return [name for name in seen[seen.index("claim") :] if name in ("note", "WAIT")]


@pytest.mark.parametrize("declare", [declared, inline])
def test_a_step_whose_start_no_replica_confirms_is_not_called(
    make: Callable[..., Sequencer], seq: Sequencer, link: Link, declare: Declare
) -> None:
    seq.append(1, group="g", id="m")
    client, ran = make(**ALONE), list[str]()
    declare(client, ran)
    told = consume_until(client, 3)
    assert ran == ["mail"], "other steps need no replica"
    assert {event.name for event in told} == {"message failed"}
    assert "step charge was not called: the replica did not confirm its start within 0.01 s" in told[0].text
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
def test_a_step_whose_start_is_confirmed_is_called(
    make: Callable[..., Sequencer], link: Link, declare: Declare
) -> None:
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
    make: Callable[..., Sequencer], proxy: Any, link: Link
) -> None:
    """By another connection than that of the first attempt, WAIT says nothing of it."""
    link.command("SET", one := "{sequencer-test}:one", "\x01")
    seen: list[str] = []
    endpoint = wired(Endpoint.from_url(proxy.url), lambda inner: OneReplica(inner, seen, one))
    client, ran = make(redis=endpoint, **ALONE), list[str]()
    client.step(name="charge", once=True)(lambda message: ran.append("charge"))
    client.append(1, group="g", id="m")
    seen.clear()
    proxy.add("reply lost", on=("note",))
    client.consume(until_empty=True)
    link.command("DEL", one)
    assert ran == ["charge"]
    assert waits(seen) == [*["note", "WAIT"] * 3, "note"], "a lost try, its repeat, the one that counts; the end"

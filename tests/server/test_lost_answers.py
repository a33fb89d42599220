"""Answers that are lost after the server did what was asked: nothing is done twice, and what is not known is said."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from redis._parsers import _RESP2Parser

from sequencer import Gap, Message, Sequencer, calls
from sequencer.drain.effects import Exchange
from sequencer.drain.inflight import InFlight
from sequencer.errors import OutcomeUnknown, ServerUnavailable
from sequencer.net.link import Link
from sequencer.settings.options import ClaimLimits
from sequencer.store.keys import shard_keys
from sequencer.testing import wait_until
from sequencer.testing.wire import wired
from tests.support.proxy.fault_proxy import FaultProxy

from ..support.background import Background


def drain(seq: Sequencer) -> list[Any]:
    seen: list[Any] = []
    seq.consume(lambda message: seen.append(message.body), until_empty=True)
    return seen


def fail(_: Message) -> None:
    raise ValueError("no")


def losing(monkeypatch: pytest.MonkeyPatch, proxy: FaultProxy, name: str) -> None:
    """Lose the answer to the next call of this script, not those before it."""
    original = getattr(calls, name)

    def make(*args: Any, **kwargs: Any) -> Any:
        proxy.add("reply lost")
        monkeypatch.setattr(calls, name, original)
        return original(*args, **kwargs)

    monkeypatch.setattr(calls, name, make)


@pytest.mark.parametrize("dead_letter", [False, True])
def test_a_skip_whose_answer_is_lost_does_not_destroy_the_only_copy(
    make: Callable[..., Sequencer], proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch, dead_letter: bool
) -> None:
    """The error names the command that puts it back, into its own place."""
    seq, other = make(max_attempts=1), make(redis=proxy.url)
    seq.append({"n": 1}, group="g", id="m1", score=1, headers={"h": "1"})
    seq.append(2, group="g", id="m2", score=2)
    seq.consume(fail, until_empty=True)
    losing(monkeypatch, proxy, "resume")
    with pytest.raises(OutcomeUnknown) as unknown:
        other.skip("g", dead_letter=dead_letter)
    if dead_letter:
        assert "sequencer dead redrive jobs g --id m1 --namespace" in str(unknown.value)
        assert seq.redrive("g", id="m1").redriven == 1
    else:
        assert "sequencer unskip jobs g --id m1 --namespace" in str(unknown.value)
        assert seq.unskip("g", id="m1").id == "m1"
    first, second = seq.peek("g")
    assert (first.id, first.body, first.headers, first.score, first.attempt) == ("m1", {"n": 1}, {"h": "1"}, 1.0, 1)
    assert drain(seq) == [{"n": 1}, 2]
    assert second.id == "m2"


def test_a_step_whose_answer_is_lost_steps_over_one_gap(
    make: Callable[..., Sequencer], proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    seq, other = make(sequence=True), make(redis=proxy.url)
    for n in (2, 4):
        seq.append(n, group="g", score=n)
    seen: list[int] = []
    with Background(seq, lambda message: seen.append(message.body)):
        losing(monkeypatch, proxy, "skip_gap")
        with pytest.raises(OutcomeUnknown, match="numbers 1 to 1 were stepped over"):
            other.skip("g")
        wait_until(lambda: seen == [2])
        assert seq.explain("g").fields.items() >= {"first": 3, "last": 3, "number": 4}.items()
    assert seq.skip("g") == Gap(("g",), 3, 3)
    assert drain(seq) == [4]


def test_a_replacing_append_is_not_repeated(make: Callable[..., Sequencer], proxy: FaultProxy, namespace: str) -> None:
    """The first attempt may have fired meanwhile; what is not known is said."""
    seq, other = make(), make(redis=proxy.url)
    other.append("warm", group="w")
    seen: list[Any] = []
    with Background(seq, lambda message: seen.append(message.body)):
        wait_until(lambda: seen == ["warm"])
        proxy.add("reply lost")
        with pytest.raises(OutcomeUnknown, match=r"'timer' was stored .*see get\(\)") as unknown:
            other.append("x", group="g", id="timer", replace=True)
        assert unknown.value.id == "timer"
        wait_until(lambda: seen == ["warm", "x"])
    assert drain(seq) == []


def test_a_claim_whose_answer_is_lost_drops_no_message(
    make: Callable[..., Sequencer], link: Link, namespace: str
) -> None:
    seq, keys = make(max_attempts=1, on_failure="drop"), shard_keys(namespace, "jobs", 0)
    seq.append("x", group="g")
    seq.claim(lease=30)  # its answer never came: no handler began
    link.command("ZADD", keys.schedule, "XX", "1", "g")
    assert drain(seq) == ["x"]


@pytest.mark.parametrize("sequence", [False, True])
def test_an_acknowledgement_that_comes_once_more_sets_no_watermark_back(
    make: Callable[..., Sequencer], link: Link, namespace: str, sequence: bool
) -> None:
    """It was long on its way, was repeated, and the next message was acknowledged under the same lease."""
    seq, keys = make(sequence=sequence), shard_keys(namespace, "jobs", 0)
    seq.append_many([{"body": None, "group": "g", "score": score} for score in (1, 2, 3)])
    limits = ClaimLimits(1, 2, 10**6)
    (held,) = link.run_one(calls.claim(keys, "jobs", "c", 60, limits)).groups
    acks = [
        calls.Ack("g", held.token, [member], False, f"#{number}" if sequence else f"{number}.0")
        for number, member in enumerate(held.members, 1)
    ]
    for ack in (*acks, acks[0], acks[1], acks[0]):
        assert not link.run_one(calls.ack(keys, [ack])).refused
    key = keys.numbers if sequence else keys.marks
    assert link.command("HGET", key, "g") == (b"#2" if sequence else b"2.0")


@pytest.mark.parametrize("parser", ["driver's own choice", "python"])
def test_a_connection_that_is_lost_before_its_answer_is_told_of_as_such(
    seq: Sequencer, link: Link, namespace: str, parser: str
) -> None:
    """Whatever parser the driver has: the one in Python has nothing left to read with after an error."""

    def make(inner: Any) -> Any:
        if parser == "python":
            parser_class: Any = _RESP2Parser  # redis-py types no parser
            inner._parser = parser_class(socket_read_size=65536)
        return inner

    mine = Link(wired(seq.endpoint, make))
    number = mine.command("CLIENT", "ID")
    mine.post([], behind=("BLPOP", shard_keys(namespace, "jobs", 0).dispatch, "20"))
    assert not mine.is_answered(0)
    link.command("CLIENT", "KILL", "ID", number)
    wait_until(lambda: mine.is_answered(0))
    with pytest.raises(ServerUnavailable):
        mine.collect([])
    assert mine.command("PING") == b"PONG"
    mine.close()


def test_a_lease_is_kept_whatever_goes_wrong_once(
    make: Callable[..., Sequencer], seq: Sequencer, link: Link, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, failed, go_on = InFlight.on_tick, threading.Event(), threading.Event()

    def on_tick(in_flight: InFlight, now: float) -> Exchange[None]:
        if not failed.is_set():
            failed.set()
            raise AttributeError("odd")
        yield from original(in_flight, now)

    monkeypatch.setattr(InFlight, "on_tick", on_tick)
    seq.append(1, group="g")
    keys = shard_keys(namespace, "jobs", 0)
    with Background(seq, lambda message: go_on.wait(20), lease=0.6) as consumer:
        assert failed.wait(10)
        visible = link.command("ZSCORE", keys.schedule, "g")
        wait_until(lambda: link.command("ZSCORE", keys.schedule, "g") > visible, what="the lease is renewed")
        go_on.set()
    assert (consumer.summary.handled, consumer.summary.lost) == (1, 0)

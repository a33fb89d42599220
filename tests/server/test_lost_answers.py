"""Answers that are lost after the server did what was asked: nothing is done twice, and what is not known is said."""

from __future__ import annotations

from typing import Any

import pytest
from redis._parsers import _RESP2Parser

from sequencer import Sequencer, calls
from sequencer.errors import MessageNotFound, OutcomeUnknown, ServerUnavailable
from sequencer.net.link import Link
from sequencer.settings.options import ClaimLimits
from sequencer.store.keys import ShardKeys
from sequencer.testing import wait_until
from sequencer.testing.wire import wired
from sequencer.values import Gap
from tests.support.handling import Make, drain, fail
from tests.support.proxy.fault_proxy import FaultProxy

from ..support.background import Background


def losing(monkeypatch: pytest.MonkeyPatch, proxy: FaultProxy, name: str) -> None:
    original = getattr(calls, name)

    def make(*args: Any, **kwargs: Any) -> Any:
        proxy.add("reply lost")
        monkeypatch.setattr(calls, name, original)
        return original(*args, **kwargs)

    monkeypatch.setattr(calls, name, make)


def test_what_a_repeat_finds_done_is_done(make: Make, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch) -> None:
    seq, other = make(max_attempts=1), make(redis=proxy.url)
    for n in range(3):
        seq.append(n, group="g", id=f"m{n}")
    seq.consume(fail, until_empty=True)
    losing(monkeypatch, proxy, "resume")
    assert other.resume("g") is True
    assert other.resume("g") is False, "it was due already"
    seq.consume(fail, until_empty=True)
    seq.skip("g")
    losing(monkeypatch, proxy, "redrive")
    assert other.unskip("g").id == "m0"
    with pytest.raises(MessageNotFound):
        other.unskip("g")
    losing(monkeypatch, proxy, "update")
    other.cancel("g", "m0")
    with pytest.raises(MessageNotFound):
        other.cancel("g", "m0")
    seq.reschedule("g", "m1", delay=50)
    losing(monkeypatch, proxy, "update")
    other.reschedule("g", "m1", delay=0)
    seq.consume(fail, until_empty=True)
    seq.skip("g", dead_letter=True)
    losing(monkeypatch, proxy, "redrive")
    assert other.redrive(everything=True).redriven == 1
    seq.consume(fail, until_empty=True)
    seq.skip("g", dead_letter=True)
    losing(monkeypatch, proxy, "purge")
    assert other.purge(everything=True) == 1
    assert other.purge(everything=True) == 0
    assert len(seq.peek("g")) == 1


@pytest.mark.parametrize("dead_letter", [False, True])
def test_a_skip_whose_answer_is_lost_does_not_destroy_the_only_copy(
    make: Make, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch, dead_letter: bool
) -> None:
    seq, other = make(max_attempts=1), make(redis=proxy.url)
    seq.append({"n": 1}, group="g", id="m1", score=1, headers={"h": "1"})
    seq.append(2, group="g", id="m2", score=2)
    seq.consume(fail, until_empty=True)
    losing(monkeypatch, proxy, "resume")
    with pytest.raises(OutcomeUnknown):
        other.skip("g", dead_letter=dead_letter)
    if dead_letter:
        assert seq.redrive("g", id="m1").redriven == 1
    else:
        assert seq.unskip("g", id="m1").id == "m1"
    first, second = seq.peek("g")
    assert (first.id, first.body, first.headers, first.score, first.attempt) == ("m1", {"n": 1}, {"h": "1"}, 1.0, 1)
    assert drain(seq) == [{"n": 1}, 2]
    assert second.id == "m2"


def test_a_step_whose_answer_is_lost_steps_over_one_gap(
    make: Make, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    seq, other = make(sequence=True), make(redis=proxy.url)
    for n in (2, 4):
        seq.append(n, group="g", score=n)
    seen: list[int] = []
    with Background(seq, lambda message: seen.append(message.body)):
        losing(monkeypatch, proxy, "skip_gap")
        with pytest.raises(OutcomeUnknown):
            other.skip("g")
        wait_until(lambda: seen == [2])
        assert seq.explain("g").fields.items() >= {"first": 3, "last": 3, "number": 4}.items()
    assert seq.skip("g") == Gap(("g",), 3, 3)
    assert drain(seq) == [4]


def test_a_replacing_append_is_not_repeated(make: Make, proxy: FaultProxy, namespace: str) -> None:
    """The first attempt may have fired meanwhile; what is not known is said."""
    seq, other = make(), make(redis=proxy.url)
    other.append("warm", group="w")
    seen: list[Any] = []
    with Background(seq, lambda message: seen.append(message.body)):
        wait_until(lambda: seen == ["warm"])
        proxy.add("reply lost")
        with pytest.raises(OutcomeUnknown) as unknown:
            other.append("x", group="g", id="timer", replace=True)
        assert unknown.value.id == "timer"
        wait_until(lambda: seen == ["warm", "x"])
    assert drain(seq) == []


def test_a_claim_whose_answer_is_lost_drops_no_message(make: Make, link: Link, keys: ShardKeys) -> None:
    seq = make(max_attempts=1, on_failure="drop")
    seq.append("x", group="g")
    seq.claim(lease=30)  # its answer never came: no handler began
    link.command("ZADD", keys.schedule, "XX", "1", "g")
    assert drain(seq) == ["x"]


@pytest.mark.parametrize("sequence", [False, True])
def test_an_acknowledgement_that_comes_once_more_sets_no_watermark_back(
    make: Make, link: Link, keys: ShardKeys, sequence: bool
) -> None:
    """It was long on its way, was repeated, and the next message was acknowledged under the same lease."""
    seq = make(sequence=sequence)
    seq.append_many([{"body": None, "group": "g", "score": score} for score in (1, 2, 3)])
    limits = ClaimLimits(1, 2, 10**6)
    (held,) = link.run_one(calls.claim(keys, "jobs", "c", 60, limits)).groups
    acks = [
        calls.Ack("g", held.token, [member], False, f"#{number}" if sequence else f"{number}.0")
        for number, member in enumerate(held.members, 1)
    ]
    for ack in (*acks, acks[0], acks[1], acks[0]):
        assert not link.run_one(calls.ack(keys, [ack])).refused
    key = keys.sequences if sequence else keys.watermarks
    assert link.command("HGET", key, "g") == (b"#2" if sequence else b"2.0")


@pytest.mark.parametrize("parser", ["driver's own choice", "python"])
def test_a_connection_that_is_lost_before_its_answer_is_told_of_as_such(
    seq: Sequencer, link: Link, keys: ShardKeys, parser: str
) -> None:
    """Whatever parser the driver has: the one in Python has nothing left to read with after an error."""

    def make(inner: Any) -> Any:
        if parser == "python":
            parser_class: Any = _RESP2Parser  # redis-py types no parser
            inner._parser = parser_class(socket_read_size=65536)
        return inner

    mine = Link(wired(seq.endpoint, make))
    number = mine.command("CLIENT", "ID")
    mine.post([], behind=("BLPOP", keys.dispatch, "20"))
    assert not mine.is_answered(0)
    link.command("CLIENT", "KILL", "ID", number)
    wait_until(lambda: mine.is_answered(0))
    with pytest.raises(ServerUnavailable):
        mine.collect([])
    assert mine.command("PING") == b"PONG"
    mine.close()

"""Pausing a group or a queue: from the next claim on, seen in the views."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import sequencer
from sequencer import Message, Sequencer
from sequencer.net.link import Link
from sequencer.testing import wait_until
from tests.support.handling import Make, ack_each, drain, fail

from ..support.background import Background


def test_a_paused_group_waits_and_the_others_do_not(make: Make) -> None:
    seq = make(shards=2)
    for n in range(3):
        for group in ("a", "b", "c"):
            seq.append(f"{group}{n}", group=group)
    assert seq.pause("b") is True
    assert seq.pause("b") is False
    assert sorted(drain(seq)) == ["a0", "a1", "a2", "c0", "c1", "c2"]
    info = seq.info()
    assert (info.paused, info.parked, info.backlog, info.is_paused) == (1, 0, 3, False)
    assert [one.group for one in seq.groups("paused")] == seq.paused_groups() == [("b",)]
    assert seq.explain("b").reason == "paused"
    seq.append("b3", group="b")
    assert drain(seq) == [], "an append does not wake it"
    assert seq.unpause("b") is True
    assert seq.unpause("b") is False
    assert drain(seq) == ["b0", "b1", "b2", "b3"]


def test_a_group_may_be_paused_before_it_has_messages(seq: Sequencer) -> None:
    seq.pause("g")
    seq.append(1, group="g")
    assert drain(seq) == []
    seq.unpause("g")
    assert drain(seq) == [1]


def test_what_runs_is_finished(seq: Sequencer) -> None:
    for n in range(3):
        seq.append(n, group="g")
    with seq.claim(messages=2) as lease:
        seq.pause("g")
        explained = seq.explain("g")
        assert (explained.reason, explained.fields["is_paused"]) == ("leased", True)
        assert ack_each(lease) == [0, 1]
    assert drain(seq) == []
    seq.unpause("g")
    assert drain(seq) == [2]


@pytest.mark.parametrize("state", ["backing off", "parked", "delayed"])
def test_a_pause_keeps_what_the_group_waited_for(make: Make, state: str) -> None:
    seq = make(max_attempts=1 if state == "parked" else 5, backoff=0.05)
    seq.append(1, group="g", delay=0.2 if state == "delayed" else None)

    def fail(_: Message) -> None:
        raise ValueError

    if state != "delayed":
        seq.consume(fail, max_messages=1)
    seq.pause("g")
    assert drain(seq) == []
    wait_until(lambda: seq.info().paused or state == "parked", what="the pause to be met")
    seq.unpause("g")
    assert drain(seq) == ([] if state == "parked" else [1])
    assert seq.snapshot().parked == (state == "parked")


def test_a_paused_queue_stands_still(make: Make) -> None:
    seq = make(shards=3)
    seq.connect()
    seen: list[Any] = []
    with Background(make(), lambda message: seen.append(message.body)):
        seq.append(0, group=0)
        wait_until(lambda: seen == [0] and not seq.info().backlog)
        assert seq.pause() is True
        assert seq.pause() is False
        for n in range(1, 10):
            seq.append(n, group=n)
        info = seq.info()
        assert (info.is_paused, info.due, info.backlog) == (True, 9, 9)
        assert seq.explain(3).reason == "queue paused"
        assert not seq.claim()
        assert drain(make()) == [], "and a consumer that is to end when nothing is left ends"
        assert seen == [0]
        assert seq.unpause() is True
        wait_until(lambda: sorted(seen) == list(range(10)))


def test_a_pause_shows_before_any_claim_met_it(make: Make) -> None:
    seq = make(max_attempts=1)
    for group in ("due", "delayed", "parked", "held", "free"):
        seq.append(group, group=group, delay=50 if group == "delayed" else None)

    def fail(message: Message) -> None:
        if message.body == "parked":
            raise ValueError

    seq.pause("due")
    with Background(seq, fail):
        wait_until(lambda: seq.parked() and seq.info().totals.get("handled") == 2)
    seq.append("free", group="free", delay=50)
    seq.append("held", group="held")
    with seq.claim(groups=1) as lease:
        assert [message.body for message in lease] == ["held"]
        for group in ("delayed", "parked", "held"):
            seq.pause(group)
        info = seq.info()
        assert (info.paused, info.due, info.leased, info.waiting, info.parked) == (3, 0, 1, 1, 0)
        states = {one.group[0]: one.state for one in seq.groups()}
        paused = dict.fromkeys(("due", "delayed", "parked"), "paused")
        assert states == {**paused, "held": "leased", "free": "waiting"}
        assert sorted(one.group[0] for one in seq.groups("paused")) == ["delayed", "due", "parked"]
        assert [one.group[0] for one in seq.groups("waiting")] == ["free"]


def test_a_look_is_exact_and_asks_for_no_paused_group_by_name(seq: Sequencer, link: Link) -> None:
    """Else a queue with 10,000 paused groups costs its master a second of each."""
    for n in range(200):
        seq.append(n, group=f"g{n}")
        seq.pause(f"g{n}")
    seq.append(1, group="free")
    assert (seq.snapshot().due, seq.info().due, seq.info().paused) == (1, 1, 200), "no claim has put them aside"
    assert drain(seq) == [1]
    link.command("CONFIG", "RESETSTAT")
    assert (seq.snapshot().due, seq.info().paused) == (0, 200)
    asked = {one.partition(":")[0] for one in link.command("INFO", "commandstats").decode().splitlines()}
    assert not {f"cmdstat_{name}" for name in ("smembers", "zinter", "zmscore")} & asked


def test_a_pause_passes_through_few_files(seq: Sequencer) -> None:
    """A budget: whoever follows one call of a connected client opens few files."""
    package = str(Path(sequencer.__file__).parent)
    pauses: dict[int, Callable[[], object]] = {9: seq.pause, 10: lambda: seq.pause(["g", "1"])}
    for most, pause in pauses.items():
        pause()  # connects
        files = set[str]()

        def entered(frame: FrameType, event: str, _: Any, files: set[str] = files) -> None:
            if frame.f_code.co_filename.startswith(package):
                files.add(frame.f_code.co_filename)

        sys.setprofile(entered)
        try:
            pause()
        finally:
            sys.setprofile(None)
        assert 5 <= len(files) <= most, sorted(files)


def test_explain_says_what_a_paused_group_waits_for_besides(make: Make) -> None:
    seq = make(max_attempts=1)
    seq.append(1, group="g", id="x")
    seq.consume(fail, max_messages=1)
    seq.pause("g")
    seq.pause("nobody")
    for group, then in (("g", "parked"), ("nobody", "nothing")):
        explained = seq.explain(group)
        assert (explained.reason, explained.then and explained.then.reason) == ("paused", then)
    seq.unpause("g")
    seq.pause()
    explained = seq.explain("g")
    assert (explained.reason, explained.then and explained.then.reason) == ("queue paused", "parked")

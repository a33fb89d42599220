"""Steps that a handler makes as it goes, on a real server, with the threads of a real consumer."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from sequencer import Sequencer
from sequencer.net.link import Link

from .test_steps import Make, consuming, counted, ledger_of, spied


def test_an_inline_step_is_noted_before_the_next_one_begins(make: Make, seq: Sequencer) -> None:
    client, sent = spied(make, seq)
    seq.append(1, group="g", id="m")

    def ship(message: Any, steps: Any) -> None:
        for name in "abc":
            steps.run(name, int)

    client.consume(ship, until_empty=True)
    assert counted(sent)["note"] == 2
    assert seq.info().backlog == 0


@pytest.mark.parametrize("how", ["stop", "interrupt"])
def test_a_stop_ends_an_inline_handler_between_two_steps(make: Make, seq: Sequencer, link: Link, how: str) -> None:
    consumers, on_start = consuming(seq)
    ran: list[str] = []

    def stopping() -> None:
        ran.append("b")
        getattr(consumers[-1], how)()

    def ship(message: Any, steps: Any) -> None:
        steps.run("a", ran.append, "a", once=True)
        try:
            steps.run("b", stopping)
            ran.append("not reached" if how == "interrupt" else "code")
        finally:
            steps.run("c", ran.append, "c")

    seq.append(1, group="g", id="m")
    assert seq.consume(ship, on_start=on_start).reason == "stopped"
    assert ran == (["a", "b", "code"] if how == "stop" else ["a", "b"])
    states = {entry.name: entry.state for entry in ledger_of(link, seq).entries}
    assert states == {"a": "done", "b": "done" if how == "stop" else "open"}


def test_the_time_limit_begins_anew_behind_each_inline_step(seq: Sequencer) -> None:
    pause = threading.Event()
    ran: list[str] = []

    def ship(message: Any, steps: Any) -> None:
        for name in "abc":
            steps.run(name, pause.wait, 0.3)
            ran.append(name)
        pause.wait(30)

    seq.append(1, group="g", id="m")
    seq.consume(ship, until_empty=True, handler_timeout=0.5, max_messages=1)
    assert ran == ["a", "b", "c"]
    (failed,) = [one.failure for one in seq.groups() if one.failure]
    assert failed.type == "HandlerTimeout"

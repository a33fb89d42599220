"""Steps on a real server, with the threads of a real consumer: round trips, lost answers, stops, time."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from sequencer import Sequencer
from sequencer.consume.threads import Consumer
from sequencer.net.link import Link
from sequencer.store.keys import shard_keys
from sequencer.store.ledger import Ledger, decode_ledger
from sequencer.store.record import decode_head
from sequencer.testing.wire import Wire, name_of, wired
from tests.support.handling import Make
from tests.support.proxy.fault_proxy import FaultProxy


class Spy(Wire):
    """Notes the scripts that are sent, with their sizes."""

    def __init__(self, inner: Any, sent: list[tuple[str, int]]) -> None:
        super().__init__(inner)
        self._sent = sent

    def sending(self, commands: list[Any]) -> list[Any]:
        for words in commands:
            if (name := name_of(words)).islower():
                size = sum(len(word if isinstance(word, bytes) else str(word).encode()) for word in words)
                self._sent.append((name, size))
        return commands


def spied(make: Make, seq: Sequencer) -> tuple[Sequencer, list[tuple[str, int]]]:
    sent: list[tuple[str, int]] = []
    return make(redis=wired(seq.endpoint, lambda inner: Spy(inner, sent)), backoff=0.01), sent


def declare(seq: Sequencer, *names: str, **options: Any) -> list[str]:
    """Steps that note their names when they run; `once_` before a name makes it `once`."""
    ran: list[str] = []
    for order, name in enumerate(names):
        once = name.startswith("once_")
        seq.step(name=name, order=order, once=once, **options)(lambda message, call: ran.append(call.name))
    return ran


def ledger_of(link: Link, seq: Sequencer, group: str = "g", id: str = "m") -> Ledger:
    key = f"{shard_keys(seq.options.namespace, seq.queue, 0).prefix}body:{group}"
    written = decode_head(link.command("HGET", key, id)).written
    assert written is not None
    return decode_ledger(written.ledger)


# -- round trips -----------------------------------------------------------------------------------------------------


def counted(sent: list[tuple[str, int]]) -> Counter[str]:
    return Counter(name for name, _ in sent if name in ("claim", "ack", "nack", "save_step", "renew"))


@pytest.mark.parametrize(
    ("steps", "notes"),
    [(("a",), 0), (("a", "b", "c"), 2), (("once_a",), 2), (("a", "once_b", "c"), 2), (("once_a", "once_b"), 3)],
)
def test_notes_of_a_message(make: Make, seq: Sequencer, steps: tuple[str, ...], notes: int) -> None:
    """n automatic steps: n-1 waited notes; a `once` start shares the note of the step before it."""
    client, sent = spied(make, seq)
    ran = declare(client, *steps)
    seq.append(1, group="g", id="m")
    client.consume(until_empty=True)
    assert ran == list(steps)
    assert counted(sent)["save_step"] == notes


def test_one_automatic_step_sends_what_a_plain_handler_sends(make: Make, seq: Sequencer) -> None:
    def batch(client: Sequencer, handler: Any) -> None:
        seq.append_many({"body": n, "group": n % 5} for n in range(50))
        client.consume(handler, until_empty=True)
        client.close()

    plain, sent_by_plain = spied(make, seq)
    batch(plain, lambda message: None)
    stepped, sent_by_steps = spied(make, seq)
    declare(stepped, "a")
    batch(stepped, None)
    assert counted(sent_by_plain).keys() == counted(sent_by_steps).keys() == {"claim", "ack"}
    sizes = [{size for name, size in sent if name == "claim"} for sent in (sent_by_plain, sent_by_steps)]
    assert sizes[0] == sizes[1], "a claim of a plain consumer is no longer than one of a consumer with steps"


def test_the_next_message_begins_behind_the_acknowledgement_of_the_one_before(make: Make, seq: Sequencer) -> None:
    """A `once` start is noted behind it: so never a step of a message behind one that may come again."""
    there: list[list[str]] = []

    @seq.step(once=True)
    def charge(message: Any) -> None:
        there.append([one.id for one in seq.peek("g")])

    for n in range(4):
        seq.append(n, group="g", id=f"m{n}")
    seq.consume(until_empty=True)
    assert there == [["m0", "m1", "m2", "m3"], ["m1", "m2", "m3"], ["m2", "m3"], ["m3"]]


# -- what the network does ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", ["reply lost", "request reset", "request repeated"])
def test_a_lost_answer_to_a_note_repeats_no_step(make: Make, proxy: FaultProxy, seq: Sequencer, shape: str) -> None:
    client = make(redis=proxy.url, backoff=0.01)
    ran: list[str] = []

    def step(message: Any, call: Any) -> None:
        ran.append(call.name)
        if call.name != "c":
            proxy.add(shape, on=("save_step",))

    for order, name in enumerate("abc"):
        client.step(name=name, order=order, once=name == "b")(step)
    seq.append(1, group="g", id="m")
    client.consume(until_empty=True)
    assert ran == ["a", "b", "c"]
    assert seq.info().backlog == 0


@pytest.mark.parametrize("error", ["error NOSCRIPT", "error BUSY"])
def test_an_acknowledgement_that_is_refused_alone_lets_no_note_go_first(
    make: Make, proxy: FaultProxy, seq: Sequencer, error: str
) -> None:
    client = make(redis=proxy.url, backoff=0.01)
    ran = declare(client, "once_a", "b")
    seq.append_many({"body": n, "group": "g", "id": f"m{n}"} for n in range(3))
    proxy.add(error, on=("ack",))
    client.consume(until_empty=True)
    assert ran == ["once_a", "b"] * 3
    assert seq.info().backlog == 0


# -- stops -----------------------------------------------------------------------------------------------------------


def consuming(seq: Sequencer) -> tuple[list[Consumer], Callable[[Consumer], None]]:
    got: list[Consumer] = []
    return got, got.append


@pytest.mark.parametrize("first", ["a", "once_a"])
def test_a_stop_comes_between_two_steps_and_what_is_done_stays_done(
    make: Make, seq: Sequencer, link: Link, first: str
) -> None:
    consumers, on_start = consuming(seq)
    ran: list[str] = []

    def step(message: Any, call: Any) -> None:
        ran.append(call.name)
        consumers[-1].stop()

    for order, name in enumerate((first, "once_b", "c")):
        seq.step(name=name, order=order, once=name.startswith("once"))(step)
    seq.append(1, group="g", id="m")
    for count in (1, 2, 3):
        assert seq.consume(on_start=on_start).reason == "stopped"
        assert ran == [first, "once_b", "c"][:count]
        if count < 3:
            states = [entry.state for entry in ledger_of(link, seq).entries]
            assert states == ["done"] * count + ["open"] * (3 - count), "no start is noted that no call follows"
    assert seq.info().backlog == 0


def test_an_interruption_ends_a_step_and_a_once_step_is_a_question_then(make: Make, seq: Sequencer) -> None:
    consumers, on_start = consuming(seq)
    ran: list[str] = []

    def step(message: Any, call: Any) -> None:
        ran.append(call.name)
        if call.name == "once_b":
            consumers[0].interrupt()
            ran.append("not reached")

    for order, name in enumerate(("a", "once_b")):
        seq.step(name=name, order=order, once=name.startswith("once"))(step)
    seq.append(1, group="g", id="m")
    assert seq.consume(on_start=on_start).reason == "stopped"
    seq.consume(until_empty=True)
    assert ran == ["a", "once_b"]
    (parked,) = seq.parked()
    assert parked.failure is not None
    assert parked.failure.type == "StepUnknown"


def test_an_interruption_that_comes_in_a_note_cuts_no_note(
    make: Make, seq: Sequencer, link: Link, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its start is in the server: so the step is called, or a person would be asked about nothing."""
    consumers, on_start = consuming(seq)
    ran = declare(seq, "once_a", "b")
    original = Link.run

    def run(link: Any, calls: Any, **options: Any) -> Any:
        if any(call.script == "save_step" for call in calls) and not ran:
            consumers[0].interrupt()
        return original(link, calls, **options)

    monkeypatch.setattr(Link, "run", run)
    seq.append(1, group="g", id="m")
    assert seq.consume(on_start=on_start).reason == "stopped"
    assert ran == ["once_a"]
    assert [entry.state for entry in ledger_of(link, seq).entries] == ["done", "open"]


# -- steps that a handler makes as it goes ---------------------------------------------------------------------------


def test_an_inline_step_is_noted_before_the_next_one_begins(make: Make, seq: Sequencer) -> None:
    client, sent = spied(make, seq)
    seq.append(1, group="g", id="m")

    def ship(message: Any, steps: Any) -> None:
        for name in "abc":
            steps.run(name, int)

    client.consume(ship, until_empty=True)
    assert counted(sent)["save_step"] == 2
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


def test_leases_are_renewed_while_steps_run(seq: Sequencer) -> None:
    ran: Counter[str] = Counter()
    pause = threading.Event()

    def step(message: Any, call: Any) -> None:
        ran[call.name] += 1
        pause.wait(0.7)

    for order, name in enumerate("ab"):
        seq.step(name=name, order=order)(step)
    seq.append(1, group="g", id="m")
    seq.consume(until_empty=True, lease=0.5)
    assert ran == {"a": 1, "b": 1}


@pytest.mark.parametrize("is_inline", [False, True])
def test_time_in_steps_is_time_in_handlers(seq: Sequencer, is_inline: bool) -> None:
    """`run --status` and the scaler know by that how busy a consumer is."""
    taken: list[float] = []

    def step(*_: Any) -> None:
        began = time.monotonic()
        threading.Event().wait(0.05)
        taken.append(time.monotonic() - began)

    def handler(message: Any, steps: Any) -> None:
        for name in ("a", "b"):
            step()
            steps.run(name, step)

    if is_inline:
        seq.handler(handler)
    else:
        for name in ("a", "b"):
            seq.step(name=name)(step)
    seq.append(1, group="g")
    seq.append(2, group="h")
    consumers: list[Consumer] = []
    began = time.monotonic()
    seq.consume(until_empty=True, on_start=consumers.append)
    assert sum(taken) <= consumers[0].handlers_s <= time.monotonic() - began


def test_a_message_that_is_gone_ends_its_pass(
    make: Make, seq: Sequencer, link: Link, caplog: pytest.LogCaptureFixture
) -> None:
    ran: list[str] = []
    keys = shard_keys(seq.options.namespace, "jobs", 0)

    def step(message: Any, call: Any) -> str:
        ran.append(f"{message.id} {call.name}")
        if message.id == "m0":  # by hand: cancel and replace refuse a message that is in progress
            link.command("HDEL", f"{keys.prefix}body:g", "m0")
            link.command("ZREM", f"{keys.prefix}order:g", f"{message.stamp:016d}m0")
        return "paid"

    for order, name in enumerate("ab"):
        seq.step(name=name, order=order)(step)
    for n in range(2):
        seq.append(n, group="g", id=f"m{n}")
    seq.consume(until_empty=True)
    assert ran == ["m0 a", "m1 a", "m1 b"]
    (gone,) = [record.getMessage() for record in caplog.records if "message removed" in record.getMessage()]
    assert '"a","a","d",1,1,1,0' in gone
    assert '"paid"' in gone

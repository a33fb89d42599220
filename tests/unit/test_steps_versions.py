"""Kinds of messages, and two versions of a program at one queue, in a MemoryQueue."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sequencer.drain.steps.declared import Steps
from sequencer.errors import StepMissing, StopConsuming
from sequencer.store.record import FLAG_AT, decode_head
from sequencer.testing import MemoryQueue

# -- kinds, and other versions ---------------------------------------------------------------------------------------


def events(**settings: Any) -> tuple[MemoryQueue, list[str]]:
    seq, ran = MemoryQueue("events", group_by=["order"], id_by="id", kind_by="meta.code", **settings), []
    for kind, name, order in (("paid", "points", 5), ("paid", "invoice", 1), ("sent", "mail", 1)):
        seq.step(kind, name=name, order=order)(lambda message, call: ran.append(call.name))
    return seq, ran


def test_a_message_has_the_steps_of_its_kind() -> None:
    seq, ran = events()
    seq.append({"order": 7, "id": "e1", "meta": {"code": "paid"}})
    seq.append({"order": 7, "id": "e2", "meta": {"code": "sent"}})
    assert len(seq.drain()) == 2
    assert ran == ["invoice", "points", "mail"]


@pytest.mark.parametrize(("on_unknown", "parked", "dead"), [("park", 1, 0), ("dead_letter", 0, 1), ("drop", 0, 0)])
@pytest.mark.parametrize("meta", [{"code": "refund"}, {"code": True}, {}, None])
def test_an_unknown_kind_waits_for_another_version_and_then_ends(
    on_unknown: Any, parked: int, dead: int, meta: Any
) -> None:
    seq, ran = events(on_unknown=on_unknown, missing_wait=120)
    seq.append({"order": 7, "id": "e1", "meta": meta})
    done = seq.drain()
    assert ran == []
    assert 120 <= done.elapsed_s < 121
    assert (len(done.parked), len(done.dead)) == (parked, dead)
    assert [type(error) for _, error in done.failed] == [StepMissing]
    assert not done.handled


def test_that_it_waits_is_told_once_after_30_s(caplog: pytest.LogCaptureFixture) -> None:
    seq, _ = events(missing_wait=300)
    seq.append({"order": 7, "id": "e1", "meta": {"code": "refund"}})
    seq.drain()
    said = [record.getMessage() for record in caplog.records]
    assert [line.partition(": group=")[0] for line in said] == ["events: step missing", "events: group parked"]
    assert "no step is declared for kind 'refund'; this version has paid, sent" in said[0]


def second_version(seq: MemoryQueue, *names: str, **options: Any) -> Any:
    """Another version of the program, with these steps and options."""
    seq._steps, seq.options = Steps(), replace(seq.options, **options)
    for name in names:
        seq.step(name=name)(lambda message: None)
    return seq


def half_done() -> Any:
    """A message whose step points has failed, and charge is done."""
    seq = MemoryQueue("gifts", max_attempts=3)
    seq.step(name="charge")(lambda message: "paid")

    @seq.step(order=2)
    def points(message: Any) -> None:
        raise StopConsuming

    @seq.step(order=3)
    def mail(message: Any) -> None: ...

    seq.append({}, "ann", id="g7")
    seq.drain()
    return seq


def test_a_version_that_lacks_a_step_which_is_not_done_does_not_acknowledge() -> None:
    first = half_done()
    second = second_version(first, "charge", "points", missing_wait_s=60)
    done = second.drain()
    assert [type(error) for _, error in done.failed] == [StepMissing]
    assert "step mail of another version is not done" in done.parked[0].failure.message


def test_a_plain_handler_is_such_a_version() -> None:
    first = half_done()
    second = second_version(first, missing_wait_s=60)
    handled: list[Any] = []
    done = second.drain(handled.append)
    assert handled == []
    assert [type(error) for _, error in done.failed] == [StepMissing]


def test_a_loop_of_your_own_is_one_too() -> None:
    seq = half_done()
    with seq.claim() as lease:
        assert list(lease) == []
    (info,) = seq.groups()
    assert (info.state, info.failure and info.failure.type) == ("waiting", "StepMissing")


def test_more_steps_of_all_versions_than_a_ledger_takes_park_their_message() -> None:
    seq, ran = MemoryQueue("gifts"), list[str]()
    for number in range(64):

        def step(message: Any, call: Any) -> None:
            ran.append(call.name)
            if call.name == "s1":
                raise StopConsuming

        seq.step(name=f"s{number}")(step)
    seq.append({}, "ann", id="g7")
    seq.drain()
    second = second_version(seq, "s64", missing_wait_s=0)
    (parked,) = second.drain().parked
    assert "this version and those before it have 65 steps, at most 64" in parked.failure.message
    assert ran == ["s0", "s1"]


def test_what_is_retired_is_not_missed() -> None:
    first = half_done()
    second = second_version(first, "charge", "points", retired=("mail",))
    assert len(second.drain().handled) == 1


@pytest.mark.parametrize(
    ("ledger", "said"),
    [
        (b'{"v":2,"k":1,"s":[]}', "the ledger was written by a newer version"),
        (b'{"v":1,"k":1', "the ledger is unreadable"),
        (b'{"v":1,"k":1,"s":[["charge","a","s",0,1,0,1.0,0.0]]}', "nothing can be done for charge in this version"),
    ],
)
def test_a_ledger_that_no_client_of_this_version_wrote_parks(ledger: bytes, said: str) -> None:
    seq = half_done()
    with seq._net.link() as link:
        key = "{sequencer:gifts:0}:body:ann"
        record = link.command("HGET", key, "g7")
        size = decode_head(record).size
        text = b"0%04x%06x" % (9, len(ledger)) + ledger
        link.command("HSET", key, "g7", record[: FLAG_AT + 1] + text + record[size:])
    done = second_version(seq, "charge", "points", "mail").drain()
    assert said in done.parked[0].failure.message

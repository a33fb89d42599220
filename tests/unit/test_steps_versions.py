"""Kinds of messages, and two versions of a program at one queue, in a MemoryQueue."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sequencer.drain.steps.declared import Steps
from sequencer.errors import StepFailed, StepMissing, StopConsuming
from sequencer.store.ledger import LedgerError
from sequencer.store.record import FLAG_AT, decode_head
from sequencer.testing import MemoryQueue


def events(**settings: Any) -> tuple[MemoryQueue, list[str]]:
    seq, ran = MemoryQueue("events", group_by=["order"], id_by="id", kind_by="meta.code", **settings), []
    for kind, name, order in (("paid", "points", 5), ("paid", "invoice", 1), ("sent", "mail", 1)):
        seq.step(kind, name=name, order=order)(lambda message, call: ran.append(call.name))
    return seq, ran


@pytest.mark.slow
@pytest.mark.parametrize(("on_unknown", "parked", "dead"), [("park", 1, 0), ("dead_letter", 0, 1), ("drop", 0, 0)])
@pytest.mark.parametrize("meta", [{"code": "refund"}, {"code": True}, None])
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


@pytest.mark.parametrize("names", [("charge", "points"), ()])
def test_a_version_that_lacks_a_step_which_is_not_done_does_not_acknowledge(names: tuple[str, ...]) -> None:
    """Also one with a plain handler, or a loop of its own."""
    second, handled = second_version(half_done(), *names, missing_wait_s=60), list[Any]()
    if not names:
        with second.claim() as lease:
            assert list(lease) == []
        assert second.groups()[0].failure.type == "StepMissing"
    done = second.drain(*[] if names else [handled.append])
    assert (handled, done.handled) == ([], [])
    assert {type(error) for _, error in done.failed} == {StepMissing}
    assert done.parked


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
    assert second.drain().parked
    assert ran == ["s0", "s1"]


@pytest.mark.parametrize(
    ("ledger", "error"),
    [
        (b'{"k":1', LedgerError("ledger_damaged")),
        (b'{"k":1,"s":[["charge","a","s",0,0,1,0,1.0,0.0]]}', StepFailed(steps={"charge": ""})),
    ],
)
def test_a_ledger_that_no_client_of_this_version_wrote_parks(ledger: bytes, error: Exception) -> None:
    seq = half_done()
    with seq._net.link() as link:
        key = "{sequencer:gifts:0}:body:ann"
        record = link.command("HGET", key, "g7")
        size = decode_head(record).size
        text = b"0%04x%06x" % (9, len(ledger)) + ledger
        link.command("HSET", key, "g7", record[: FLAG_AT + 1] + text + record[size:])
    done = second_version(seq, "charge", "points", "mail").drain()
    assert done.parked[0].failure.message == str(error)


def inline_version(seq: MemoryQueue, *names: str, **options: Any) -> list[str]:
    """Another version of the program, whose handler runs these steps."""
    ran: list[str] = []
    seq._steps, seq.options = Steps(), replace(seq.options, **options)

    @seq.handler
    def handle(message: Any, steps: Any) -> None:
        for name in names:
            steps.run(name, ran.append, name)

    return ran


def test_a_handler_that_does_not_run_what_was_declared_does_not_acknowledge() -> None:
    """Its own step is done, and stays so while the message waits for the other version."""
    seq = half_done()
    ran = inline_version(seq, "charge", "label", missing_wait_s=60)
    done = seq.drain()
    assert ran == ["label"], "charge is done"
    assert [type(error) for _, error in done.failed] == [StepMissing]
    seq.resume("ann")
    ran = inline_version(seq, "label", "points", "mail")
    assert len(seq.drain().handled) == 1
    assert ran == ["points", "mail"]


def test_what_a_handler_ran_and_runs_no_more_is_not_missed(caplog: pytest.LogCaptureFixture) -> None:
    """The code is the order: it may take another branch when it is retried."""
    seq, attempts = MemoryQueue("gifts", max_attempts=3), list[int]()

    @seq.handler
    def handle(message: Any, steps: Any) -> None:
        attempts.append(1)
        steps.run("old" if len(attempts) == 1 else "new", lambda: 1 / (len(attempts) - 1))

    seq.append({}, "ann", id="g7")
    assert len(seq.drain().handled) == 1
    (told,) = [vars(one) for one in caplog.records if vars(one).get("event") == "finished with failures"]
    assert [*told["steps"]] == ["old"]


def test_a_required_step_behind_one_that_was_given_up_says_what_it_waits_for() -> None:
    seq = MemoryQueue("gifts", max_attempts=1)
    seq.step(name="mail", order=2, optional=True)(lambda message: 1 / 0)
    seq.step(name="points", order=3)(lambda message: 1 / 0)
    seq.append({}, "ann", id="g7")
    seq.drain()
    second = second_version(seq)
    second.step(name="mail")(lambda message: None)
    second.step(name="points", order=2, after="mail")(lambda message: None)
    seq.resume("ann")
    assert seq.drain().parked
    seq.resume("ann", again=["mail"])
    assert len(seq.drain().handled) == 1

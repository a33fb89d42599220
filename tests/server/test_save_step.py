"""The ledger of a message on a real server: notes, nacks with one, and what claims hand out."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from sequencer.calls.claim import LeasedGroup
from sequencer.calls.operate import pause, resume, update
from sequencer.calls.settle import Nack, Nacked, SaveStep, nack, save_step
from sequencer.doctor.invariants import InvariantCheck
from sequencer.store.failure import decode_failure, encode_failure
from sequencer.store.keys import PAUSED
from sequencer.store.ledger import Entry, Ledger, Written, encode_ledger
from sequencer.store.record import decode_head
from sequencer.values.message import Failure

from ..support.invariants import check_invariants
from ..support.shard import Shard, item


def written(serial: int = 1, *entries: Entry) -> Written:
    ledger = Ledger(7, entries or (Entry("mail"),))
    return Written(encode_ledger(ledger), serial, ledger.has_effects)


def noted(
    shard: Shard, held: LeasedGroup, what: Written, at: int = 0, *, before: str = "", progressed: bool = False
) -> int:
    return shard.run(save_step(shard.keys, SaveStep(held.key, held.token, held.members[at], before, what, progressed)))


def record(shard: Shard, id: str = "a") -> bytes:
    kept: bytes = shard.link.command("HGET", shard.keys.body("g"), id)
    return kept


@pytest.fixture
def held(shard: Shard) -> LeasedGroup:
    shard.append(item("g", "a", body='"x"'), item("g", "b", "5.0"), item("g", "c", due="+0"))
    return shard.claim()["g"]


@pytest.mark.parametrize("is_paused", [False, True])
@pytest.mark.parametrize("way", ["drop", "dead", "cancel", "reschedule"])
def test_what_a_person_takes_from_a_lease_that_ran_out_ends_it(
    shard: Shard, held: LeasedGroup, way: Any, is_paused: bool
) -> None:
    """Nothing failed; who had it stands still, and is refused when it wakes. One that is valid is left alone."""
    id = held.messages[0].id
    failure = encode_failure(Failure(id, "LeaseExpired", "", "", 1, 1.0, "me"), held.members[0])

    def take() -> Any:
        if way in ("cancel", "reschedule"):
            score, due = ("", "") if way == "cancel" else ("due", "+5000000")
            return shard.run(update(shard.keys, "g", id, score, due))
        call = resume(shard.keys, "g", b"", held.members[0], ending=way, told=failure)
        return shard.run(call).status

    shard.run(pause(shard.keys, "g", True))
    assert take() == "leased"
    assert noted(shard, held, written()) == 1
    shard.later(60)
    if is_paused:
        assert not shard.claim()
        assert shard.visible("g") == PAUSED
    assert take() == ("resumed" if way in ("drop", "dead") else "done")
    assert shard.link.command("HLEN", shard.keys.leases) == 0
    assert noted(shard, held, written(2)) == 0
    assert shard.ack(held).refused, "it wakes"
    assert shard.link.command("ZCARD", shard.keys.order("g")) == (3 if way == "reschedule" else 2)


@pytest.mark.parametrize("ending", ["", "discard"])
def test_what_a_person_does_to_a_paused_group_ends_the_lease_that_ran_out(
    shard: Shard, held: LeasedGroup, ending: Any
) -> None:
    """Its holder stands still, and may believe that it holds it: without this its note was said to be written."""
    failure = encode_failure(Failure("a", "ValueError", "no", "", 1, 1.0, "me"), held.members[0])
    assert shard.nack(held, 0.0, failure=failure, written=written())
    held = shard.claim()["g"]
    shard.run(pause(shard.keys, "g", True))
    shard.later(60)
    assert not shard.claim()
    assert shard.visible("g") == PAUSED
    words = {"ending": ending} if ending else {"written": written(2, Entry("mail", state="done", who="ann"))}
    assert shard.run(resume(shard.keys, "g", failure, held.members[0], **words)).status == "resumed"
    assert noted(shard, held, written(2, Entry("mail", state="failed"))) == 0
    assert noted(shard, held, written(), 1) == 0, "nor of what it handles next"
    assert shard.visible("g") == PAUSED


def failing(shard: Shard, held: LeasedGroup, delay_s: float | None = 1.0, **words: Any) -> Nacked:
    failure = Failure(held.messages[0].id, "E", "no", "", 1, 1.0, "me")
    told = encode_failure(failure, held.members[0])
    words = {"written": written()} | words
    return shard.run(nack(shard.keys, Nack("g", held.token, held.members[0], 9, delay_s, told, **words)))


def test_how_often_a_message_was_given_back_is_kept_and_counts_for_it_alone(shard: Shard) -> None:
    shard.append(item("g", "b", "2.0"))
    began = shard.now
    for n in range(1, 4):
        (held,) = shard.claimed(with_failures=True).groups
        kept = decode_failure(held.failure)[0] if held.failure else Failure("", "", "", "", 0, 0, "")
        assert (kept.missing, round(kept.missing_since * 1e6)) == (n - 1, began if n > 1 else 0)
        assert failing(shard, held, 1.0, written=None, is_missing=True).is_valid
        shard.later(2)
    assert shard.total("failed") == 0
    shard.append(item("g", "a", "1.0"))  # another head
    (held,) = shard.claimed(with_failures=True).groups
    assert held.failure == b""
    failing(shard, held, 1.0, written=None, is_missing=True)
    shard.later(2)
    (held,) = shard.claimed(with_failures=True).groups
    assert decode_failure(held.failure)[0].missing == 1


LATE = b",1,%d,0.0" % (10**16 - 1)
SPOILT: dict[str, Callable[[bytes], bytes]] = {
    "says effects True, and its steps say False": lambda text: b"1" + text[1:],
    "has other digits before it": lambda text: text[:1] + b"zzzz" + text[5:],
    "can't be used: the ledger is damaged": lambda text: text.replace(b'"o"', b'"q"'),
    "names a lease ahead of the clock, in step mail": lambda text: re.sub(rb",1,[09],0.0", LATE, text),
}


@pytest.mark.parametrize("detail", SPOILT)
def test_doctor_tells_of_a_spoilt_ledger_and_leaves_it(shard: Shard, held: LeasedGroup, detail: str) -> None:
    assert noted(shard, held, written(), 1) == 1
    assert noted(shard, held, written(3, Entry("x", once=True, state="started", token=int(held.token))), 0) == 1
    assert check_invariants(shard.link, [shard.keys]) == []
    good, id = record(shard, held.messages[1].id), held.messages[1].id
    head = decode_head(good)
    assert head.written
    text = SPOILT[detail](head.written.text())
    if len(text) != len(head.written.text()):  # its length fits, so it is not that
        text = text[:5] + b"%06x" % (len(text) - 11) + text[11:]
    spoilt = good.replace(head.written.text(), text)
    assert spoilt != good
    shard.link.command("HSET", shard.keys.body("g"), id, spoilt)
    for repairs in (False, True):
        (found,) = InvariantCheck(shard.link, [shard.keys], repair=repairs).run()
        assert (found.code, found.fields["id"], found.repaired) == ("ledger broken", id, False)
        assert found.fields["detail"].startswith(detail)
    assert record(shard, id) == spoilt
    shard.link.command("HSET", shard.keys.body("g"), id, good[:26] + b"0fffff" + good[32:])  # longer than the record
    assert len(check_invariants(shard.link, [shard.keys])) == 1
    shard.link.command("HSET", shard.keys.body("g"), id, good)

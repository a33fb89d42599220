"""What people do to messages whose steps had effects: refused where these would be lost, and kept everywhere else."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from sequencer import Message, Sequencer, calls
from sequencer.calls.examine import repair
from sequencer.calls.settle import Nack, SaveStep, save_step
from sequencer.doctor.invariants import InvariantCheck
from sequencer.errors import AnswerRefused, BatchRefused, EffectsSaved, GroupBusy
from sequencer.net.link import Link
from sequencer.settings.options import ClaimLimits
from sequencer.store.failure import encode_failure
from sequencer.store.keys import ShardKeys
from sequencer.store.ledger import Entry, Ledger, Written, decode_ledger, encode_ledger
from sequencer.store.record import DeadLetterContent, decode_head
from sequencer.testing.wire import Wire, Words, name_of, wired
from sequencer.values.message import Failure

from ..support.invariants import check_invariants
from ..support.refused import refused

CHARGE = Entry("charge", once=True, state="failed", attempts=0, token=3)
LEDGER = Ledger(7, (CHARGE, Entry("points")))


@pytest.fixture
def seq(make: Callable[..., Sequencer]) -> Sequencer:
    return make(max_attempts=1)


def note(seq: Sequencer, keys: ShardKeys, link: Link, ledger: Ledger = LEDGER, *, release: bool = True) -> None:
    """The head of the only group that is due has this ledger."""
    (held,) = link.run_one(calls.claim(keys, "jobs", "me", 60.0, ClaimLimits(1, 1))).groups
    before = (held.ledgers and held.ledgers[0]) or Written(b"", 0, False)
    written = before.next(encode_ledger(ledger), has_effects=ledger.has_effects)
    assert link.run_one(save_step(keys, SaveStep(held.key, held.token, held.members[0], "", written, False))) == 1
    if release:
        link.run_one(calls.ack(keys, [calls.Ack(held.key, held.token, [], True)]))


def park(keys: ShardKeys, link: Link) -> None:
    """A consumer whose version has these steps gave the head of the only group up, for a reason of its own."""
    link.run_one(calls.wake(keys, "g"))
    (held,) = link.run_one(calls.claim(keys, "jobs", "me", 60.0, ClaimLimits(1, 1))).groups
    message, member = held.messages[0], held.members[0]
    failure = Failure(message.id, "ValueError", "no", "", 1, time.time(), "me")
    told = Nack(held.key, held.token, member, 1, None, encode_failure(failure, member), "park")
    assert link.run_one(calls.nack(keys, told)).is_valid


def kept_ledger(keys: ShardKeys, link: Link, id: str = "m1") -> Ledger | None:
    written = decode_head(link.command("HGET", keys.body("g"), id)).written
    return decode_ledger(written.ledger) if written else None


def test_a_message_with_effects_is_neither_cancelled_nor_replaced(seq: Sequencer, keys: ShardKeys, link: Link) -> None:
    seq.append(1, "g", id="m1", score=1)
    note(seq, keys, link)
    before = link.command("HGETALL", keys.body("g"))
    with refused(EffectsSaved, "cancel_refused", id="m1", group=("g",)):
        seq.cancel("g", "m1")
    with refused(EffectsSaved, "replace_refused", id="m1", group=("g",)):
        seq.append(2, "g", id="m1", score=1, replace=True)
    rows = [{"body": n, "group": "g", "id": f"m{n}", "score": n} for n in (1, 2)]
    with pytest.raises(BatchRefused) as caught:
        seq.append_many(rows, replace=True)
    assert caught.value.refused[0].error.code == "replace_refused"
    assert link.command("HGETALL", keys.body("g")) == before
    done = seq.append_many(rows, replace=True, on_refused="skip")
    assert (done.appended, [type(one.error) for one in done.refused]) == (1, [EffectsSaved])
    assert kept_ledger(keys, link) == LEDGER


def test_one_of_which_nothing_is_noted_is_cancelled_and_replaced(seq: Sequencer, keys: ShardKeys, link: Link) -> None:
    seq.append(1, "g", id="m1", score=1)
    note(seq, keys, link, Ledger(7, (Entry("mail", state="failed", attempts=1),)))
    seq.append(2, "g", id="m1", score=1, replace=True)
    assert kept_ledger(keys, link) is None, "a new message has no ledger of another"
    note(seq, keys, link, Ledger(7, (Entry("mail"),)))
    seq.cancel("g", "m1")
    assert seq.peek("g") == []


def test_a_skip_of_effects_asks_for_a_yes_and_what_was_skipped_comes_back_with_them(
    seq: Sequencer, keys: ShardKeys, link: Link
) -> None:
    seq.append(1, "g", id="m1")
    note(seq, keys, link)
    park(keys, link)
    before = seq.steps("g")
    with refused(EffectsSaved, "skip_refused"):
        seq.skip("g")
    assert kept_ledger(keys, link) == LEDGER
    skipped = seq.skip("g", yes=True)
    assert isinstance(skipped, Message)
    assert (skipped.body, skipped.steps) == (1, before)
    assert seq.unskip("g").body == 1
    assert kept_ledger(keys, link) == LEDGER
    park(keys, link)
    seq.skip("g", dead_letter=True)
    (letter,) = seq.dead()
    kept = DeadLetterContent.parse(link.command("HGET", keys.dead_letters, letter.letter))
    assert letter.steps == seq.steps("g", "m1")
    assert (letter.message.body, decode_head(kept.record).written) == (1, Written(encode_ledger(LEDGER), 1, True))
    assert seq.redrive("g").redriven == 1
    assert kept_ledger(keys, link) == LEDGER


def test_what_a_person_says_is_written_behind_the_failure_that_was_seen(
    seq: Sequencer, keys: ShardKeys, link: Link
) -> None:
    seq.append(1, "g", id="m1")
    note(seq, keys, link)
    park(keys, link)
    assert seq.resume("g", done={"charge": {"payment": "p9"}, "points": None}, by="me")
    found = kept_ledger(keys, link)
    assert found
    assert [(entry.state, entry.who, entry.result) for entry in found.entries] == [
        ("done", "me", {"payment": "p9"}),
        ("done", "me", None),
    ]
    head = decode_head(link.command("HGET", keys.body("g"), "m1"))
    assert (head.attempts, head.written and head.written.serial) == (0, 2)
    park(keys, link)
    seq.skip("g", dead_letter=True)
    with refused(AnswerRefused, "step_done", step="points", by="me"):
        seq.redrive(id="m1", done={"points": 1})
    assert seq.redrive(id="m1").redriven == 1
    assert kept_ledger(keys, link) == found


def test_an_answer_counts_for_a_group_that_is_due_by_now(seq: Sequencer, keys: ShardKeys, link: Link) -> None:
    """Its check failed, its backoff is over, and no consumer came yet."""
    seq.append(1, "g", id="m1")
    note(seq, keys, link)
    park(keys, link)
    link.command("ZADD", keys.schedule, 1, "g")
    assert not seq.resume("g")
    assert seq.resume("g", done={"charge": 1, "points": 2})
    found = kept_ledger(keys, link)
    assert found
    assert [entry.state for entry in found.entries] == ["done", "done"]


def test_an_answer_is_not_given_to_what_nobody_saw(
    seq: Sequencer, keys: ShardKeys, link: Link, make: Callable[..., Sequencer]
) -> None:
    """Between look and act of one person another one said "again", and the step failed anew: a question of its own."""
    seq.append(1, "g", id="m1")
    note(seq, keys, link)
    park(keys, link)

    class Meanwhile(Wire):
        def sending(self, commands: list[Words]) -> list[Words]:
            if name_of(commands[0]) == "resume" and anew:
                seq.resume("g", again=["charge"])
                note(seq, keys, link, anew.pop())
                park(keys, link)
            return commands

    anew = [Ledger(7, (replace(CHARGE, turn=2), Entry("points")))]
    other = make(redis=wired(seq.endpoint, Meanwhile))
    with pytest.raises(GroupBusy):
        other.resume("g", done={"charge": 1})
    found = kept_ledger(keys, link)
    assert found
    assert (found.entries[0].state, found.entries[0].turn) == ("failed", 2)


@pytest.mark.parametrize("delay", [0, 50])
def test_a_reschedule_keeps_the_stamp_of_the_keys_unless_the_message_was_in_nobodys_hand(
    seq: Sequencer, keys: ShardKeys, link: Link, delay: float
) -> None:
    stamp = seq.append(1, "g", id="m1", delay=delay or None).stamp
    assert stamp
    seq.reschedule("g", "m1", delay=40)
    seq.reschedule("g", "m1", delay=0)
    assert kept_ledger(keys, link) == (None if delay else Ledger(stamp))
    if delay:
        return
    note(seq, keys, link)
    seq.reschedule("g", "m1", delay=0)
    assert kept_ledger(keys, link) == LEDGER
    assert seq.peek("g")[0].body == 1


def test_doctor_reads_the_ledgers_of_dead_letters_and_of_what_was_skipped_last(
    seq: Sequencer, keys: ShardKeys, link: Link
) -> None:
    """Also behind letters that are large: of those a script reads 2 MB."""
    for n in range(4):
        seq.append("x" * 900_000, "g", id=f"m{n}", score=n)
        note(seq, keys, link)
        park(keys, link)
        seq.skip("g", dead_letter=True)
    seq.append(1, "g", id="m9")
    note(seq, keys, link)
    park(keys, link)
    seq.skip("g", yes=True)
    letters = sorted(letter.letter for letter in seq.dead())
    assert link.run_one(repair(keys, "", letters=letters)).looked_at == 3
    assert check_invariants(link, [keys]) == []
    (skipped,) = [name.decode() for name in link.command("HKEYS", keys.skipped)]
    for key, letter, id in ((keys.dead_letters, letters[3], "m3"), (keys.skipped, skipped, "m9")):
        kept = link.command("HGET", key, letter)
        link.command("HSET", key, letter, kept.replace(b'{"k":', b'{"z":'))
        for repairs in (False, True):
            (found,) = InvariantCheck(link, [keys], repair=repairs).run()
            assert (found.fields.get("group"), found.fields.get("id")) == (("g",), id)
            assert "can't be used: the ledger is damaged" in found.fields["detail"]
            assert not found.repaired
        link.command("HSET", key, letter, kept)


def test_steps_of_a_group_are_those_of_the_message_that_failed(seq: Sequencer, keys: ShardKeys, link: Link) -> None:
    seq.append(1, "g", id="m1", score=5)
    note(seq, keys, link)
    park(keys, link)
    seq.append(2, "g", id="late", score=1)
    seen = seq.steps("g")
    assert seen
    assert (seen.id, [step.name for step in seen.steps]) == ("m1", ["charge", "points"])
    seq.skip("g", yes=True)
    assert (seq.steps("g") or seen).id == "late"

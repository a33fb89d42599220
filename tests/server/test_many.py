"""Many groups at once on a real server: resumed, skipped, unpaused; what changed meanwhile is left alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sequencer import Message, Sequencer, calls
from sequencer.net.link import Link
from sequencer.store.keys import ShardKeys
from tests.support.handling import Make, consumed, drain
from tests.support.proxy.fault_proxy import FaultProxy

from ..support.changed_script import changed_script
from .test_lost_answers import losing


def before(monkeypatch: pytest.MonkeyPatch, name: str, act: Callable[[], Any]) -> None:
    """Do this once, between the next look and the call of this script that follows it."""
    original = getattr(calls, name)

    def make(*args: Any, **kwargs: Any) -> Any:
        monkeypatch.setattr(calls, name, original)
        act()
        return original(*args, **kwargs)

    monkeypatch.setattr(calls, name, make)


class Timeout(Exception):
    """Something that is over tomorrow."""


def fail(message: Message) -> None:
    raise (Timeout if message.body == "slow" else ValueError)(f"no {message.id}")


def park(seq: Sequencer, count: int = 10) -> None:
    """So many groups, each of two messages, parked on the first; every third by a Timeout."""
    for n in range(count):
        body = "slow" if n % 3 == 0 else "bad"
        seq.append_many({"body": body, "group": ["g", n], "id": f"m{k}", "score": k} for k in range(2))
    seq.consume(fail, until_empty=True)
    assert seq.snapshot().parked == count


def names(seq: Sequencer) -> list[str]:
    return sorted(info.group[1] for info in seq.parked())


@pytest.mark.parametrize("shards", [1, 3])
def test_all_parked_groups_go_on(make: Make, shards: int) -> None:
    seq = make(max_attempts=1, shards=shards)
    park(seq, 130)
    asked = seq.resume_many(everything=True, dry_run=True)
    assert (asked.chosen, asked.done, asked.errors) == (130, 0, {"ValueError": 86, "Timeout": 44})
    assert seq.snapshot().parked == 130
    done = seq.resume_many(everything=True)
    assert (done.done, done.changed, done.errors) == (130, 0, asked.errors)
    assert not seq.parked()
    assert [message.attempt for message in consumed(seq)] == [1] * 260, "with fresh attempts"
    assert seq.resume_many(everything=True).chosen == 0, "a rerun has nothing left to do"


def fails_again(seq: Sequencer, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int, list[str]]:
    """Between the look of a resume_many and its act, one group goes on and fails anew, and one is resumed: how many
    were resumed and left alone, and who is parked then.
    """
    park(seq, 5)

    def act() -> None:
        assert seq.resume(["g", 1]) is True
        seq.consume(fail, until_empty=True)
        assert seq.resume(["g", 3]) is True

    before(monkeypatch, "resume_many", act)
    done = seq.resume_many(everything=True)
    return done.done, done.changed, names(seq)


def test_a_fresh_failure_between_look_and_act_is_left_alone(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    seq = make(max_attempts=1)
    assert fails_again(seq, monkeypatch) == (3, 2, ["1"])
    assert seq.explain(["g", 1]).reason == "parked"


def test_a_control_that_compares_no_hash_is_noticed(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    with changed_script("resume", "found ~= digest", "false"):
        assert fails_again(make(max_attempts=1), monkeypatch) == (4, 1, [])


def test_a_run_ends_though_everything_fails_again_at_once(make: Make) -> None:
    seq = make(max_attempts=1)
    park(seq, 30)
    again: list[int] = []

    def told(done: int, total: int) -> None:
        again.append(seq.consume(fail, until_empty=True).failed)

    done = seq.resume_many(everything=True, rate=50, on_progress=told)
    assert (done.done, sum(again), seq.snapshot().parked) == (30, 30, 30)


def test_groups_at_a_gap_are_counted_and_left(make: Make) -> None:
    seq = make(sequence=True, gap_timeout=0.01, max_attempts=1)
    seq.append(1, group="failed", score=1, id="f1")
    seq.append(2, group="failed", score=2, id="f2")
    seq.append(9, group="gap", score=9)
    seq.consume(fail, until_empty=True)
    assert seq.snapshot().parked == 2
    asked = seq.skip_many(everything=True, dry_run=True)
    assert (asked.chosen, asked.waiting) == (1, 1)
    done = seq.skip_many(everything=True)
    assert (done.done, done.waiting, seq.snapshot().parked) == (1, 1, 1)
    assert drain(seq) == [2], "the number of the skipped one has passed"
    assert [letter.message.id for letter in seq.dead()] == ["f1"]


def test_skipped_heads_become_dead_letters_or_are_gone(make: Make) -> None:
    seq = make(max_attempts=1)
    park(seq)
    done = seq.skip_many(error="Timeout")
    assert (done.done, done.errors, seq.info().totals["dead"]) == (4, {"Timeout": 4}, 4)
    letters = seq.dead()
    assert {(letter.message.id, letter.error.type, letter.attempts) for letter in letters} == {("m0", "Timeout", 1)}
    assert seq.skip_many(everything=True, discard=True).done == 6
    assert (len(seq.dead()), seq.info().totals["skipped"]) == (4, 6)
    seq.redrive(everything=True)
    seen = [(message.group[1], message.id) for message in consumed(seq)]
    assert sorted(seen) == sorted([(n, "m1") for n in "0123456789"] + [(n, "m0") for n in "0369"])


def test_an_idle_consumer_is_woken(make: Make, link: Link, keys: ShardKeys) -> None:
    seq = make(max_attempts=1)
    park(seq, 3)
    assert link.command("LLEN", keys.dispatch) == 0
    seq.resume_many(everything=True)
    assert link.command("LLEN", keys.dispatch) == 1


def test_an_answer_that_is_lost_is_counted_as_done(
    make: Make, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    seq, other = make(max_attempts=1), make(redis=proxy.url)
    park(seq, 3)
    other.connect()
    losing(monkeypatch, proxy, "resume")
    assert other.resume_many(everything=True).done == 3
    seq.consume(fail, until_empty=True)
    losing(monkeypatch, proxy, "resume")
    assert other.skip_many(everything=True).done == 3
    assert len(seq.dead()) == 3, "once each"


def test_a_group_that_others_spoiled_keeps_none_of_the_others(make: Make, link: Link, keys: ShardKeys) -> None:
    seq = make(max_attempts=1)
    park(seq, 3)
    link.command("DEL", keys.order("g:1"))
    link.command("SET", keys.order("g:1"), "x")
    assert seq.skip_many(everything=True).done == 2
    assert link.command("ZSCORE", keys.schedule, "g:1") == b"inf"
    link.command("DEL", keys.order("g:1"), keys.body("g:1"))
    link.command("ZREM", keys.schedule, "g:1")
    link.command("HDEL", keys.failures, "g:1")


def test_parked_groups_may_go_on_while_they_are_listed(make: Make) -> None:
    """And end: read by their places alone, others would be passed over."""
    seq = make(max_attempts=1)
    park(seq, 1200)
    for number, info in enumerate(seq.parked()):
        seq.resume(info.group)
        if number % 100 == 0:
            seq.consume(lambda message: None, until_empty=True)
    assert seq.snapshot().parked == 0

"""Doctor: each broken invariant is found, explained, repaired, and the messages then come in order."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from sequencer import EmbeddedServer, Message, Sequencer
from sequencer.calls.examine import repair
from sequencer.doctor.diagnose import MAX_SHOWN, diagnose, is_healthy
from sequencer.doctor.invariants import InvariantCheck
from sequencer.net import link as link_module
from sequencer.net.endpoint import Endpoint
from sequencer.net.link import Link
from sequencer.store.keys import ShardKeys, registry_key, shard_keys
from sequencer.testing import wait_until
from sequencer.texts.findings import Finding

from ..support.background import Background
from ..support.damage import CASES, Case, change_policy_by_hand, drain
from ..support.handling import consumed
from ..support.invariants import check_invariants


@pytest.fixture
def examine(server: EmbeddedServer, namespace: str) -> Callable[..., list[Finding]]:
    def examine(**options: Any) -> list[Finding]:
        return diagnose(Endpoint.from_url(server.url), namespace, "jobs", **options)

    return examine


def problems(findings: list[Finding]) -> list[str]:
    """Their codes."""
    return [one.code for one in findings if one.level == "problem"]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_is_broken_is_found_explained_and_repaired(
    seq: Sequencer, link: Link, keys: ShardKeys, examine: Callable[..., list[Finding]], case: Case
) -> None:
    seq.append_many({"body": id, "group": "g", "id": id, "score": n} for n, id in enumerate("abc", 1))
    assert check_invariants(link, [keys]) == problems(examine()) == []
    case.damage(link, keys)
    before = sorted(link.command("KEYS", "*"))
    assert check_invariants(link, [keys])
    found = examine()
    assert case.code in problems(found)
    assert not is_healthy(found)
    assert not any(one.repaired for one in found)
    assert sorted(link.command("KEYS", "*")) == before, "a mere look changes nothing"
    assert (seq.explain("g").reason == "broken") == case.is_explained
    repaired = examine(repair=True)
    assert case.code in [one.code for one in repaired if one.repaired]
    assert is_healthy(repaired), problems(repaired)
    by_code = {one.code: one.fields for one in repaired}
    lost = len("abc") - len(case.left) - len(case.dead.strip("z"))
    is_ghost = case.code == "empty group scheduled" and not case.dead
    removed = by_code.get("removed", {"messages": 0, "groups": 0})
    assert (removed["messages"], removed["groups"]) == (0 if is_ghost else lost, is_ghost)
    assert by_code["repaired"]["groups"] == bool(case.left), "those with messages"
    assert check_invariants(link, [keys]) == problems(examine()) == []
    assert seq.explain("g").reason != "broken"
    assert "".join(sorted(letter.message.id for letter in seq.dead())) == case.dead
    assert drain(seq) == case.left
    assert all(message.error.type == "Broken" for message in seq.dead() if message.message.id != "z")
    if case.dead:
        assert seq.redrive(everything=True).redriven == len(case.dead)
        assert sorted(drain(seq) + "".join(info.head_id or "" for info in seq.parked())) == sorted(case.dead)
        for info in seq.parked():
            seq.skip(info.group)


def test_a_failed_group_out_of_the_schedule_stays_parked_with_its_failure(
    make: Callable[..., Sequencer], link: Link, keys: ShardKeys, examine: Callable[..., list[Finding]]
) -> None:
    seq = make(max_attempts=1)
    seq.append_many({"body": n, "group": "g", "score": n} for n in range(2))
    with seq.claim() as lease:
        lease.park(next(iter(lease)), "by hand")
    link.command("ZREM", keys.schedule, "g")
    assert "group unscheduled behind a failure" in problems(examine(repair=True))
    (info,) = seq.parked()
    assert info.failure is not None
    assert (info.failure.message, info.backlog) == ("by hand", 2)
    assert seq.resume("g")
    assert len(drain(seq)) > 0
    assert check_invariants(link, [keys]) == []


def test_a_lost_timer_keeps_its_time_as_the_score_of_its_dead_letter(
    seq: Sequencer, link: Link, keys: ShardKeys, examine: Callable[..., list[Finding]]
) -> None:
    seq.append(1, group="g", id="timer", at=2_000_000_000.5)
    seq.append(2, group="g", id="late", score=7, at=2_000_000_000.5)
    link.command("DEL", keys.order("g"))
    assert is_healthy(examine(repair=True))
    scores = {letter.message.id: letter.message.score for letter in seq.dead()}
    assert scores["timer"] == 2_000_000_000.5
    assert scores["late"] != 7, "a score that nothing holds any more: its stamp stands for it"
    assert scores["late"] == pytest.approx(next(x.message.stamp for x in seq.dead(id="late")) / 1e6)
    assert seq.purge(everything=True) == 2


def test_a_group_that_waits_for_a_number_or_is_paused_is_sound(
    make: Callable[..., Sequencer], link: Link, keys: ShardKeys, examine: Callable[..., list[Finding]]
) -> None:
    seq = make(sequence=True, gap_timeout=0.0)
    seq.append("two", group="gap", score=2)
    seq.append("one", group="held", score=1)
    seq.pause("held")
    assert drain(seq) == ""
    assert [seq.explain(group).reason for group in ("gap", "held")] == ["gap", "paused"]
    assert problems(examine(repair=True)) == []
    assert [seq.explain(group).reason for group in ("gap", "held")] == ["gap", "paused"]
    seq.append("first", group="next", score=1)
    link.command("ZADD", keys.schedule, "inf", "next")
    assert ("parked without reason", ("next",)) in [(one.code, one.fields.get("group")) for one in examine(repair=True)]
    assert drain(seq) == "1"
    change_policy_by_hand(link, keys, on_gap="skip")  # a client that changes the rule wakes such groups
    assert "parked without reason" in problems(examine())
    assert is_healthy(examine(repair=True))
    seq.unpause("held")
    assert drain(seq) == "21"


def test_what_can_not_be_repaired_is_told_and_left(
    seq: Sequencer, link: Link, keys: ShardKeys, namespace: str, examine: Callable[..., list[Finding]]
) -> None:
    seq.append(1, group="sound", id="s")
    link.commands([("SET", f"{keys.prefix}surprise", 1), ("SET", keys.body("odd"), 1), ("SET", keys.order("odder"), 1)])
    link.command("ZADD", keys.schedule, 1, "odd")
    found = examine(repair=True)
    assert not is_healthy(found)
    assert not any(one.repaired for one in found)
    left = {one.fields["key"] for one in found if one.code in ("unknown key", "wrong type")}
    assert {f"{keys.prefix}{name}" for name in ("surprise", "body:odd", "order:odder")} <= left
    assert seq.explain("odd").commands == {"inspect": f"sequencer doctor jobs --namespace {namespace}"}
    assert [one.commands for one in examine() if one.code == "broken"] == [{}]
    link.command("DEL", f"{keys.prefix}surprise", keys.body("odd"), keys.order("odder"))
    assert is_healthy(examine(repair=True))
    assert drain(seq) == "s"


def test_a_shard_key_of_another_type_is_told_and_other_shards_are_checked(
    make: Callable[..., Sequencer], link: Link, namespace: str, examine: Callable[..., list[Finding]]
) -> None:
    seq = make(shards=2)
    seq.append_many({"body": n, "group": str(n)} for n in range(8))
    first, second = (shard_keys(namespace, "jobs", shard) for shard in range(2))
    link.commands([("SET", first.failures, "x"), ("DEL", second.schedule)])
    codes = problems(examine())
    assert codes.count("wrong type") == 1
    unseen = link.command("KEYS", second.order("*"))
    assert unseen
    assert codes.count("group unscheduled") == len(unseen), "each once"
    link.command("DEL", first.failures)
    assert is_healthy(examine(repair=True))
    assert len(drain(seq)) >= 8


def test_large_groups_and_large_records_are_read_in_pages(
    seq: Sequencer, link: Link, keys: ShardKeys, examine: Callable[..., list[Finding]], monkeypatch: pytest.MonkeyPatch
) -> None:
    seq.append_many({"body": n, "group": "long", "id": str(n), "score": n} for n in range(1000))
    seq.append_many({"body": "x" * 900_000, "group": "wide", "id": str(n), "score": n} for n in range(8))
    members = link.command("ZRANGE", keys.order("long"), 0, -1)
    link.command("HDEL", keys.body("long"), *[m[16:] for m in members[::100]])
    link.command("ZREM", keys.order("wide"), link.command("ZRANGE", keys.order("wide"), 5, 5)[0])
    link.command("HDEL", keys.body("wide"), "7")
    wide = [name.decode() for name in link.command("ZRANGE", keys.order("wide"), 0, -1)]
    assert link.run_one(repair(keys, "wide", members=wide)).looked_at == 3, "it stops after 2 MB"
    assert link.run_one(repair(keys, "wide", ids=[name[16:] for name in wide])).looked_at == 3
    sent: list[tuple[Any, ...]] = []
    send = link_module.send

    def watch(connection: Any, commands: Any) -> None:
        sent.extend(words for words in commands if words[2:4] not in ((0, 0), (-1, -1)))  # lowest and highest score
        send(connection, commands)

    monkeypatch.setattr(link_module, "send", watch)
    found = [(one.fields.get("group"), one.code) for one in examine(repair=True)]
    monkeypatch.undo()
    assert found.count((("long",), "message without record")) == 10
    assert [group for group, _ in found].count(("wide",)) == 2
    assert {words[0] for words in sent} & {"HGETALL", "ZRANGE", "KEYS", "SMEMBERS"} <= {"HGETALL", "ZRANGE", "SMEMBERS"}
    whole = [words for words in sent if words[0] in ("HGETALL", "ZRANGE", "SMEMBERS") and "doctor" not in str(words[1])]
    namespace = keys.prefix[1:].partition(":")[0]
    assert {words[1] for words in whole} == {registry_key(namespace, "jobs"), keys.policy}
    assert check_invariants(link, [keys]) == []
    seq.purge(everything=True)
    seen = [int(message.id) for message in consumed(seq)]
    assert sorted(seen) == sorted([n for n in range(1000) if n % 100] + [0, 1, 2, 3, 4, 6])


def test_many_problems_are_counted_and_a_limit_is_said(
    seq: Sequencer, link: Link, keys: ShardKeys, namespace: str, examine: Callable[..., list[Finding]]
) -> None:
    link.command("ZADD", keys.schedule, *[word for n in range(MAX_SHOWN + 7) for word in (1, f"ghost{n}")])
    seq.append(1, group="g")
    found = examine()
    assert problems(found).count("empty group scheduled") == MAX_SHOWN
    assert [one.fields["count"] for one in found if one.code == "more"] == [7]
    (broken,) = [one for one in found if one.code == "broken"]
    assert broken.commands == {"fix": f"sequencer doctor jobs --repair --namespace {namespace}"}
    (repaired,) = [one for one in examine(repair=True) if one.code == "repaired"]
    assert (repaired.fields["repaired_count"], repaired.commands) == (MAX_SHOWN + 7, {})


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(damages=st.lists(st.sampled_from(sorted(CASES)), min_size=1, max_size=5))
@example(damages=["one of each", "a stamp that is no number"])
def test_any_mixture_of_damage_is_repaired_at_once_and_nothing_sound_is_lost(
    seq: Sequencer, link: Link, keys: ShardKeys, damages: list[str]
) -> None:
    own = link.command("KEYS", f"{keys.prefix[:-1]}*")
    if own:
        link.command("DEL", *own)
    ids = "abcdef"
    seq.append_many({"body": id, "group": "g", "id": id, "score": n} for n, id in enumerate(ids, 1))
    for name in damages:
        try:
            CASES[name].damage(link, keys)
        except (StopIteration, TypeError):  # another one has already removed what this one would break
            continue
    pairs = {m.decode()[16:]: m for m in link.command("ZRANGE", keys.order("g"), 0, -1)}
    sound = [id for id in ids if id in pairs and link.command("HEXISTS", keys.body("g"), id)]
    assert all(one.repaired for one in InvariantCheck(link, [keys], repair=True).run())
    assert check_invariants(link, [keys]) == []
    left = {letter.message.id for letter in seq.dead()}
    handled = drain(seq)
    assert [id for id in handled if id in sound] == [id for id in sound if id in handled]
    assert set(sound) <= set(handled) | left
    assert seq.purge(everything=True) == len(left)


def looks_sound(link: Link, keys: ShardKeys, group: str) -> bool:
    """A negative control of the check: it reads at two moments, so that a busy queue must alert it."""
    return bool(link.command("ZCARD", keys.order(group)) == link.command("HLEN", keys.body(group)))


def test_a_busy_queue_raises_no_alert(
    make: Callable[..., Sequencer], link: Link, namespace: str, examine: Callable[..., list[Finding]]
) -> None:
    options = {"shards": 2, "max_attempts": 2, "backoff": 0.001, "on_failure": "dead_letter"}
    first, second, producer, stop = make(**options), make(**options), make(), threading.Event()
    shards = [shard_keys(namespace, "jobs", shard) for shard in range(2)]

    def produce() -> None:
        number = 0
        while not stop.is_set():
            some = [{"body": number + n, "group": str((number + n) % 7)} for n in range(20)]
            producer.append_many([*some, {"body": 0, "group": "timer", "id": "t", "delay": 0.002}], replace=True)
            producer.pause("3") if number % 40 else producer.unpause("3")
            if number % 200 == 0:
                producer.purge(everything=True)
            number += 20
            wait_until(lambda: stop.is_set() or producer.info().backlog < 100)

    def handle(message: Message) -> None:
        if message.body % 5 == 3:
            raise ValueError("no")

    thread, rounds, alerts = threading.Thread(target=produce), 0, 0
    with Background(first, handle), Background(second, handle):
        thread.start()
        try:
            wait_until(lambda: producer.info().totals["handled"] > 20)
            before = producer.info().totals
            while rounds < 30 or not alerts or producer.info().totals["handled"] < before["handled"] + 200:
                assert list(InvariantCheck(link, shards, repair=bool(rounds % 2)).run()) == []
                alerts += sum(not looks_sound(link, keys, str(group)) for keys in shards for group in range(7))
                rounds += 1
            assert [one for one in examine() if one.level != "ok"] == []
        finally:
            stop.set()
            thread.join(10)
        producer.unpause("3")
        wait_until(lambda: producer.info().backlog == 0)
    assert producer.info().totals["dead"] > before["dead"]
    producer.purge(everything=True)


@pytest.mark.parametrize(("age_s", "is_named"), [(160, True), (120, False)])
def test_a_group_that_is_leased_for_more_than_ten_leases_is_named(
    seq: Sequencer, link: Link, namespace: str, age_s: int, is_named: bool
) -> None:
    """Its lease of 10 s was renewed just now, as by a consumer whose handler hangs."""
    keys = shard_keys(namespace, seq.queue, 0)
    seq.append(1, group=["order", 7], id="m1")
    with seq.claim(lease=10.0) as lease:
        (group,) = [name.decode() for name in link.command("HKEYS", keys.leases)]
        held = link.command("HGET", keys.leases, group)
        token = f"{int(held[:16]) - age_s * 1_000_000:016d}".encode()
        link.command("HSET", keys.leases, group, token + b"1shop.example:4711:00c0de")
        said = [one for one in seq.doctor() if one.code == "held long"]
        told = seq.explain(["order", 7])
        link.command("HSET", keys.leases, group, held)
        assert [message.id for message in lease] == ["m1"]
    assert [(one.fields["group"], one.fields["owner"]) for one in said] == [
        (("order", "7"), "shop.example:4711:00c0de")
    ] * is_named
    see = f"sequencer explain {seq.queue} order 7 --namespace {namespace}"
    assert [one.commands["inspect"] for one in said] == [see] * is_named
    assert told.fields["is_long"] == is_named

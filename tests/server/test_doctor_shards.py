"""Shards that are in no table, or have another policy: what the doctor says of them, and that its commands keep what
lies there.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from sequencer import Sequencer
from sequencer.doctor.diagnose import diagnose, is_healthy
from sequencer.net.link import Link
from sequencer.store.group import encode_group, shard_of
from sequencer.store.keys import registry_key, shard_keys
from sequencer.texts.commands import name_server

from ..support.command_counts import command_counts
from ..support.own_server import client
from ..support.redis_cli import run_line


def test_a_policy_that_was_changed_by_hand_is_told_with_the_command_of_that_server(admin: Link) -> None:
    with client(admin) as seq:
        seq.append(1, "g")
        admin.command("HSET", shard_keys("sequencer", "q", 0).policy, "on_late", "drop")
        name_server("redis://other:7001/0")
        try:
            [told] = [one for one in seq.doctor() if one.code == "shard policy differs"]
            assert told.commands == {"fix": "sequencer doctor q --repair --redis redis://other:7001/0"}
        finally:
            name_server("")
        assert "'drop', registered 'handle'" in told.fields["differences"]
        [fixed] = [one for one in seq.doctor(repair=True) if one.code == "shard policy differs"]
        assert fixed.repaired
        assert is_healthy(seq.doctor())
        assert seq.policy.on_late == "handle"


def test_what_another_shard_knows_of_a_queue_is_brought_to_the_first(admin: Link) -> None:
    with client(admin, shards=4, on_late="dead_letter", dedup_window=10) as seq:
        for n in range(40):
            seq.append(n, f"g{n}")
        admin.command("DEL", registry_key("sequencer", "q"), shard_keys("sequencer", "q", 0).policy)
        [lost] = [one for one in diagnose(admin.endpoint, "sequencer", "q") if one.code == "first shard lost"]
        assert (lost.fields["shard"], lost.commands) == (1, {"fix": "sequencer doctor q --repair"})
        diagnose(admin.endpoint, "sequencer", "q", repair=True)
    with client(admin) as again:
        assert (again.policy.on_late, again.policy.dedup_window, again.info().backlog) == ("dead_letter", 10.0, 40)
        assert is_healthy(again.doctor())


@pytest.mark.parametrize("is_registered", [True, False])
def test_all_names_are_read_a_few_times_however_many_shards_they_seem_to_be_of(
    admin: Link, is_registered: bool
) -> None:
    with client(admin) as seq:
        seq.append(1, "g")
        for shard in (700, 900, 10**12):
            admin.command("ZADD", shard_keys("sequencer", "q", shard).order("g"), 1, "m")
        if not is_registered:
            admin.command("DEL", registry_key("sequencer", "q"), shard_keys("sequencer", "q", 0).policy)
        admin.command("CONFIG", "RESETSTAT")
        told = diagnose(admin.endpoint, "sequencer", "q")
        assert 0 < command_counts(admin)["scan"] < 10, "one page, a few times"
    found = [one.fields for one in told if one.code == "unknown shard"]
    assert [one["shard"] for one in found] == [700, 900] * is_registered


@pytest.mark.parametrize("way", [pytest.param("keep", marks=pytest.mark.nightly), "destroy"])
def test_what_the_doctor_says_of_such_a_shard_can_be_run(admin: Link, tmp_path: Path, way: str) -> None:
    pairs: list[tuple[str, str | int]] = [*(("a b", n) for n in range(4)), ("ü}", "policy"), ("x:y", "clock")]
    groups: list[list[str | int]] = [list(pair) for pair in pairs]
    with client(admin, shards=2, max_attempts=1, on_failure="dead_letter") as seq:
        seq.append_many({"body": n, "group": group, "id": f"{n}"} for group in groups for n in range(3))
        seq.consume(lambda message: 1 / int(message.id), max_messages=1)
        before = {tuple(map(str, group)): [one.id for one in seq.peek(group)] for group in groups}
        dead = seq.count_dead()
        shard = {group for group in before if shard_of(encode_group(group), 2) == 1}
        for key in (registry_key("sequencer", "q"), shard_keys("sequencer", "q", 0).policy):
            admin.command("HSET", key, "table", "0")
        (told,) = [one for one in seq.doctor() if one.code == "unknown shard"]
    assert told.fields["groups"] == len(shard)
    line = told.commands["keep" if way == "keep" else "delete"]
    done = run_line(line, tmp_path, str(admin.endpoint.url))
    assert (done.returncode, "error" in done.stderr) == (0, False)
    with client(admin) as seq, Sequencer("q-shard-1", str(admin.endpoint.url)) as saved:
        left = [one for one in seq.doctor() if one.code == "unknown shard"]
        assert [(one.fields["groups"], one.fields["dead"]) for one in left] == [(0, 0)] * (way == "keep")
        if way == "keep":
            assert {group: [one.id for one in saved.peek(group)] for group in shard} == {g: before[g] for g in shard}
            assert saved.count_dead() + seq.count_dead() == dead
            assert is_healthy([one for one in saved.doctor() if one.check != "persistence"])
            saved.append("more", ["a b", 0])
            waiting = saved.info().backlog
            assert saved.consume(lambda message: None, until_empty=True).handled == waiting

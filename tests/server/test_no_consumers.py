"""That nobody consumes a queue is told by info, explain and doctor, where messages are due; and never wrongly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import AsyncMock

import pytest

from sequencer import EmbeddedServer, Message, Sequencer
from sequencer.calls.net_protocol import Command
from sequencer.doctor.diagnose import is_healthy
from sequencer.doctor.leases import NO_CONSUMERS_S, find_no_consumers
from sequencer.doctor.rights import acl_rules
from sequencer.errors import SequencerError
from sequencer.net.link import ConnectionAlone, Link, finish
from sequencer.queue.session import Reachable, Session
from sequencer.store.keys import ShardKeys, shard_keys
from sequencer.texts.findings import Finding
from sequencer.values.views import Unreachable
from tests.support.handling import Make


def wait_for(link: Link, namespace: str, seconds: float, *groups: str) -> None:
    """As if these groups had been due for so long."""
    keys = shard_keys(namespace, "jobs", 0)
    now_s, us = link.command("TIME")
    for group in groups:
        link.command("ZADD", keys.schedule, "XX", int(now_s) * 10**6 + int(us) - int(seconds * 1e6), group)


def told(seq: Sequencer) -> list[Finding]:
    found = seq.doctor()
    assert is_healthy(found), "it may be meant so"
    return [one for one in found if one.code == "no consumers"]


def test_where_a_consumer_was_killed_all_three_say_so(seq: Sequencer, link: Link, namespace: str) -> None:
    seq.append_many({"body": n, "group": n} for n in range(3))
    lease = seq.claim(lease=30)
    wait_for(link, namespace, 90, "0", "1", "2")  # the lease of one of them ran out by that
    info, said = seq.info(), seq.explain("1")
    assert info.no_consumers is not None
    assert (info.no_consumers.groups, round(info.no_consumers.waits_s), info.no_consumers.connections) == (3, 90, 0)
    assert info.no_consumers.last_owner == lease.owner
    assert (said.reason, said.moves_in_s) == ("no consumers", None)
    (found,) = told(seq)
    assert (found.fields["groups"], found.fields["last_owner"]) == (3, lease.owner)
    line = f"sequencer consume jobs --app MODULE:NAME --namespace {namespace}"
    assert found.commands == {"consume": line}


def test_nothing_is_said_before_ten_seconds(seq: Sequencer, link: Link, namespace: str) -> None:
    seq.append(1, group="g")
    wait_for(link, namespace, NO_CONSUMERS_S - 1, "g")
    assert (seq.info().no_consumers, seq.explain("g").reason, told(seq)) == (None, "due", [])


def test_who_holds_a_group_of_any_shard_serves_them_all(make: Make, link: Link, namespace: str) -> None:
    seq = make(shards=2)
    seq.append_many({"body": n, "group": n} for n in range(8))
    with seq.claim(lease=30):
        for shard in range(2):
            keys = shard_keys(namespace, "jobs", shard)
            held = link.command("HKEYS", keys.leases)
            for group in link.command("ZRANGE", keys.schedule, 0, -1):
                if group not in held:
                    link.command("ZADD", keys.schedule, "XX", 1, group)
        assert (seq.info().due, seq.info().leased) == (7, 1)
        due = next(group.group for group in seq.groups("due"))
        assert (seq.info().no_consumers, seq.explain(due).reason, told(seq)) == (None, "due", [])
    assert seq.info().no_consumers is not None


def test_while_a_shard_is_away_nobody_knows_whether_its_groups_are_in_progress(
    make: Make, link: Link, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seq = make(shards=2)
    seq.append_many({"body": n, "group": n} for n in range(8))
    wait_for(link, namespace, 90, *link.command("ZRANGE", shard_keys(namespace, "jobs", 0).schedule, 0, -1))
    due = next(group.group for group in seq.groups("due"))
    assert seq.explain(due).reason == "no consumers"
    seen = Reachable(seq._session._shards[:1], Unreachable((1,), "a node is away"))
    monkeypatch.setattr(Session, "reachable", AsyncMock(return_value=seen))
    found = seq.consumers()
    assert (seq.info().no_consumers, seq.explain(due).reason, found.connections) == (None, "due", None)


@pytest.mark.parametrize("what", ["queue", "group"])
def test_what_is_paused_waits_for_no_consumer(seq: Sequencer, link: Link, namespace: str, what: str) -> None:
    seq.append(1, group="g")
    wait_for(link, namespace, 60, "g")
    seq.pause("g" if what == "group" else None)
    assert (seq.info().no_consumers, told(seq)) == (None, [])
    assert seq.explain("g").reason in ("paused", "queue paused")
    seq.append(1, group="h")
    wait_for(link, namespace, 30, "h")
    found = seq.info().no_consumers
    assert (found is None) == (what == "queue")
    assert found is None or (found.groups, round(found.waits_s)) == (1, 30)


def test_connected_consumers_are_counted(seq: Sequencer, link: Link, namespace: str) -> None:
    """One that is connected and stands still."""
    seq.append(1, group="g")
    found: list[Any] = []

    def handle(message: Message) -> None:
        wait_for(link, namespace, 60, "g")  # its lease ran out
        found.append(seq.info().no_consumers)

    seq.consume(handle, max_messages=1)
    assert found[0] is not None
    assert found[0].connections >= 1


@pytest.mark.parametrize(("role", "is_seen"), [("consume", True), ("operate", False)])
def test_a_user_with_few_rights_is_told_nothing_wrong(
    seq: Sequencer, server: EmbeddedServer, link: Link, namespace: str, role: str, is_seen: bool
) -> None:
    """Who may not read leases is told as before, who may not see connections that they can't be seen."""
    seq.append(1, group="g")
    wait_for(link, namespace, 60, "g")
    left_out = {"+client|setname"} if is_seen else {"+hscan"}
    rules = [rule for rule in acl_rules(namespace, role) if rule not in left_out]
    link.command("ACL", "SETUSER", "few", "reset", "on", ">x", *rules)
    try:
        url = server.url.replace("unix://", "unix://few:x@")
        with Sequencer("jobs", url, namespace=namespace) as few:
            if is_seen:
                found = few.info().no_consumers
                assert found is not None
                assert found.connections is None
            else:
                assert few.explain("g").reason == "due"
    finally:
        link.command("ACL", "DELUSER", "few")


class BetweenTwoCommands:
    """A connection that looks between a consumer's release and its next claim, at the first look only."""

    def __init__(self, alone: ConnectionAlone, meanwhile: Callable[[], object]) -> None:
        self._alone, self._meanwhile, self.looks = alone, meanwhile, 0

    async def read(self, commands: list[Command]) -> list[Any]:
        answers = await self._alone.read(commands)
        if commands[0][0] == "ZCOUNT":
            self.looks += 1
            if self.looks == 1:
                self._meanwhile()
        return answers

    async def answers(self, commands: list[Command]) -> list[Any | SequencerError]:
        return await self._alone.answers(commands)

    def give_up(self) -> None:
        self._alone.give_up()


def test_a_consumer_between_two_claims_is_seen_by_a_second_look(
    seq: Sequencer, link: Link, namespace: str, keys: ShardKeys
) -> None:
    seq.append_many({"body": n, "group": n % 2} for n in range(4))
    wait_for(link, namespace, 60, "0", "1")
    alone = ConnectionAlone(link.connection(), "s")

    def handle_one() -> None:  # and release all, before the second look
        seq.consume(lambda _: None, max_messages=1)
        wait_for(link, namespace, 60, "0", "1")

    assert finish(find_no_consumers(alone, [keys], namespace, "jobs")) is not None
    between: Any = BetweenTwoCommands(alone, handle_one)
    assert finish(find_no_consumers(between, [keys], namespace, "jobs")) is None
    leases: list[Any] = []
    between = BetweenTwoCommands(alone, lambda: leases.append(seq.claim()))
    assert finish(find_no_consumers(between, [keys], namespace, "jobs")) is None
    leases[0].release()

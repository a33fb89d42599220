"""A queue of 16 shards on a real cluster: how they are spread, and what is said while some can't be reached."""

from __future__ import annotations

import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from sequencer import Sequencer
from sequencer.doctor.diagnose import diagnose, is_healthy
from sequencer.errors import OutcomeUnknown, SequencerError
from sequencer.net.endpoint import Endpoint
from sequencer.outbox import Outbox, Relay
from sequencer.outbox.operate import Operated
from sequencer.store.keys import guard_key
from sequencer.testing import wait_until

from ..support.cluster import Cluster, SlotMove, run_cluster, slot_of
from ..support.refused import refused

pytestmark = pytest.mark.nightly
SHARDS, MESSAGES = 16, 400
PATIENCE_S = 5.0
"""The default of `socket_timeout`."""


@pytest.fixture(scope="module")
def nodes() -> Iterator[Cluster]:
    with run_cluster() as running:
        yield running


def slots(seq: Sequencer) -> list[int]:
    return [slot_of(keys.schedule) for keys in seq._session._shards]


def test_shards_are_spread_and_nothing_is_left_of_a_deleted_queue(nodes: Cluster) -> None:
    with Sequencer("spread", nodes.url, shards=SHARDS) as seq:
        seq.append_many({"body": n, "group": n} for n in range(MESSAGES))
        assert sorted(Counter(map(nodes.owner, slots(seq))).values()) == [5, 5, 6]
        assert (seq.info().shards, seq.info().backlog, len(seq.groups())) == (SHARDS, MESSAGES, MESSAGES)
        seq.delete()
    assert [nodes.command(port, "KEYS", "*spread*") for port in nodes.ports] == [[], [], []]


Fault = Callable[[Cluster, int], AbstractContextManager[None]]


@contextmanager
def killed(nodes: Cluster, slot: int) -> Iterator[None]:
    nodes.kill(port := nodes.owner(slot))
    yield
    nodes.restart(port)
    nodes.wait_whole()


@contextmanager
def frozen(nodes: Cluster, slot: int) -> Iterator[None]:
    with nodes.frozen(nodes.owner(slot)):
        yield
    nodes.wait_whole()


@contextmanager
def half_moved(nodes: Cluster, slot: int) -> Iterator[None]:
    move = SlotMove(nodes, slot)
    move.open()
    move.keys(2)
    yield
    while move.keys(100):
        pass
    move.close()


def within_patience(call: Callable[[], Any]) -> Any:
    began = time.monotonic()
    try:
        return call()
    finally:
        assert time.monotonic() - began < PATIENCE_S + 1.0


@pytest.mark.parametrize("fault", [killed, frozen, half_moved])
def test_what_cannot_be_reached_is_named_in_time_and_the_rest_is_shown(nodes: Cluster, fault: Fault) -> None:
    name = fault.__name__
    with Sequencer(name, nodes.url, shards=SHARDS) as seq, Sequencer(name, nodes.url) as new:
        items = [{"body": n, "group": n, "id": n} for n in range(MESSAGES)]
        seq.append_many(items)
        owners = [*map(nodes.owner, slots(seq))]
        away = {shard for shard, port in enumerate(owners) if port == owners[3]} if fault is not half_moved else {3}
        with fault(nodes, slots(seq)[3]):
            for one in (seq, new):
                info = within_patience(one.info)
                assert info.unreachable is not None
                assert {*info.unreachable.shards} == away
                assert 0 < info.backlog < MESSAGES
            for view in (new.snapshot, new.groups, new.consumers):
                within_patience(view)
            found = within_patience(lambda: diagnose(Endpoint.from_url(nodes.url), "sequencer", name))
            codes = {one.code: one for one in found}
            assert ("slots moving" if fault is half_moved else "node away") in codes
            assert {*codes["shards unreachable"].fields["unreachable"]} == away
            more = [{**item, "id": f"{item['id']} again"} for item in items]
            for _ in range(2):
                with pytest.raises(OutcomeUnknown) as caught:
                    within_patience(lambda: seq.append_many(more))
                stored, left = (caught.value.fields[name] for name in ("stored", "left"))
                assert (stored + left, stored > left > 0) == (MESSAGES, True)
        assert seq.append_many(more).appended == left
        info = seq.info()
        assert (info.unreachable, info.backlog) == (None, 2 * MESSAGES)
        assert is_healthy(diagnose(Endpoint.from_url(nodes.url), "sequencer", name))


def codes_of(cluster: Cluster, **fields: Any) -> list[str]:
    """What doctor finds wrong, of these fields."""
    found = [one for one in diagnose(Endpoint.from_url(cluster.url), "sequencer", "jobs") if one.level == "problem"]
    return [one.code for one in found if fields.items() <= one.fields.items()]


def test_doctor_names_the_node_whose_setting_or_key_is_wrong(nodes: Cluster) -> None:
    port = nodes.ports[1]
    with Sequencer("jobs", nodes.url, shards=SHARDS) as seq:
        seq.append_many({"body": n, "group": n} for n in range(MESSAGES))
        assert codes_of(nodes) == []
        nodes.command(port, "CONFIG", "SET", "cluster-require-full-coverage", "yes")
        assert codes_of(nodes, node=f"127.0.0.1:{port}") == ["full coverage required"]
        nodes.command(port, "CONFIG", "SET", "cluster-require-full-coverage", "no")
        key = guard_key(seq._session._shards[0].schedule)
        nodes.command(nodes.owner(slot_of(key)), "SET", key, "1")
        assert codes_of(nodes, key=key) == ["guard key"]
        nodes.command(nodes.owner(slot_of(key)), "DEL", key)
        assert codes_of(nodes) == []


def test_a_node_whose_scripting_another_program_broke_is_named() -> None:
    with run_cluster() as own, Sequencer("jobs", own.url, shards=SHARDS) as seq:
        items = [{"body": n, "group": n, "id": n} for n in range(MESSAGES)]
        seq.append_many(items)
        port = own.owner(slot_of("a"))
        other = next(key for key in map(str, range(1000)) if own.owner(slot_of(key)) == port)
        script = f"return redis.call('MGET', 'a', '{other}')"
        with suppress(SequencerError):
            own.command(port, "EVAL", script, 0)
        if codes_of(own) == []:
            pytest.skip("this server recovers")
        assert "scripts broken" in codes_of(own, node=f"127.0.0.1:{port}")
        with refused(OutcomeUnknown, "part_unknown") as caught:
            within_patience(lambda: seq.append_many(items))
        assert f"127.0.0.1:{port}" in caught.value.fields["error"]
        assert within_patience(seq.info).backlog == MESSAGES


@pytest.mark.parametrize("fault", [killed, frozen, half_moved])
def test_a_relay_waits_for_a_shard_that_is_away(nodes: Cluster, tmp_path: Path, fault: Fault) -> None:
    def connect() -> Any:
        return sqlite3.connect(tmp_path / "db")

    name, groups = f"relayed-{fault.__name__}", [f"g{number}" for number in range(50)]
    outbox, operated = Outbox(name), Operated(connect, name)
    operated.create()

    def append(id: str) -> None:
        with connect() as connection:
            outbox.append_many(connection, [{"body": {}, "group": group, "id": id} for group in groups])

    with Sequencer(name, nodes.url, shards=SHARDS) as seq:
        relay = Relay(connect, seq)
        append("a")
        assert relay.round() == 50
        append("b")
        with fault(nodes, slots(seq)[0]), pytest.raises(SequencerError):
            relay.round()
        append("c")

        def is_sent() -> bool:
            with suppress(SequencerError):
                while relay.round():
                    pass
                return operated.status()[0].unsent == 0
            return False

        wait_until(is_sent, 30)
        relay.stop()
        relay.run()
        assert {tuple(message.id for message in seq.peek(group)) for group in groups} == {("a", "b", "c")}

"""A queue of 16 shards on a real cluster: how they are spread, and what is said while some can't be reached."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest

from sequencer import Sequencer
from sequencer.errors import OutcomeUnknown

from ..support.cluster import Cluster, SlotMove, run_cluster, slot_of

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


VIEWS: dict[str, Callable[[Sequencer], Any]] = {
    "snapshot": Sequencer.snapshot,
    "groups": Sequencer.groups,
    "dead": Sequencer.dead,
    "consumers": Sequencer.consumers,
    "history": lambda seq: list(seq.history()),
    "policy": lambda seq: seq.policy,
}


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
            for view in VIEWS.values():
                within_patience(lambda view=view: view(new))  # type: ignore[misc]
            more = [{**item, "id": f"{item['id']} again"} for item in items]
            for _ in range(2):
                with pytest.raises(OutcomeUnknown) as caught:
                    within_patience(lambda: seq.append_many(more))
                stored, left = (caught.value.fields[name] for name in ("stored", "left"))
                assert (stored + left, stored > left > 0) == (MESSAGES, True)
        assert seq.append_many(more).appended == left
        info = seq.info()
        assert (info.unreachable, info.backlog) == (None, 2 * MESSAGES)

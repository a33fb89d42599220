"""Every script against a hash slot that is on its way between two nodes, key by key, at each stage of the move.

Scripts are given one key and make the names of the others, so a node that has that key runs them on what it has of the
shard. A second key that never exists prevents that: a node refuses a call of whose keys it has some and lacks others,
or lacks all, while their slot is open. The negative control runs the same trials without that key, and tears shards.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from redis.exceptions import AskError, MovedError, TryAgainError

from sequencer import calls
from sequencer.calls.call import Call
from sequencer.calls.examine import repair
from sequencer.calls.net_protocol import Command
from sequencer.calls.settle import Ack, Nack
from sequencer.errors import SequencerError
from sequencer.net.link import Link
from sequencer.net.slots import guarded
from sequencer.settings.policy import Policy

from ..support.cluster import Cluster, SlotMove, run_cluster, slot_of
from ..support.invariants import check_invariants
from ..support.shard import MUCH, NOW_US, Shard, at, item
from ..unit.test_scripts import EXAMPLES, KEYS, REGISTRY

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(600)]

WAYS = ("source", "target", "follow")
"""Where a call goes: to the node that gives the slot away, with ASKING to the one that gets it, as redirected."""
State = dict[bytes, bytes]


def shard_with_work(link: Link) -> dict[str, Call[Any]]:
    """Groups leased, due, parked, delayed and paused, a dead letter, history; and calls that change them."""
    shard = Shard(link, KEYS)
    shard.rules(Policy(dedup_window=3600, history_window=86_400, history_bodies=True))
    shard.append(*(item("parked", id) for id in "ab"), *(item("dead", id) for id in "ab"))
    leases = shard.claim()
    shard.nack(leases["parked"], None)
    shard.nack(leases["dead"], None, ending="dead")
    shard.append(item("g", "a"), item("g", "b"), item("g", "c"), item("h", "a"))
    held = shard.claim()
    g, h = held["g"], held["h"]
    shard.append(item("due", "a"), item("due", "b"), item("paused", "a"), item("late", "a", due="+900000000"))
    shard.run(calls.pause(KEYS, "paused", True))
    (letter,) = [name.decode() for name in link.command("ZRANGE", KEYS.dead, 0, -1)]
    failed = Nack("g", g.token, g.members[0], 1, 5.0, b'{"member":"%s"}' % g.members[0].encode())
    return {
        "ack some": calls.ack(KEYS, [Ack("g", g.token, g.members[:2], True, endings=["f", "f"])]),
        "ack all": calls.ack(KEYS, [Ack(one.key, one.token, one.members, True) for one in (g, h)]),
        "nack": calls.nack(KEYS, failed),
        "nack, dead": calls.nack(KEYS, failed._replace(delay_s=None, ending="dead")),
        "nack, drop": calls.nack(KEYS, failed._replace(delay_s=None, ending="drop")),
        "renew held": calls.renew(KEYS, [("g", g.token), ("h", h.token)], 9.0),
        "append to two": calls.append(KEYS, [item("due", "c"), item("new", "a")]),
        "claim due": calls.claim(KEYS, "q", "you", 5.0, MUCH),
        "resume parked": calls.resume(KEYS, "parked", b"", "", ending="drop"),
        "update late": calls.update(KEYS, "late", "a", "", ""),
        "wake late": calls.wake(KEYS, "late"),
        "unpause": calls.pause(KEYS, "paused", False),
        "redrive letter": calls.redrive(KEYS, [letter]),
        "purge letter": calls.purge(KEYS, [letter]),
        "repair due": repair(KEYS, "due", dry_run=False),
        **{name: call for name, call in EXAMPLES.items() if call.keys[0] != REGISTRY},
    }


def registry(link: Link) -> dict[str, Call[Any]]:
    link.command("HSET", REGISTRY, "generation", "1")
    return {"register": EXAMPLES["register"]}


class Trials:
    """One shard's keys, on one node or on both; what each call of a script does to them."""

    def __init__(self, cluster: Cluster, key: str) -> None:
        self.move = SlotMove(cluster, slot_of(key))
        self.nodes = self.source, self.target = cluster.link(self.move.source), cluster.link(self.move.target)
        self.counts: Counter[str] = Counter()
        self._whole: State = {}

    def keep(self) -> list[bytes]:
        """What is there now is what each trial begins with; its keys."""
        self._whole = self._state()[0]
        assert not check_invariants(self.source, [KEYS])
        return sorted(self._whole)

    def stage(self, moved: list[bytes]) -> None:
        """The slot is open, and these keys have moved."""
        self.clear()
        self.source.commands([("RESTORE", key, 0, data) for key, data in self._whole.items()])
        self.move.open()
        self.move.take(moved)

    def run(self, name: str, call: Call[Any], way: str, moved: list[bytes], *, is_guarded: bool) -> None:
        """Count what came of it. A change is counted by the call's name, and undone."""
        before, answer = self._state(), self._asked(at(call, NOW_US).eval_command(), way, is_guarded)
        is_refused = isinstance(answer, AskError | MovedError | TryAgainError)
        kind = "refused" if is_refused else "error" if isinstance(answer, Exception) else "ran"
        self.counts[kind] += 1
        self.counts["ran on a half"] += kind == "ran" and 0 < len(moved) < len(self._whole)
        after = self._state()
        if after == before:
            return
        self.counts["torn" if kind == "error" else f"changed by {name}"] += 1
        self.move.stable()
        self.source.commands([("RESTORE", key, 0, data, "REPLACE") for key, data in after[1].items()])
        self.counts["broken"] += bool(check_invariants(self.source, [KEYS]))
        self.stage(moved)

    def clear(self) -> None:
        self.move.stable()
        for node in self.nodes:
            node.command("FLUSHALL")

    def _asked(self, command: Command, way: str, is_guarded: bool) -> Any:
        command = guarded(command) if is_guarded else command
        answer = None if way == "target" else self._answer(self.source, [command])
        if way == "target" or (way == "follow" and isinstance(answer, AskError)):
            answer = self._answer(self.target, [("ASKING",), command])
        return answer

    def _answer(self, node: Link, commands: list[Any]) -> Any:
        try:
            return node.commands(commands)
        except SequencerError as error:
            return error.__cause__

    def _state(self) -> list[State]:
        return [self._dumped(node) for node in self.nodes]

    def _dumped(self, node: Link) -> State:
        keys = node.command("KEYS", "*")
        dumps = node.commands([words for key in keys for words in (("ASKING",), ("DUMP", key))])
        return dict(zip(keys, dumps[1::2], strict=True))


@pytest.fixture(scope="module", params=["embedded", "/usr/bin/redis-server"])
def open_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    with run_cluster(2, binary=None if request.param == "embedded" else request.param) as cluster:
        yield cluster


def tried(cluster: Cluster, *, is_guarded: bool, ways: tuple[str, ...]) -> Counter[str]:
    """All calls at all stages; the keys move in the order of their names, backwards and at random."""
    counts: Counter[str] = Counter()
    for key, fill in ((KEYS.schedule, shard_with_work), (REGISTRY, registry)):
        trials = Trials(cluster, key)
        named = fill(trials.source)
        names = trials.keep()
        for order in (names, names[::-1], random.Random(7).sample(names, len(names))):
            for count in range(len(order) + 1):
                trials.stage(order[:count])
                for name, call in named.items():
                    for way in ways:
                        trials.run(name, call, way, order[:count], is_guarded=is_guarded)
        counts += trials.counts
        trials.clear()
        for node in trials.nodes:
            node.close()
    return counts


def test_no_script_runs_while_its_slot_is_open(open_cluster: Cluster) -> None:
    """9,252 calls of 40 kinds on each server: none was carried out."""
    counts = tried(open_cluster, is_guarded=True, ways=WAYS)
    assert counts == {"refused": counts.total()}
    assert counts.total() > 9_000


def test_without_the_key_that_never_exists_shards_are_torn(open_cluster: Cluster) -> None:
    """An error, and keys changed; or no error, and half a shard is what the script saw."""
    counts = tried(open_cluster, is_guarded=False, ways=("follow",))
    assert counts["ran on a half"] > 100
    assert counts["torn"] > 0
    assert counts["broken"] > 0

"""The scripts hold a shard back as the model of the rules does: the same steps, claim by claim, nack by nack."""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sequencer import EmbeddedServer
from sequencer.calls.append import append
from sequencer.calls.claim import LeasedGroup, claim
from sequencer.calls.outage import Waits, outage
from sequencer.calls.settle import Ack, Nack, ack, nack
from sequencer.net.endpoint import Endpoint
from sequencer.net.link import Link
from sequencer.settings.options import ClaimLimits
from sequencer.store.item import Item
from sequencer.store.keys import ShardKeys, shard_keys

from ..support.examples import examples
from ..support.invariants import check_invariants
from ..support.outage_shard import (
    OneGroupIsEnough,
    OutageShard,
    ProbeKeepsItsPlace,
    TrustsTheClock,
    WaitsForItsProbe,
)
from ..support.shard import at

GROUPS = [f"g{number}" for number in range(5)]
NOW_US, LEASE_S = 1_700_000_000_000_000, 3.0
FIRST, LONGEST = 0.2, 1.0
STEP = st.one_of(
    st.tuples(st.just("append"), st.sampled_from(GROUPS)),
    st.tuples(st.just("claim"), st.integers(1, 4), st.sampled_from([False, False, False, True])),
    st.tuples(st.just("claim"), st.integers(1, 4), st.just(False)),
    st.tuples(st.just("ack"), st.integers(0, 3), st.integers(0, 1)),
    st.tuples(st.just("nack"), st.integers(0, 3), st.sampled_from(["outage"] * 6 + ["timeout", ""])),
    st.tuples(st.just("nack"), st.integers(0, 3), st.just("outage")),
    st.tuples(st.just("close"), st.integers(0, 3)),
    st.tuples(st.just("probe"), st.integers(0, 3)),
    st.tuples(st.just("advance"), st.sampled_from([1, 300, 1000, 2500, 12_000, -1, -30_000])),
)
DOWN: list[Any] = [("append", group) for group in GROUPS] + [("claim", 4, False)]
DOWN += [("nack", 0, "outage")] * 4 + [("advance", 300), ("claim", 4, False)] + [("nack", 0, "outage")] * 4
"""What opens it: all groups fail, one after the other."""


class Both:
    """Does each step on the server and with the model, at the same time, and compares."""

    def __init__(self, link: Link, keys: ShardKeys, model: OutageShard) -> None:
        self.link, self.keys, self.model = link, keys, model
        self.model.now = NOW_US
        self.leases: list[LeasedGroup] = []
        self.appended = 0

    def do(self, kind: str, *args: Any) -> None:
        getattr(self, kind)(*args)
        self.compare()

    def append(self, group: str) -> None:
        self.appended += 1
        item = Item(group, str(self.appended), f"{self.appended}.0", b"[1]")
        self.link.run_one(at(append(self.keys, [item]), self.model.now))
        self.model.clock = max(self.model.clock + 1, self.model.now)
        self.model.append(group)

    def claim(self, most: int, ahead: bool) -> None:
        limits, now = ClaimLimits(most, most), self.model.now
        found = self.link.run_one(at(claim(self.keys, "q", "me", LEASE_S, limits, ahead=ahead), now))
        modelled = self.model.claim(most, round(LEASE_S * 1e6), ahead=ahead)
        assert [one.key for one in found.groups] == list(modelled.groups)
        assert [one.is_probe for one in found.groups] == [modelled.is_probe] * len(found.groups)
        if not found.groups and modelled.next_at is not None:
            assert found.next_due_s == pytest.approx(max(0.0, modelled.next_at - now) / 1e6)
            assert not found.is_empty
        self.leases += found.groups

    def advance(self, ms: int) -> None:
        self.model.now += ms * 1000

    def lease(self, number: int) -> LeasedGroup | None:
        return self.leases.pop(number % len(self.leases)) if self.leases else None

    def ack(self, number: int, count: int) -> None:
        if one := self.lease(number):
            entry = Ack(one.key, one.token, one.members[:count], True)
            done = self.link.run_one(at(ack(self.keys, [entry]), self.model.now))
            assert (not done.refused) == self.model.ack(one.key, int(one.token), count, release=True)

    def nack(self, number: int, verdict: str) -> None:
        if not (one := self.lease(number)):
            return
        attempt = one.messages[0].attempt
        delay_s = None if attempt >= 3 else 0.5
        failure = b'{"member":"%s","type":"ConnectionError"}' % one.members[0].encode()
        entry = Nack(
            one.key,
            one.token,
            one.members[0],
            attempt,
            delay_s,
            failure,
            outage=Waits(FIRST, LONGEST) if verdict == "outage" else None,
            is_timeout=verdict == "timeout",
        )
        found = self.link.run_one(at(nack(self.keys, entry), self.model.now))
        modelled = self.model.nack(
            one.key,
            int(one.token),
            verdict,
            delay_us=None if delay_s is None else 500_000,
            waits=(round(FIRST * 1e6), round(LONGEST * 1e6), None),
            attempts=attempt,
        )
        assert found.is_valid == (modelled is not None)
        if modelled:
            assert (found.is_uncounted, found.held is not None) == (modelled.is_outage, modelled.is_held)
            assert not found.held or found.held.probe_us == self.model.probe_at

    def close(self, number: int) -> None:
        if one := self.lease(number):
            done = self.link.run_one(at(outage(self.keys, "close", one.token), self.model.now))
            assert (done.status == "closed") == self.model.close(int(one.token))

    def probe(self, number: int) -> None:
        token = self.leases[-1].token if number and self.leases else ""
        done = self.link.run_one(at(outage(self.keys, "probe", token), self.model.now))
        assert (done.status == "probing") == self.model.probe_now(int(token) if token else None)

    def compare(self) -> None:
        words = self.link.command("ZRANGE", self.keys.schedule, 0, -1, "WITHSCORES")
        found = {group.decode(): float(at) for group, at in zip(words[::2], words[1::2], strict=True)}
        assert found == {name: group.visible for name, group in self.model.groups.items()}
        for name, group in self.model.groups.items():
            head = self.link.command("ZRANGE", self.keys.order(name), 0, 0)[0].decode()
            record = self.link.command("HGET", self.keys.body(name), head[16:])
            assert int(record[16:20]) == group.attempts
        probe_us = self.link.command("HGET", self.keys.policy, "probe_us")
        assert (float(probe_us) if probe_us else None) == self.model.probe_at
        assert not check_invariants(self.link, [self.keys])


@pytest.fixture(scope="module")
def both_of(server: EmbeddedServer) -> Iterator[Any]:
    link = Link(Endpoint.from_url(server.url))

    def run(steps: list[Any], model: OutageShard) -> Both:
        both = Both(link, shard_keys(f"o{uuid.uuid4().hex[:8]}", "q", 0), model)
        try:
            for kind, *args in steps:
                both.do(kind, *args)
        finally:
            link.command("DEL", "-", *link.command("KEYS", both.keys.prefix + "*"))
        return both

    yield run
    link.close()


@settings(max_examples=examples(200), deadline=None, suppress_health_check=list(HealthCheck))
@given(is_down=st.booleans(), steps=st.lists(STEP, max_size=40))
def test_scripts_and_model_hold_a_shard_back_alike(both_of: Any, is_down: bool, steps: list[Any]) -> None:
    both_of(DOWN * is_down + steps, OutageShard())


PRIVATE: list[Any] = [
    ("append", "g0"),
    ("append", "g1"),
    ("claim", 1, False),
    ("nack", 0, "outage"),
    ("claim", 1, False),
]
PRIVATE += [("ack", 0, 1), *[("advance", 12_000), ("claim", 1, False), ("nack", 0, "outage")] * 11]


def test_a_failure_of_one_group_alone_counts_from_the_tenth_on_and_parks(both_of: Any) -> None:
    """Nine are free; the tenth, eleventh and twelfth are its three attempts."""
    model = OutageShard()
    both_of(PRIVATE, model)
    assert math.isinf(model.groups["g0"].visible)
    assert model.groups["g0"].outages == 12


@pytest.mark.parametrize("control", [OneGroupIsEnough, ProbeKeepsItsPlace, TrustsTheClock, WaitsForItsProbe])
def test_the_comparison_sees_a_rule_that_is_missing(both_of: Any, control: type[OutageShard]) -> None:
    steps = [("append", "g0"), ("append", "g0"), *[("claim", 1, False), ("nack", 0, "outage"), ("advance", 1000)] * 6]
    steps += [*DOWN, ("advance", 1000), ("claim", 1, False), ("nack", 0, "outage"), ("advance", 2500)]
    steps += [("claim", 1, False), ("advance", 1000)]
    steps += [("nack", 0, "outage"), ("append", "new"), ("advance", -30_000), ("append", "newer"), ("claim", 1, False)]
    both_of(steps, OutageShard())
    with pytest.raises(AssertionError):
        both_of(steps, control())

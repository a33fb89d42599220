"""Chaos with real processes: a short run passes with every fault in effect, and broken promises turn it red."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from sequencer import EmbeddedServer, Sequencer
from sequencer.net.link import Link
from sequencer.store.keys import shard_keys
from tests.support.proxy.fault import KINDS
from tests.support.proxy.fault_proxy import FaultProxy
from tests.support.proxy.frames import ERRORS

from .chaos import fault_test as chaos
from .chaos.nemesis import EXPECTED, FIRST_ACTS, VICTIMS, Act, acts, again
from .chaos.operator import broken
from .chaos.run import run_seed

pytestmark = pytest.mark.nightly

FEW = ("producer", "consumers")
"""Enough processes to see a broken promise."""


@pytest.mark.parametrize("seed", [1, 2], ids=["worker slots on threads", "worker slots on a loop"])
def test_a_short_run_holds_every_promise_under_every_fault(seed: int) -> None:
    result = chaos.run("smoke", seed=seed)
    assert result.problems == []
    assert (result.losses, result.order_violations) == (0, 0)
    assert result.messages > 200
    assert set(EXPECTED) <= set(result.faults)
    assert all(count > 0 for count in result.faults.values())


def test_a_producer_that_trusts_an_unknown_outcome_loses_messages_and_a_fault_that_never_was_is_said() -> None:
    plan = [Act("proxy", order={"add": "request reset", "on": ["append"], "times": 60})]
    outcome = run_seed(1, 1.0, mutant="trusting", plan=plan, expected=["request reset", "error MISCONF"], roles=FEW)
    assert outcome.judgement.losses > 0
    assert outcome.judgement.missing == ["error MISCONF"]


@pytest.mark.parametrize("seed", [3, 4], ids=["one handler at a time", "worker slots on threads"])
def test_a_consumer_that_does_not_keep_its_lease_works_beside_another(seed: int) -> None:
    outcome = run_seed(seed, 2.0, mutant="no renewal", plan=[], expected=(), roles=FEW)
    assert outcome.judgement.overlaps + outcome.judgement.unexplained > 0


def test_a_seed_says_what_is_done_and_first_everything_once() -> None:
    plans = [list(itertools.islice(acts(seed, 1.0), 200)) for seed in (1, 1, 2)]
    assert plans[0] == plans[1] != plans[2]
    first = plans[0][:FIRST_ACTS]
    assert {act.order["add"] for act in first if act.order} == set(KINDS)
    assert {(act.deed, act.whom) for act in first if act.deed != "proxy"} == {
        *[(deed, whom) for deed in ("kill", "pause") for whom in VICTIMS],
        ("flush scripts", ""),
        ("kill supervisor", ""),
    }
    assert {again(kind, 1.0).deed for kind in EXPECTED} == {"proxy", "kill", "pause", "flush scripts"}


def test_what_the_proxy_answers_in_place_of_the_server_is_no_damage_and_damage_is(
    server: EmbeddedServer, make: Callable[..., Sequencer], link: Link, namespace: str
) -> None:
    with FaultProxy(server.url) as proxy:
        seq = make(redis=proxy.url)
        seq.append("a", 1)
        for name in ERRORS:
            proxy.add(f"error {name}", on=("append", "claim", "ack"), times=None)
            assert broken(seq.doctor()) == [], name
            proxy.clear()
        link.command("DEL", shard_keys(namespace, "jobs", 0).schedule)
        assert broken(seq.doctor())
        assert broken(seq.doctor(repair=True)) == []

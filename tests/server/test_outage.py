"""An outage on a real server: what scripts answer, what consumers do, and what people are told."""

from __future__ import annotations

import time
from typing import Any

import pytest

from sequencer.calls.claim import LeasedGroup
from sequencer.calls.outage import Ended, Waits, outage
from sequencer.calls.settle import Nack, Nacked, nack
from sequencer.doctor.invariants import InvariantCheck
from tests.support.handling import Make

from ..support.invariants import check_invariants
from ..support.shard import SECOND, Shard, item

GROUPS = ("a", "b", "c", "d", "e", "f")


def fail(shard: Shard, lease: LeasedGroup, verdict: str = "outage", after_s: float | None = None) -> Nacked:
    told = b'{"member":"%s","type":"ConnectionError","message":"refused"}' % lease.members[0].encode()
    entry = Nack(
        lease.key,
        lease.token,
        lease.members[0],
        lease.messages[0].attempt,
        0.5,
        told,
        outage=Waits(0.5, 60.0, after_s) if verdict == "outage" else None,
        is_timeout=verdict == "timeout",
    )
    return shard.run(nack(shard.keys, entry))


def end(shard: Shard, action: Any, token: str = "") -> Ended:
    return shard.run(outage(shard.keys, action, token))


def held_shard(shard: Shard) -> dict[str, LeasedGroup]:
    """A shard that an outage of five groups holds back; the sixth is still in progress."""
    shard.append(*[item(group, "1") for group in GROUPS])
    leases = shard.claim()
    shard.later(0.1)
    for group in GROUPS[:5]:
        fail(shard, leases[group])
    return leases


def probe_us(shard: Shard) -> int | None:
    found = shard.link.command("HGET", shard.keys.policy, "probe_us")
    return None if found is None else int(found)


def probe(shard: Shard) -> LeasedGroup:
    (lease,) = shard.claimed().groups
    assert lease.is_probe
    assert len(lease.messages) == 1
    return lease


# -- what the scripts answer -----------------------------------------------------------------------------------------


def test_the_fifth_failure_of_three_groups_holds_the_shard_back(shard: Shard) -> None:
    shard.append(*[item(group, "1") for group in GROUPS])
    leases = shard.claim()
    for number, group in enumerate(GROUPS[:5], 1):
        shard.later(0.1)
        done = fail(shard, leases[group])
        assert (done.is_valid, done.is_uncounted, done.wait_s) == (True, True, 0.5)
        assert (done.held is not None) == (number == 5)
    assert done.held
    assert done.held.is_new
    assert done.held.probe_s == 1.0
    assert done.held.since_us == shard.now - 4 * SECOND // 10
    assert shard.total("outages") == 1
    assert not shard.claimed().groups
    assert shard.claimed().next_due_s == 1.0
    assert not shard.claimed().is_empty


def test_a_probe_is_one_message_of_a_group_without_a_failure(shard: Shard) -> None:
    leases = held_shard(shard)
    shard.append(item("g", "1"), item("g", "2"))
    shard.later(1.0)
    assert not shard.claimed(ahead=True).groups, "not to one who works on others"
    lease = probe(shard)
    assert lease.key == "g"
    assert probe_us(shard) == shard.now + 5 * SECOND, "its lease"
    assert not shard.claimed().groups
    assert shard.hints() == []
    assert fail(shard, leases["f"]).held, "one that was in progress says nothing of the probe"
    assert probe_us(shard) == shard.now + 5 * SECOND


def test_the_handler_says_when_it_is_probed_and_an_operator_has_it_probed_at_once(shard: Shard) -> None:
    held_shard(shard)
    shard.later(1.0)
    fail(shard, probe(shard), after_s=30.0)
    assert probe_us(shard) == shard.now + 30 * SECOND
    assert not shard.claimed().groups
    assert end(shard, "probe").status == "probing"
    assert shard.hints() == [""]
    probe(shard)


def test_an_outage_is_ended_once_and_by_one_of_its_probes(shard: Shard) -> None:
    leases = held_shard(shard)
    assert end(shard, "close", leases["f"].token).status == "other"
    shard.later(1.0)
    slow = probe(shard)
    shard.later(6.0)
    assert probe(shard).token != slow.token, "its lease is over"
    assert shard.hints() == []
    ended = end(shard, "close", slow.token)
    assert shard.hints(), "another consumer looks at once"
    assert (ended.status, ended.lasted_s, ended.probes) == ("closed", 7.0, 0)
    assert end(shard, "close", slow.token).status == "none"
    assert shard.link.command("EXISTS", shard.keys.outage) == 0


# -- what is told --------------------------------------------------------------------------------------------------


def test_a_group_a_queue_and_the_doctor_say_what_holds_them(make: Make, shard: Shard) -> None:
    seq = make("q")
    seq.connect()
    shard.now = time.time_ns() // 1000
    held_shard(shard)
    told = seq.explain("a")
    assert told.reason == "outage"
    assert told.fields["error"] == "ConnectionError: refused"
    assert told.moves_in_s is not None
    assert told.moves_in_s <= 1.2
    found = seq.info().outage
    assert found is not None
    assert (found.error, found.probes, found.shards) == ("ConnectionError: refused", 0, 1)
    warnings = [one for one in seq.doctor() if one.check == "outage"]
    assert [one.level for one in warnings] == ["warning"]
    assert warnings[0].commands["probe"].startswith("sequencer resume q --outage ")
    assert seq.pause()
    assert seq.explain("a").reason == "queue paused", "a pause comes first"
    seq.unpause()
    assert seq.probe_outage()
    shard.later(0.9)
    assert end(shard, "close", probe(shard).token).status == "closed"
    assert not seq.probe_outage()
    assert seq.info().outage is None


@pytest.mark.parametrize("half", ["probe_us", "outage", "unreadable"])
def test_half_of_an_outage_is_found_and_fixed(shard: Shard, half: str) -> None:
    held_shard(shard)
    if half == "probe_us":
        shard.link.command("DEL", shard.keys.outage)
    elif half == "outage":
        shard.link.command("HDEL", shard.keys.policy, "probe_us")
    else:
        shard.link.command("HSET", shard.keys.policy, "probe_us", "soon")
    assert len(check_invariants(shard.link, [shard.keys])) == 1
    found = list(InvariantCheck(shard.link, [shard.keys], repair=True).run())
    assert [(one.check, one.repaired) for one in found] == [("outage", True)]
    assert not check_invariants(shard.link, [shard.keys])
    shard.later(1.0)
    assert not any(one.is_probe for one in shard.claimed().groups)


# -- what consumers do -----------------------------------------------------------------------------------------------


def test_a_loop_of_ones_own_probes_and_ends_an_outage(make: Make) -> None:
    seq = make(backoff=0.0)
    seq.append_many({"group": str(number), "body": 1} for number in range(6))

    def fail_one() -> None:
        with seq.claim() as lease:
            for message in lease:
                lease.nack(message, ConnectionError("refused"))

    for _ in range(5):
        fail_one()
    assert seq.info().outage
    seq.probe_outage()
    with seq.claim() as lease:
        assert len(lease) == 1
    assert (found := seq.info().outage)
    assert found.next_probe_s == 0.0, "released untried"
    with seq.claim(messages=9, groups=9) as lease:
        (message,) = lease
        lease.ack(message)
    assert seq.info().outage is None
    seq.consume(lambda _: None, until_empty=True)

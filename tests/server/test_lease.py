"""The lower layer: a lease in a loop of one's own."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import redis

from sequencer import Park, Sequencer, calls
from sequencer.errors import InvalidMessage, LeaseLost, ServerUnavailable
from sequencer.net.link import Link
from sequencer.settings.options import ClaimLimits
from sequencer.store.keys import ShardKeys
from sequencer.testing import wait_until
from sequencer.testing.wire import Wire, wired
from tests.support.handling import Make
from tests.support.proxy.fault_proxy import FaultProxy
from tests.support.refused import refused


def fill(seq: Sequencer, groups: int = 1, length: int = 3) -> None:
    for n in range(length):
        for group in range(groups):
            seq.append(n, group=group, id=f"{group}-{n}", score=n)


def test_an_empty_queue_gives_an_empty_lease(seq: Sequencer) -> None:
    with seq.claim() as lease:
        assert not lease
        assert len(lease) == 0
        assert list(lease) == []


def test_acknowledged_messages_are_gone_and_the_rest_is_released(seq: Sequencer) -> None:
    fill(seq, length=5)
    with seq.claim(messages=3) as lease:
        assert len(lease) == 3
        assert 0 < lease.remaining_s <= 15
        seen = []
        for message in lease:
            seen.append(message.body)
            lease.ack(message)
        assert seen == [0, 1, 2]
        assert [info.state for info in seq.groups()] == ["due"], "the last ack gave the group back"
    assert [message.body for message in seq.peek(0)] == [3, 4]


def test_the_next_message_of_a_group_comes_only_after_the_ack(seq: Sequencer) -> None:
    fill(seq, groups=2, length=3)
    with seq.claim(groups=2) as lease:
        seen = [(message.group[0], message.body) for message in lease]
    assert seen == [("0", 0), ("1", 0)]
    assert [(info.state, info.attempts) for info in seq.groups()] == [("due", 0)] * 2


@pytest.mark.parametrize("lengths", [(5, 2, 1), (1, 2, 5), (40, 3, 17)])
def test_groups_with_the_same_ids_are_read_and_taken_away_each_for_itself(
    seq: Sequencer, link: Link, keys: ShardKeys, lengths: tuple[int, ...]
) -> None:
    longest = max(lengths)
    seq.append_many({"group": g, "id": n, "body": [g, n]} for g in range(3) for n in range(longest))
    claimed = link.run_one(calls.claim(keys, "jobs", "me", 60, ClaimLimits(3, 3 * longest, 10**6)))
    assert [[m.body for m in g.messages] for g in claimed.groups] == [
        [[g, n] for n in range(longest)] for g in range(3)
    ]
    acks = [
        calls.Ack(group.key, group.token, group.members[:some], True)
        for group, some in zip(claimed.groups, lengths, strict=True)
    ]
    link.run([calls.ack(keys, acks)])
    left = {g: [m.body for m in seq.peek(g, limit=longest)] for g in range(3)}
    assert left == {g: [[g, n] for n in range(some, longest)] for g, some in enumerate(lengths)}


def test_a_group_that_never_ends_leaves_no_other_due_group_out(seq: Sequencer, link: Link, keys: ShardKeys) -> None:
    """Five groups and room for seven messages: two for each would leave one group to a claim that it has for itself."""
    fill(seq, groups=4, length=2)
    seq.append_many({"group": "endless", "body": n} for n in range(50))
    limits = ClaimLimits(7, 7, 10**6)
    groups = link.run_one(calls.claim(keys, "jobs", "me", 60, limits)).groups
    assert sorted(len(group.messages) for group in groups) == [1, 1, 1, 2, 2]


@pytest.mark.parametrize(("due", "most", "taken"), [(1, 9, 1), (2, 9, 1), (3, 9, 1), (7, 9, 3), (30, 9, 9), (11, 9, 5)])
def test_a_consumer_leaves_half_of_the_due_groups_to_others(
    seq: Sequencer, link: Link, keys: ShardKeys, due: int, most: int, taken: int
) -> None:
    """With all of them in the hands of one, others would be idle, and nothing could be claimed ahead."""
    fill(seq, groups=due, length=1)
    limits = ClaimLimits(most, 90, 10**6)
    claimed = link.run_one(calls.claim(keys, "jobs", "me", 60, limits, alone=0))
    assert len(claimed.groups) == taken
    assert claimed.has_more == (due > taken)
    assert len(link.run_one(calls.claim(keys, "jobs", "me", 60, limits)).groups) == min(most, due - taken)


@pytest.mark.parametrize(("most", "alone"), [(100, 0), (4, 0), (1, 0), (1, None), (4, None)])
def test_a_claim_that_puts_a_group_off_does_not_forget_those_behind_it(
    seq: Sequencer, link: Link, keys: ShardKeys, most: int, alone: int | None
) -> None:
    """It has seen one group too few: others are due, and whoever is idle has to be woken for them."""
    seq.pause("0")
    fill(seq, groups=10, length=1)
    link.command("DEL", keys.dispatch)
    limits = ClaimLimits(most, 100, 10**6)
    claimed = link.run_one(calls.claim(keys, "jobs", "me", 60, limits, alone=alone))
    assert 0 < len(claimed.groups) < 9
    assert claimed.has_more
    assert link.command("LLEN", keys.dispatch) == 1
    rest = link.run_one(calls.claim(keys, "jobs", "me", 60, ClaimLimits()))
    assert len(rest.groups) == 9 - len(claimed.groups)
    assert not rest.has_more
    assert link.command("LLEN", keys.dispatch) == 0


def test_an_exception_out_of_the_block_is_a_failure_of_the_last_message(make: Make) -> None:
    seq = make(backoff=30)
    fill(seq)
    with pytest.raises(ValueError, match="mine"), seq.claim() as lease:
        for message in lease:
            if message.body == 1:
                raise ValueError("mine")
            lease.ack(message)
    (info,) = seq.groups()
    assert (info.state, info.attempts, info.head_id) == ("waiting", 1, "0-1")
    assert info.failure is not None
    assert (info.failure.type, info.failure.message) == ("ValueError", "mine")


def test_nack_and_park_say_it_outright(make: Make) -> None:
    seq = make(max_attempts=3)
    fill(seq)
    with seq.claim() as lease:
        for message in lease:
            lease.nack(message, "later", after=30)
    (info,) = seq.groups()
    assert (info.state, 25 < (info.due_in_s or 0) <= 30) == ("waiting", True)
    assert seq.resume(0)
    with seq.claim() as lease:
        for message in lease:
            assert message.attempt == 1
            lease.park(message, "a person must look")
    (info,) = seq.parked()
    assert info.failure is not None
    assert info.failure.message == "a person must look"
    seq.resume(0)
    with seq.claim() as lease:
        for message in lease:
            lease.nack(message, Park("so be it"))
    assert [info.state for info in seq.groups()] == ["parked"]


def test_a_lost_lease_can_not_acknowledge(seq: Sequencer, link: Link, keys: ShardKeys) -> None:
    fill(seq, length=1)
    with seq.claim() as lease:
        (message,) = lease
        link.command("ZADD", keys.schedule, "XX", "1", "0")
        with seq.claim() as other:
            (again,) = other
            assert again.token > message.token
            assert again.attempt == 2
            with refused(LeaseLost, "lease_lost", group=("0",)):
                lease.ack(message)
            with pytest.raises(LeaseLost):
                lease.ack(message)
            other.ack(again)
    assert seq.info().backlog == 0


def test_renew_prolongs_and_says_when_the_lease_is_lost(seq: Sequencer, link: Link, keys: ShardKeys) -> None:
    fill(seq)
    with seq.claim(lease=5) as lease:
        lease.renew()
        assert lease.remaining_s > 4.5
        link.command("HDEL", keys.leases, "0")
        with pytest.raises(LeaseLost):
            lease.renew()


def test_messages_are_acknowledged_in_order_and_once(seq: Sequencer) -> None:
    fill(seq, length=2)
    with seq.claim() as lease:
        (first,) = lease
        lease.ack(first)
        with refused(InvalidMessage, "not_next"):
            lease.ack(first)
        with refused(InvalidMessage, "not_next"):
            lease.ack(first._replace(id="other"))


def test_release_is_harmless_to_repeat_and_hands_the_group_on(make: Make) -> None:
    seq = make()
    fill(seq)
    lease = seq.claim()
    assert not make().claim()
    lease.release()
    lease.release()
    assert list(lease) == []
    assert make().claim().remaining_s > 0


def test_an_exception_is_not_hidden_by_a_lost_lease_and_the_rest_is_released(
    seq: Sequencer, link: Link, keys: ShardKeys
) -> None:
    fill(seq, groups=3)
    with pytest.raises(ValueError, match="mine"), seq.claim(groups=3, lease=30) as lease:
        for message in lease:
            link.command("HDEL", keys.leases, message.group[0])
            raise ValueError("mine")
    assert len(seq.groups("due")) == 2
    link.command("ZADD", keys.schedule, "XX", "1", "0")


def test_a_lost_reply_is_no_lost_lease(make: Make, proxy: FaultProxy) -> None:
    seq = make(redis=proxy.url)
    seq.append(1, group="g")
    with seq.claim() as lease:
        (message,) = lease
        proxy.add("reply lost", times=None)
        healing = threading.Timer(0.02, proxy.clear)
        healing.start()
        lease.ack(message)
        healing.join()
    assert proxy.effects["reply lost"] >= 1
    assert seq.info().totals["handled"] == 1


def test_a_message_whose_lease_has_ended_is_not_given(seq: Sequencer) -> None:
    seq.append(1, group="g")
    with seq.claim(lease=0.1) as lease:
        wait_until(lambda: lease.remaining_s <= 0, what="the end of the lease")
        assert list(lease) == []
    assert [message.attempt for message in seq.claim()] == [1], "nobody had begun it"


def test_a_shard_that_has_something_due_is_found_wherever_the_look_begins(make: Make) -> None:
    """It begins at a random one: the chance that it never begins behind it is one in 16 million."""
    seq = make("wide", shards=2)
    seq.append(1, group="g")
    for _ in range(24):
        with seq.claim() as lease:
            assert len(lease) == 1


@pytest.mark.parametrize("way", ["ack", "nack"])
def test_what_was_given_back_can_not_be_acknowledged_over_a_network_that_repeats(
    make: Make, proxy: FaultProxy, way: str
) -> None:
    """The second refusal of one call may be the answer to a success; not where the lease was over before the first."""
    far = make(redis=proxy.url)
    far.append(1, group="g")
    lease = far.claim()
    (message,) = lease
    lease.release()
    proxy.add("reply lost", times=1)
    with pytest.raises(LeaseLost):
        getattr(lease, way)(message)
    proxy.clear()
    assert far.info().backlog == 1


def test_a_lost_lease_is_no_failure_of_the_message_in_hand(seq: Sequencer, link: Link, keys: ShardKeys) -> None:
    for group in "ab":
        seq.append(1, group=group)
    given = []
    with pytest.raises(LeaseLost), seq.claim(groups=2) as lease:
        for message in lease:
            given.append(message.group[0])
            link.command("HDEL", keys.leases, "b" if message.group[0] == "a" else "a")
            lease.renew()
    (info,) = (info for info in seq.groups() if info.group == (given[0],))
    assert (info.state, info.attempts, info.failure) == ("due", 0, None)


def test_a_message_that_was_given_back_is_not_failed_once_more(
    seq: Sequencer, caplog: pytest.LogCaptureFixture
) -> None:
    seq.append(1, group="g")
    with pytest.raises(ValueError, match="mine"), seq.claim() as lease:
        for message in lease:
            lease.nack(message, "later", after=30)
            said = len(caplog.records)
            raise ValueError("mine")
    assert len(caplog.records) == said
    (info,) = seq.groups()
    assert info.failure is not None
    assert (info.state, info.attempts, info.failure.message) == ("waiting", 1, "later")


class Cut(Wire):
    """Loses every connection on which something is sent, once `is_cut`."""

    is_cut = False

    def sending(self, commands: list[Any]) -> list[Any]:
        if Cut.is_cut:
            raise redis.ConnectionError("cut")
        return commands


@pytest.mark.parametrize("error", [ValueError("mine"), None])
def test_a_server_that_is_away_at_the_end_hides_no_exception_and_is_said_where_there_is_none(
    make: Make, seq: Sequencer, monkeypatch: pytest.MonkeyPatch, error: ValueError | None
) -> None:
    far = make(redis=wired(seq.endpoint, Cut))
    far.append(1, group="g")
    with pytest.raises(ValueError if error else ServerUnavailable), far.claim() as lease:
        for _ in lease:
            monkeypatch.setattr(Cut, "is_cut", True)
            if error:
                raise error
    assert [info.state for info in seq.groups()] == ["leased"]

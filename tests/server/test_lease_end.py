"""How a lease ends, in a loop of one's own: what is not given any more, and what an exception leaves behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import redis

from sequencer import Sequencer
from sequencer.errors import LeaseLost, ServerUnavailable
from sequencer.net.link import Link
from sequencer.store.keys import ShardKeys, shard_keys
from sequencer.testing import wait_until
from sequencer.testing.wire import Wire, wired
from tests.support.proxy.fault_proxy import FaultProxy


@pytest.fixture
def keys(namespace: str) -> ShardKeys:
    return shard_keys(namespace, "jobs", 0)


def test_a_message_whose_lease_has_ended_is_not_given(seq: Sequencer) -> None:
    seq.append(1, group="g")
    with seq.claim(lease=0.1) as lease:
        wait_until(lambda: lease.remaining_s <= 0, what="the end of the lease")
        assert list(lease) == []
    assert [message.attempt for message in seq.claim()] == [1], "nobody had begun it"


def test_nothing_is_given_after_the_release(seq: Sequencer) -> None:
    seq.append_many({"group": "g", "body": n} for n in range(3))
    lease = seq.claim()
    lease.release()
    assert list(lease) == []
    assert len(seq.claim()) == 3


def test_a_shard_that_has_something_due_is_found_wherever_the_look_begins(make: Callable[..., Sequencer]) -> None:
    """It begins at a random one: the chance that it never begins behind it is one in 16 million."""
    seq = make("wide", shards=2)
    seq.append(1, group="g")
    for _ in range(24):
        with seq.claim() as lease:
            assert len(lease) == 1


@pytest.mark.parametrize("way", ["ack", "nack"])
def test_what_was_given_back_can_not_be_acknowledged_over_a_network_that_repeats(
    make: Callable[..., Sequencer], proxy: FaultProxy, way: str
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


# -- what is given up instead ---------------------------------------------------------------------------------------


def test_a_redriven_message_is_given_though_it_is_late(make: Callable[..., Sequencer]) -> None:
    """A person put it back: it is not to become a dead letter again."""
    seq = make(on_late="dead_letter")
    seq.append("high", group="g", score=5)
    seq.consume(lambda message: None, until_empty=True)
    seq.append("low", group="g", score=3)
    seq.redrive(everything=True)
    with seq.claim() as lease:
        assert [(message.body, message.late, message.redriven) for message in lease] == [("low", True, True)]
    assert seq.dead() == []


# -- leaving the block by an exception ------------------------------------------------------------------------------


def test_a_lost_lease_is_no_failure_of_the_message_in_hand(seq: Sequencer, link: Link, keys: ShardKeys) -> None:
    """It was another group's, and nobody has failed at this one."""
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
    """And nobody is warned that this could not be done."""
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


def test_an_exception_is_not_hidden_by_a_server_that_is_away(
    make: Callable[..., Sequencer], seq: Sequencer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it leaves behind waits for the end of the lease."""
    far = make(redis=wired(seq.endpoint, Cut))
    far.append(1, group="g")
    with pytest.raises(ValueError, match="mine"), far.claim() as lease:
        for _ in lease:
            monkeypatch.setattr(Cut, "is_cut", True)
            raise ValueError("mine")
    (info,) = seq.groups()
    assert info.state == "leased"


def test_that_the_rest_could_not_be_released_is_said_where_no_exception_is(
    make: Callable[..., Sequencer], seq: Sequencer, monkeypatch: pytest.MonkeyPatch
) -> None:
    far = make(redis=wired(seq.endpoint, Cut))
    far.append(1, group="g")
    with pytest.raises(ServerUnavailable), far.claim():
        monkeypatch.setattr(Cut, "is_cut", True)

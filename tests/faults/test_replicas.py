"""Replicas: the repeat of an append whose answer is lost, and the start of a `once` step that a failover loses.

The repeat comes by another connection, and WAIT speaks of that one's writes only. It is honest since each append
writes: where nothing is added, the shard's clock.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sequencer import Event, Sequencer
from sequencer.errors import NotReplicated
from sequencer.testing import wait_until
from tests.support.proxy.fault_proxy import FaultProxy

from ..support.changed_script import changed_script
from ..support.refused import refused
from .server.failover import QUICK
from .server.host import Host, free_port, running, workplace

pytestmark = [pytest.mark.slow, pytest.mark.nightly]


@pytest.fixture
def pair() -> Iterator[tuple[Host, Host]]:
    """A primary and its replica."""
    with workplace() as directory:
        primary = Host(directory / "a", *QUICK, port=free_port())
        replica = Host(directory / "b", "--replicaof", "127.0.0.1", str(primary.port), port=free_port())
        with running(primary), running(replica):
            wait_until(lambda: replica.info("replication")["master_link_status"] == "up")
            yield primary, replica


def append_confirmed(host: Host, id: str) -> None:
    with Sequencer("jobs", host.url, wait_replicas=1, wait_timeout=4.0) as seq:
        seq.append(1, "g", id=id)


@pytest.fixture
def primary(pair: tuple[Host, Host]) -> Iterator[Host]:
    """Its replica has all that was written so far, and then stands still."""
    host, replica = pair
    append_confirmed(host, "first")
    assert replica.process
    os.kill(replica.process.pid, signal.SIGSTOP)
    yield host
    os.kill(replica.process.pid, signal.SIGCONT)


def append(host: Host, how: str) -> None:
    """One whose first answer is lost."""
    proxy = FaultProxy(host.url, Path(host.directory) / "proxy")
    try:
        with Sequencer("jobs", proxy.url, wait_replicas=1, wait_timeout=0.2) as seq:
            seq.info()
            proxy.add("reply lost", on=("append",))
            if how == "one":
                seq.append(1, "g", id="m")
            else:
                seq.append_many([{"body": 1, "group": group, "id": "m"} for group in "gh"])
    finally:
        effects = dict(proxy.effects)
        proxy.close()
    assert effects == {"reply lost": 1}


@pytest.mark.parametrize("how", ["one", "many"])
def test_the_repeat_of_an_append_is_not_said_to_be_on_replicas_that_lack_it(primary: Host, how: str) -> None:
    with refused(NotReplicated, "not_replicated", confirmed=0, replicas=1):
        append(primary, how)


def test_a_repeat_that_writes_nothing_is_found(primary: Host) -> None:
    if "valkey_version" not in primary.info("server"):
        pytest.skip("Redis 7.0 takes what a connection read as its write")
    short = "if words == '' and is_plain and not relay then"
    reads = "if call('HEXISTS', prefix .. 'body:' .. group, id) == 1 then return '=0000000000000000' end\n"
    with changed_script("append", short, reads + short):
        append(primary, "one")


def consumed(seq: Sequencer, *, calls: list[str]) -> None:
    """Until the step failed, or ran."""
    consumers: list[Any] = []

    @seq.observe
    def failed(event: Event) -> None:
        consumers[0].stop()

    @seq.step(once=True)
    def charge(message: Any) -> None:
        calls.append(message.id)
        consumers[0].stop()

    seq.consume(on_start=consumers.append)


@pytest.mark.parametrize(
    ("replicas", "ran"), [(1, ["m"]), (0, ["m", "m"])], ids=["waits", "its control, which does not"]
)
def test_a_start_that_a_failover_loses(pair: tuple[Host, Host], replicas: int, ran: list[str]) -> None:
    """The old primary is cut off when the replica takes its place, and goes on for a moment."""
    primary, replica = pair
    calls: list[str] = []
    append_confirmed(primary, "m")
    replica.command("REPLICAOF", "NO", "ONE")
    with Sequencer("jobs", primary.url, wait_replicas=replicas, wait_timeout=0.2) as first:
        consumed(first, calls=calls)
    primary.kill()
    with Sequencer("jobs", replica.url) as second:
        consumed(second, calls=calls)
        assert calls == ran
        assert list(second.parked()) == [], "nobody is asked about what never began"

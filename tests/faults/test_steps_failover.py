"""A `once` step and a failover that loses the start of it: with `wait_replicas` the step runs once all the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sequencer import Event, Sequencer
from sequencer.testing import wait_until

from .server.failover import QUICK
from .server.host import Host, free_port, running, workplace

pytestmark = pytest.mark.nightly


@pytest.fixture
def pair() -> Iterator[tuple[Host, Host]]:
    """A primary and its replica."""
    with workplace() as directory:
        path = Path(directory)
        primary = Host(path / "a", *QUICK, port=free_port())
        replica = Host(path / "b", "--replicaof", "127.0.0.1", str(primary.port), port=free_port())
        with running(primary), running(replica):
            wait_until(lambda: replica.info("replication")["master_link_status"] == "up")
            yield primary, replica


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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("replicas", "ran"), [(1, ["m"]), (0, ["m", "m"])], ids=["waits", "its control, which does not"]
)
def test_a_start_that_a_failover_loses(pair: tuple[Host, Host], replicas: int, ran: list[str]) -> None:
    """The old primary is cut off when the replica takes its place, and goes on for a moment."""
    primary, replica = pair
    calls: list[str] = []
    with Sequencer("jobs", primary.url, wait_replicas=1, wait_timeout=4.0) as producer:
        producer.append(1, "g", id="m")
    replica.command("REPLICAOF", "NO", "ONE")
    with Sequencer("jobs", primary.url, wait_replicas=replicas, wait_timeout=0.2) as first:
        consumed(first, calls=calls)
    primary.kill()
    with Sequencer("jobs", replica.url) as second:
        consumed(second, calls=calls)
        assert calls == ran
        assert list(second.parked()) == [], "nobody is asked about what never began"

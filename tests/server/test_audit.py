"""What consumers with audit=True record, and what the audit shows of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sequencer import EmbeddedServer, Message, Sequencer
from sequencer.net.blocking import BlockingNet, finish
from sequencer.net.endpoint import Endpoint
from sequencer.net.faces import Listing
from sequencer.net.link import Link
from sequencer.queue.audit import prove_shards, read_records
from sequencer.store.group import encode_group
from sequencer.store.keys import ShardKeys, shard_keys
from sequencer.testing import wait_until
from sequencer.values.views import AuditReport

from ..support.background import Background


@pytest.fixture
def net(server: EmbeddedServer) -> Iterator[BlockingNet]:
    net = BlockingNet(server.url, lambda: Endpoint.from_url(server.url))
    yield net
    net.close()


@pytest.fixture
def audit(net: BlockingNet, namespace: str) -> Callable[..., AuditReport]:
    """The report of queue `jobs`, from its first `shards` shards."""

    def audit(shards: int = 1, **options: Any) -> AuditReport:
        return finish(prove_shards(net, [shard_keys(namespace, "jobs", shard) for shard in range(shards)], **options))

    return audit


def test_a_record_says_what_the_handler_saw(make: Callable[..., Sequencer], net: BlockingNet, keys: ShardKeys) -> None:
    seq = make()
    seen: list[Message] = []
    group: list[str | int] = ["ä:b", 7]
    for n in range(3):
        seq.append(n, group=group, id=f"ö{n}", score=n + 0.1)
    seq.consume(seen.append, until_empty=True, audit=True)
    records = list(Listing(read_records(net, keys.audit, b"+")))
    assert [record[:5] for record in records] == [
        (encode_group(group), message.id, message.score, message.stamp, message.token) for message in seen
    ]
    end = records[0].token
    for record in records:
        assert end <= record.began <= record.ended < (record.at_ms + 1) * 1000
        assert not record.redriven
        assert not record.refused
        if record.token == records[0].token:
            end = record.ended


def test_failures_redrives_and_timers_are_clean(
    make: Callable[..., Sequencer], audit: Callable[..., AuditReport]
) -> None:
    seq, seen = make(max_attempts=2, backoff=0, on_failure="dead_letter"), []
    for n in range(5):
        seq.append(n, group="g", id=f"m{n}", score=n)
    seq.append("later", group="g", id="t", score=4.5, delay=100)
    seq.append("held", group="g", id="u", score=9)

    def handler(message: Message) -> None:
        if message.body in (1, 3) and not message.redriven and (message.body == 1 or message.attempt == 1):
            raise ValueError("no")
        seen.append(message.body)

    with Background(seq, handler, audit=True):
        wait_until(lambda: len(seen) == 4, what="those before the timer")
        seq.reschedule("g", "t", delay=0.01)
        wait_until(lambda: len(seen) == 6, what="the timer and what it held back")
        assert seq.redrive("g", rate=1000).redriven == 1
        wait_until(lambda: len(seen) == 7, what="the redriven one")
    assert seen == [0, 2, 3, 4, "later", "held", 1]
    report = audit()
    assert (report.messages, report.duplicates, report.case) == (7, 0, None)


@pytest.mark.parametrize("is_found_by_renewal", [False, True])
def test_a_consumer_paused_past_its_lease_shows_as_refused_and_as_an_overlap(
    make: Callable[..., Sequencer],
    link: Link,
    keys: ShardKeys,
    audit: Callable[..., AuditReport],
    is_found_by_renewal: bool,
) -> None:
    seq = make()
    seq.append(1, group="g", id="x")
    release, begun = threading.Event(), threading.Event()
    began = time.monotonic()

    def paused(message: Message) -> None:
        begun.set()
        assert release.wait(20)

    options = {"lease": 0.3} if is_found_by_renewal else {}
    with Background(seq, paused, max_messages=1, audit=True, **options) as background:
        assert begun.wait(10)
        # As if this process had been paused past its lease: the group is due, and another consumer takes it.
        link.command("ZADD", keys.schedule, "XX", "1", "g")
        assert make().consume(lambda message: None, until_empty=True, audit=True).handled == 1
        before = audit()
        assert (before.messages, before.is_clean) == (1, True)
        # A run's end is taken as a thousandth of its age earlier: see DRIFT_PART.
        handled = time.monotonic()
        wait_until(lambda: time.monotonic() - handled > (handled - began) / 100)
        if is_found_by_renewal:
            wait_until(lambda: background.consumer._held.lost == 1, what="a renewal to be refused")
        release.set()
        background.thread.join(10)
    assert background.summary.lost == 1
    report = audit()
    assert (report.messages, report.duplicates, report.refused) == (1, 1, 1)
    assert (report.inversions, report.overlaps, report.tokens_back) == (0, 1, 0)
    assert (report.case or "").startswith("overlap in group g: x under token ")
    assert (report.case or "").endswith("; its acknowledgement was refused")


def test_a_lease_that_ran_out_unnoticed_shows_as_refused_alone(
    make: Callable[..., Sequencer], link: Link, keys: ShardKeys, audit: Callable[..., AuditReport]
) -> None:
    """Its run was over before the next one began: no overlap."""
    seq = make()
    for n in range(2):
        seq.append(n, group="g", id=f"m{n}", score=n)

    def handler(message: Message) -> None:
        link.command("HDEL", keys.leases, "g")
        link.command("ZADD", keys.schedule, "XX", "1", "g")

    assert seq.consume(handler, max_messages=1, audit=True).lost == 1
    assert make().consume(lambda message: None, until_empty=True, audit=True).handled == 2
    report = audit()
    assert (report.messages, report.duplicates, report.refused, report.case) == (2, 1, 1, None)


def test_the_stream_is_bounded_and_says_that_it_was_trimmed(
    seq: Sequencer, link: Link, namespace: str, audit: Callable[..., AuditReport]
) -> None:
    seq.append_many({"body": n, "group": n % 3, "score": n} for n in range(1000))
    seq.consume(lambda message: None, until_empty=True, audit=True, audit_length=200)
    length = link.command("XLEN", shard_keys(namespace, "jobs", 0).audit)
    assert 200 <= length <= 300, "Redis trims whole nodes of a hundred entries"
    report = audit()
    assert (report.messages, report.case) == (length, None)
    assert report.is_trimmed


def test_without_audit_nothing_is_recorded(
    seq: Sequencer, link: Link, namespace: str, audit: Callable[..., AuditReport]
) -> None:
    seq.append(1, group="g")
    assert seq.consume(lambda message: None, until_empty=True).handled == 1
    assert link.command("EXISTS", shard_keys(namespace, "jobs", 0).audit) == 0
    report = audit()
    assert (report.messages, report.first_at, report.is_clean, report.is_trimmed) == (0, None, True, False)

"""A server that begins to evict under its clients: they stop within seconds, and at once where they meet a loss.

Most losses are met by nobody: an evicted schedule or order looks like an empty one. A look every few seconds finds it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator

import pytest

from sequencer import ClaimLimits, Message, Sequencer
from sequencer.errors import LeaseLost, ServerNotUsable
from sequencer.net.link import CHECK_EVERY_S, REFRESH_EVERY_S, Link
from sequencer.settings.pace import SILENT_S
from sequencer.store.keys import registry_key, shard_keys
from sequencer.testing import wait_until

from ..support.command_counts import command_counts
from ..support.link_clock import LinkClock, stopped_clock
from ..support.refused import refused

KEYS = shard_keys("sequencer", "q", 0)
SOON_S = CHECK_EVERY_S + 0.1
EVICTS: tuple[type[ServerNotUsable], str] = (ServerNotUsable, "is_evicting")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> LinkClock:
    return stopped_clock(monkeypatch)


@pytest.fixture
def seq(admin: Link, clock: LinkClock) -> Iterator[Sequencer]:
    with Sequencer("q", str(admin.endpoint.url)) as found:
        yield found


def begin_to_evict(admin: Link, *evicted: str) -> None:
    """From now on the server may evict; it has evicted these keys."""
    admin.command("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    admin.command("CONFIG", "SET", "maxmemory", "100mb")
    if evicted:
        admin.command("DEL", *evicted)


def end_it(admin: Link) -> None:
    admin.command("CONFIG", "SET", "maxmemory-policy", "noeviction")


def left(admin: Link) -> tuple[int, int]:
    """How many messages there are, and how many leased groups, once the server is as it should be."""
    end_it(admin)
    with Sequencer("q", str(admin.endpoint.url)) as new:
        info = new.info()
        return info.backlog, info.leased


# -- by time ------------------------------------------------------------------------------------------------------


def test_a_busy_producer_notices_within_seconds(admin: Link, clock: LinkClock, seq: Sequencer) -> None:
    seq.append(1, "g")
    begin_to_evict(admin)
    clock.now += CHECK_EVERY_S - 0.1
    seq.append(2, "g")
    clock.now += 0.2
    for _ in range(2):
        with refused(*EVICTS) as caught:
            seq.append(3, "g")
        assert caught.value.fields["was_fit"]
    end_it(admin)
    assert seq.append(3, "g").outcome == "stored", "and that it does no more is noticed at once"


@pytest.mark.parametrize("shards", [1, 2])
def test_a_consumer_whose_handlers_do_nothing_notices_and_acknowledges_what_it_did(
    admin: Link, clock: LinkClock, shards: int
) -> None:
    """Its next claim is always on its way: it is waited for, then the server is looked at."""
    seen: list[str] = []

    def handle(message: Message) -> None:
        seen.append(message.id)
        if len(seen) == 500:
            begin_to_evict(admin)
            clock.now += SOON_S

    with Sequencer("q", str(admin.endpoint.url), shards=shards) as seq:
        seq.append_many({"body": n, "group": f"g{n % 400}"} for n in range(4000))
        with refused(*EVICTS):
            seq.consume(handle)
    assert 500 <= len(seen) < 4000
    assert left(admin) == (4000 - len(seen), 0), "what was handled is acknowledged, and all else released"


def test_an_idle_consumer_notices_at_its_next_look(admin: Link, clock: LinkClock, seq: Sequencer) -> None:
    """Its claims go behind its waits, over another connection, and the one of its acknowledgements is hardly used."""
    seq.append(1, "g")

    def go_on() -> None:
        wait_until(lambda: not admin.command("EXISTS", KEYS.order("g")))
        begin_to_evict(admin)
        clock.now += REFRESH_EVERY_S + 1

    other = threading.Thread(target=go_on)
    other.start()
    began = time.monotonic()
    with refused(*EVICTS):
        seq.consume(lambda _: None)
    other.join()
    assert time.monotonic() - began < SILENT_S


def test_a_lease_is_renewed_beside_a_handler_whatever_the_server_became(
    admin: Link, clock: LinkClock, seq: Sequencer
) -> None:
    """Else others would handle the message too, while its handler runs."""
    seq.append(1, "g")

    def handle(_: Message) -> None:
        before = float(admin.command("ZSCORE", KEYS.schedule, "g"))
        begin_to_evict(admin)
        clock.now += REFRESH_EVERY_S + 1
        wait_until(lambda: float(admin.command("ZSCORE", KEYS.schedule, "g")) > before)

    with refused(*EVICTS):
        seq.consume(handle, lease=0.6)
    assert left(admin) == (0, 0)


def test_a_look_costs_a_round_trip_in_two_seconds_and_none_between(
    admin: Link, clock: LinkClock, seq: Sequencer
) -> None:
    seq.append(1, "g")
    admin.command("CONFIG", "RESETSTAT")
    for _ in range(100):
        clock.now += CHECK_EVERY_S / 10
        seq.append(1, "g")
    assert 9 <= command_counts(admin)["info"] <= 10


# -- at once, where something is lost: the clock stands still -----------------------------------------------------


@pytest.mark.timeout(30)
@pytest.mark.parametrize("lost", [KEYS.leases, KEYS.policy, KEYS.body("g")])
def test_a_consumer_looks_at_once_where_a_lease_its_generation_or_a_body_is_lost(
    admin: Link, seq: Sequencer, lost: str
) -> None:
    for n in range(20):
        seq.append(n, "g")
    seen: list[str] = []

    def handle(message: Message) -> None:
        if not seen:
            begin_to_evict(admin, lost)
        seen.append(message.id)

    with refused(*EVICTS):
        seq.consume(handle, until_empty=True, lease=600, limits=ClaimLimits(groups=1, messages=1))


@pytest.mark.parametrize("lost", [KEYS.body("g"), KEYS.leases])
def test_a_lease_of_ones_own_loop_is_a_reason_to_look_too(admin: Link, seq: Sequencer, lost: str) -> None:
    seq.append(1, "g")
    if lost == KEYS.leases:
        lease = seq.claim()
        begin_to_evict(admin, lost)
        with pytest.raises(LeaseLost):
            lease.ack(next(iter(lease)))
    else:
        begin_to_evict(admin, lost)
        with refused(*EVICTS):
            list(seq.claim())
    with refused(*EVICTS):
        seq.append(2, "g")


def test_a_producer_does_not_register_again_what_an_evicting_server_lost(
    admin: Link, seq: Sequencer, caplog: pytest.LogCaptureFixture
) -> None:
    seq.append(1, "g")
    begin_to_evict(admin, KEYS.policy, registry_key("sequencer", "q"))
    with caplog.at_level(logging.WARNING, "sequencer"), refused(*EVICTS):
        seq.append(2, "g")
    assert "registered again" not in caplog.text
    end_it(admin)
    assert seq.append(2, "g").outcome == "stored"


def test_what_is_lost_on_a_sound_server_stops_nobody(admin: Link, seq: Sequencer) -> None:
    seen: list[str] = []
    for n in range(3):
        seq.append(n, "g", id=f"m{n}")

    def handle(message: Message) -> None:
        if not seen:
            admin.command("DEL", KEYS.leases)
        seen.append(message.id)

    assert seq.consume(handle, lease=0.5, until_empty=True).lost == 1
    assert set(seen) == {"m0", "m1", "m2"}


def test_a_server_behind_a_new_connection_is_checked_as_the_first_was(admin: Link, seq: Sequencer) -> None:
    seq.append(1, "g")
    begin_to_evict(admin)
    admin.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    with refused(*EVICTS):
        seq.append(2, "g")

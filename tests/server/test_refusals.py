"""What the server refuses is said as it is: neither an unknown outcome nor another error stands in for it; and which
server a client takes.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis
from redis.connection import DefaultParser

import sequencer
from sequencer import AsyncSequencer, EmbeddedServer, Sequencer, SequencerError
from sequencer.errors import (
    ConfigurationError,
    DataError,
    OutcomeUnknown,
    QueueFull,
    ServerNotUsable,
    ServerUnavailable,
)
from sequencer.net.endpoint import Endpoint
from sequencer.net.refusals import translate
from tests.support.handling import Make
from tests.support.proxy.fault_proxy import FaultProxy

from ..support.refused import refused
from .conftest import command

BATCH = [{"body": n, "group": n} for n in range(20)]


def test_a_full_server_refuses_a_batch_over_shards_with_queue_full(
    start_server: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Redis 7.0 refuses the EXEC with words of its own; Valkey answers to each command of the MULTI."""
    binary = shutil.which("redis-server")
    if not binary:
        pytest.skip("needs redis-server on PATH (Debian: apt-get install redis-server)")
    monkeypatch.setenv("SEQUENCER_TEST_BINARY", binary)
    path = start_server()
    with Sequencer("q", f"unix://{path}", shards=4) as seq:
        seq.append(0, group="a")
        command(path, "CONFIG", "SET", "maxmemory", "1mb")
        with pytest.raises(QueueFull):
            seq.append_many(BATCH)


@pytest.mark.parametrize("shards", [1, 4])
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("OOM", QueueFull),
        ("NOPERM", ServerNotUsable),
        *[(name, ServerUnavailable) for name in ("BUSY", "LOADING", "READONLY", "MISCONF", "NOREPLICAS")],
    ],
)
def test_a_refusal_is_no_unknown_outcome(
    make: Make, server: EmbeddedServer, name: str, kind: type[SequencerError], shards: int
) -> None:
    with FaultProxy(server.url) as proxy:
        seq = make(redis=proxy.url, shards=shards)
        seq.append(0, group="a")
        proxy.add(f"error {name}", on=["append"], times=None)
        with pytest.raises(kind):
            seq.append_many(BATCH)
    assert make().info().backlog == 1


def test_a_refusal_after_a_lost_reply_is_an_unknown_outcome(make: Make, server: EmbeddedServer) -> None:
    with FaultProxy(server.url) as proxy:
        seq = make(redis=proxy.url)
        seq.append(0, group="a")
        proxy.add("reply lost", on=["append"])
        proxy.add("error BUSY", on=["append"], times=None)
        with pytest.raises(OutcomeUnknown):
            seq.append(1, group="a", id="m")
    assert make().append(1, group="a", id="m").duplicate


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("CLUSTERDOWN The cluster is down", ServerUnavailable),
        ("MOVED 1234 127.0.0.1:7001", ServerNotUsable),
        ("CROSSSLOT Keys in request don't hash to the same slot", DataError),
        ("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.", ServerUnavailable),
    ],
)
def test_errors_are_known_as_the_driver_gives_them(said: str, kind: type) -> None:
    """redis-py takes the first word off."""
    parser: Any = DefaultParser(65536)  # redis-py types no parser
    error = parser.parse_error(said)
    assert type(translate(error, "s")) is kind, error


def test_a_url_may_give_its_own_timeouts() -> None:
    connection = Endpoint.from_url("redis://127.0.0.1:1?socket_timeout=0.25").make()
    assert (connection.socket_timeout, connection.socket_connect_timeout) == (0.25, 0.25)
    both = Endpoint.from_url("redis://127.0.0.1:1?socket_timeout=0.25&socket_connect_timeout=2").make()
    assert (both.socket_timeout, both.socket_connect_timeout) == (0.25, 2.0)


@pytest.mark.slow
def test_a_call_ends_in_its_time_with_all_its_repeats(proxy: FaultProxy, namespace: str) -> None:
    """Of a server that says nothing: three attempts would take three times as long."""

    async def append() -> None:
        async with AsyncSequencer("q", proxy.url, namespace=namespace, call_timeout=0.4) as awaited:
            await awaited.connect()
            proxy.add("black hole", seconds=60)
            await awaited.append(1, "g")

    with Sequencer("q", f"{proxy.url}?socket_timeout=30", namespace=namespace, call_timeout=0.4) as seq:
        seq.append(1, "g")
        proxy.add("black hole", seconds=60)
        for call in (lambda: seq.append(1, "g"), lambda: asyncio.run(append())):
            began = time.monotonic()
            with pytest.raises(OutcomeUnknown):
                call()
            assert 0.4 <= time.monotonic() - began < 1.2
            proxy.clear()


@pytest.mark.parametrize("policy", ["volatile-lru", "volatile-ttl"])
def test_a_server_that_evicts_only_keys_with_a_time_to_live_is_taken_and_loses_nothing(
    start_server: Callable[..., str], policy: str
) -> None:
    path = start_server("--maxmemory", "8mb", "--maxmemory-policy", policy)
    with redis.Redis(unix_socket_path=path) as others, Sequencer("q", f"unix://{path}") as seq:
        for n in range(20):
            others.set(f"cache:{n}", "x" * 10_000, ex=3600)
        stored = 0
        with pytest.raises(QueueFull):
            for n in range(10_000):
                seq.append("x" * 10_000, group=n % 7, id=n)
                stored += 1
        assert others.keys("cache:*") == []
        assert seq.consume(lambda message: None, until_empty=True).handled == stored > 0


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("SEQUENCER_REDIS", "", "url_empty"),
        ("SEQUENCER_REDIS", " ", "url_empty"),
        ("SEQUENCER_EMBEDDED", "never", "embedded_disabled"),
        ("SEQUENCER_EMBEDDED", "", "embedded_invalid"),
    ],
)
def test_the_embedded_server_is_not_taken_by_mistake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str, code: str
) -> None:
    home = tmp_path / "home"
    monkeypatch.setenv("SEQUENCER_HOME", str(home))
    monkeypatch.setenv(name, value)
    with refused(ConfigurationError, code):
        Sequencer("q").connect()
    with refused(ConfigurationError, code):
        sequencer.list_queues()
    assert not home.exists()

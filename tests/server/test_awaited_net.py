"""The awaited net: operations that are written once run over it too, on a real server, and by the same rules."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from sequencer import AsyncSequencer, EmbeddedServer, Sequencer
from sequencer.errors import ServerUnavailable
from sequencer.net.link import Link
from sequencer.store.keys import registry_key, shard_keys
from tests.support.refused import refused


def client(url: str, namespace: str, **options: Any) -> AsyncSequencer:
    return AsyncSequencer("jobs", url, namespace=namespace, **options)


def kill_others(link: Link) -> None:
    link.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")


def test_many_tasks_at_the_first_use_register_once_and_each_gets_its_own_answer(
    make: Callable[..., Sequencer], server: EmbeddedServer, namespace: str, link: Link
) -> None:
    async def many() -> list[Any]:
        async with client(server.url, namespace, shards=3, on_late="drop") as seq:
            link.command("CONFIG", "RESETSTAT")
            receipts = await asyncio.gather(*(seq.append(n, f"g{n}", id=f"m{n}") for n in range(30)))
            return [receipt.id for receipt in receipts]

    assert asyncio.run(many()) == [f"m{n}" for n in range(30)]
    stats = link.command("INFO", "commandstats").decode()
    assert "cmdstat_exec:calls=1," in stats, "for the rights"
    assert link.command("HGET", registry_key(namespace, "jobs"), "version") == b"0"
    assert make().policy.on_late == "drop"


def test_a_connection_that_was_lost_is_replaced_and_a_server_without_its_data_gets_shards_again(
    server: EmbeddedServer, namespace: str, link: Link
) -> None:
    registry = registry_key(namespace, "jobs")

    async def lost() -> None:
        async with client(server.url, namespace, shards=4) as seq:
            await seq.append(1, "g")
            kill_others(link)
            assert (await seq.append(2, "g")).outcome == "stored"
            link.command("DEL", f"{namespace}:queues", registry)
            kill_others(link)
            assert (await seq.explain("g")).reason == "due"
            assert link.command("HGET", f"{namespace}:queues", "jobs") == b"p3"
            assert link.command("HGET", registry, "table") == b"0 1 2 3"
            link.command("HSET", registry, "table", "0 1")
            kill_others(link)
            await seq.append(3, "g")
            assert link.command("HGET", registry, "table") == b"0 1 2 3", "what the first shard says counts"
            link.command("DEL", *[shard_keys(namespace, "jobs", shard).policy for shard in range(4)], registry)
            await seq.append(4, "g")
            assert link.command("HGET", registry, "table") == b"0 1 2 3", "without a new connection too"

    asyncio.run(lost())


def test_a_server_that_answers_one_after_the_other_is_not_silent(server: EmbeddedServer, namespace: str) -> None:
    """The last answer comes after three times the limit, and never is the server silent for as long as that."""

    async def wait() -> None:
        async with client(f"{server.url}?socket_timeout=0.3", namespace) as seq:
            waits = [seq._net.read([("BLPOP", f"nothing{n}", 0.15)]) for n in range(6)]
            assert await asyncio.gather(*waits) == [[None]] * 6

    asyncio.run(wait())


def test_a_server_that_is_away_is_said() -> None:
    async def away() -> None:
        async with client("redis://127.0.0.1:1", "n") as seq:
            with refused(ServerUnavailable, "unreachable") as failed:
                await seq.append(1, "g")
            assert not failed.value.maybe_sent

    asyncio.run(away())

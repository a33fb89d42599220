"""A server that lost its data under running clients, and rights that go away: what is stored after it can be found.

Found by `python -m tests.faults server`.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import redis

from sequencer import Message, Sequencer
from sequencer.doctor.diagnose import is_healthy
from sequencer.doctor.rights import commands_of
from sequencer.errors import DataError, ServerNotUsable
from sequencer.net.blocking import finish
from sequencer.net.link import Link
from sequencer.queue.registry.generation_search import GenerationSearch
from sequencer.store.keys import registry_key, shard_keys
from sequencer.testing import wait_until

from ..support.background import Background
from ..support.invariants import check_invariants
from ..support.own_server import client
from ..support.refused import refused


def lose_everything(admin: Link) -> None:
    """As a restart without persistence: no data, no scripts, and every connection is cut."""
    admin.command("FLUSHALL")
    admin.command("SCRIPT", "FLUSH")
    admin.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")


def shards_of(admin: Link) -> int:
    """As registered."""
    return len((admin.command("HGET", registry_key("sequencer", "q"), "table") or b"").split())


def append_in_fork(seq: Sequencer, append: Callable[[Sequencer], None]) -> None:
    """Its first connection is new, and no lost one tells it that the server lost its data."""
    if (pid := os.fork()) == 0:
        is_done = False
        try:
            append(seq)
            is_done = True
        finally:
            os._exit(0 if is_done else 1)
    assert os.waitpid(pid, 0)[1] == 0


@pytest.mark.parametrize("way", ["at once", "closed", "another thread", "fork", "pipeline"])
def test_a_queue_keeps_its_shards_and_policy(admin: Link, caplog: pytest.LogCaptureFixture, way: str) -> None:
    """Also over a connection that is new, or its caller's, which does not tell that the server was away."""
    caplog.set_level(logging.WARNING, "sequencer")

    def append_forty(seq: Sequencer) -> None:
        for n in range(40):
            seq.append(n, f"g{n}", id=f"m{n}")

    def append_on_pipelines(seq: Sequencer) -> None:
        with redis.Redis.from_url(str(admin.endpoint.url)) as own:
            for n in range(40):
                with own.pipeline(transaction=True) as pipeline:
                    seq.append(n, f"g{n}", id=f"m{n}", pipeline=pipeline)
                    pipeline.execute()

    with client(admin, shards=4, dedup_window=5.0) as old:
        old.append(0, "g0")
        if way == "closed":
            old.close()
        with old._net.link() if way == "another thread" else nullcontext():
            lose_everything(admin)
            if way == "fork":
                append_in_fork(old, append_forty)
            else:
                (append_on_pipelines if way == "pipeline" else append_forty)(old)
    assert way == "fork" or "registered again, with 4 shards" in caplog.text
    seen: list[str] = []
    with client(admin) as new:
        new.consume(lambda message: seen.append(message.id), until_empty=True)
        assert new.policy.dedup_window == 5.0
    assert sorted(seen) == sorted(f"m{n}" for n in range(40))


def test_a_running_consumer_brings_its_shards_too(admin: Link) -> None:
    seen: list[str] = []
    with client(admin, shards=3) as old, client(admin) as new:
        old.append(0, "g0", id="first")
        with Background(old, lambda message: seen.append(message.id)):
            wait_until(lambda: seen == ["first"])
            lose_everything(admin)
            wait_until(lambda: shards_of(admin) == 3)
            for n in range(9):
                new.append(n, f"g{n}", id=f"m{n}")
            wait_until(lambda: len(seen) == 10)


def test_a_consumer_that_begins_after_the_loss_brings_its_shards(admin: Link) -> None:
    """Else it would look at four shards of a queue that all others take for one."""
    with client(admin, shards=4) as old:
        old.append(0, "g0")
        lose_everything(admin)
        old.consume(lambda message: None, until_empty=True)
    assert shards_of(admin) == 4


def test_another_number_of_shards_meanwhile_is_said_and_nothing_written(
    admin: Link, caplog: pytest.LogCaptureFixture
) -> None:
    """Else the doctor takes what was written for shards that somebody uses, and says to register them."""
    caplog.set_level(logging.WARNING, "sequencer")
    with client(admin, shards=4) as old:
        old.append(0, "g0")
        lose_everything(admin)
        with client(admin) as new:
            new.append(1, "g1")
        with refused(DataError, "shards_changed", before=4, now=1):
            old.append(2, "g2")
    assert "registered again" not in caplog.text
    assert admin.command("KEYS", "{sequencer:q:[123]}:*") == []
    with client(admin) as new:
        assert new.info().backlog == 1
        assert is_healthy(new.doctor())


def test_an_append_on_a_pipeline_costs_no_round_trip_of_its_own(admin: Link) -> None:
    with redis.Redis.from_url(str(admin.endpoint.url)) as own, client(admin) as seq:
        seq.append(0, "g")
        admin.command("CONFIG", "RESETSTAT")
        with own.pipeline(transaction=True) as pipeline:
            for n in range(10):
                seq.append(n, "g", pipeline=pipeline)
        info = admin.command("INFO", "stats").decode()
    assert "total_commands_processed:1\r\n" in info, "the INFO would be the second"


def test_a_look_beside_a_registration_does_not_undo_it(admin: Link, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two threads of one client: the look began first and is done last. Else a lost server would stay without
    shards.
    """
    with client(admin, shards=4) as seq:
        search, todo = GenerationSearch.run, ["append"]

        async def slow(self: GenerationSearch) -> Any:
            if todo:
                todo.clear()
                await seq._session.shards("append")
            return await search(self)

        monkeypatch.setattr(GenerationSearch, "run", slow)
        finish(seq._session.shards())
        lose_everything(admin)
        assert seq.info().backlog == 0
    assert shards_of(admin) == 4


@pytest.mark.parametrize("script", ["ack", "nack"])
def test_a_right_that_goes_away_is_named_and_nothing_is_half_written(admin: Link, script: str) -> None:
    """Each command of the script is taken away while its consumer is at work; of `append`: test_append.py."""
    version = admin.command("INFO", "server").decode()
    # What a script reads before its first write the server itself refuses; Redis 7.0 does not say which command it was.
    is_unnamed = "redis_version:7.0." in version
    keys = shard_keys("sequencer", "q", 0)
    for right in sorted(commands_of(script) - {"TIME"}):
        admin.command("FLUSHALL")
        admin.command("ACL", "SETUSER", "app", "on", "nopass", "~*", "+@all")
        url = f"{admin.endpoint.url}?username=app&password=x"
        with Sequencer("q", url, max_attempts=1, on_failure="dead_letter") as seq:
            for n in range(3):
                seq.append(n, "g", id=f"m{n}")

            def handle(message: Message, right: str = right) -> None:
                admin.command("ACL", "SETUSER", "app", f"-{right.lower()}")
                if script == "nack":
                    raise ValueError("no")

            with pytest.raises(ServerNotUsable) as caught:
                seq.consume(handle)
            error = caught.value
            assert right.lower() in error.fields["error"].lower() or (is_unnamed and error.code == "some_right_denied")
            left = admin.command("ZCARD", keys.order("g")), admin.command("HLEN", keys.body("g"))
            assert left == (3, 3), right
            assert check_invariants(admin, [keys]) == [], right


@pytest.mark.parametrize("lost", ["everything", "shards", "registered anew"])
@pytest.mark.parametrize("transaction", [True, False])
def test_an_append_on_a_pipeline_is_refused_for_its_generation_once(admin: Link, lost: str, transaction: bool) -> None:
    with redis.Redis.from_url(str(admin.endpoint.url)) as own, client(admin, shards=2) as seq:
        pipeline = own.pipeline(transaction=transaction)
        for n in range(2):
            pipeline.set("own", n)
            seq.append(n, f"g{n}", pipeline=pipeline)
            assert len(pipeline.execute()) == 2
        admin.command("FLUSHALL")
        if lost != "everything":
            Sequencer("q", str(admin.endpoint.url), shards=3 if lost == "shards" else 2).connect()
        pipeline.set("own", 3)
        seq.append(3, "g", pipeline=pipeline)
        with pytest.raises(redis.ResponseError, match="GENERATION"):
            pipeline.execute()
        if lost == "shards":
            with refused(DataError, "shards_changed", before=2, now=3):
                seq.append(3, "g", pipeline=pipeline)
            return
        for n in range(3):
            seq.append(n, f"g{n}", id=f"again-{n}", pipeline=pipeline)
        assert len(pipeline.execute()) == 3
        assert seq.info().backlog == 3

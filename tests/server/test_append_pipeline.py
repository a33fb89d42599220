"""Appends on a caller's pipeline, whose errors only the caller hears."""

from __future__ import annotations

import pytest
import redis

from sequencer import Sequencer
from sequencer.errors import DataError
from sequencer.net.link import Link
from sequencer.queue.session import Session

from ..support.own_server import client


def test_an_append_in_a_callers_transaction_is_refused_and_the_next_one_goes(admin: Link) -> None:
    with redis.Redis.from_url(str(admin.endpoint.url)) as own, client(admin) as seq:
        seq.append(1, "g")
        with own.pipeline(transaction=True) as pipeline:
            pipeline.set("own", 1)
            seq.append(2, "g", id="x", pipeline=pipeline)
            admin.command("FLUSHALL")
            with pytest.raises(redis.ResponseError, match="GENERATION none"):
                pipeline.execute()
        assert own.get("own") == b"1", "the caller's own writes stand: append again with the same id"
        assert seq.append(2, "g", id="x").outcome == "stored"
        assert seq.info().backlog == 1


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
            with pytest.raises(DataError, match=r"had 2 shards.* start this program again"):
                seq.append(3, "g", pipeline=pipeline)
            return
        for n in range(3):
            seq.append(n, f"g{n}", id=f"again-{n}", pipeline=pipeline)
        assert len(pipeline.execute()) == 3
        assert seq.info().backlog == 3


def test_pipelines_beside_each_other_cost_no_look_until_one_was_refused(
    admin: Link, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a web application, where each thread has its own."""
    looks, ask_generation = list[str](), Session.ask_generation

    async def counted(session: Session) -> None:
        looks.append(session.generation)
        await ask_generation(session)

    monkeypatch.setattr(Session, "ask_generation", counted)
    with redis.Redis.from_url(str(admin.endpoint.url)) as own, client(admin) as seq:
        first, second = own.pipeline(), own.pipeline()
        for n in range(6):
            for pipeline in (first, second, first):
                seq.append(n, "g", pipeline=pipeline)
            assert len(first.execute()) == 2
            assert len(second.execute()) == 1
        assert looks == []
        for pipeline in (first, second):
            seq.append(1, "g", pipeline=pipeline)
        admin.command("FLUSHALL")
        with pytest.raises(redis.ResponseError, match="GENERATION"):
            first.execute()
        for _ in range(2):
            seq.append(2, "g", pipeline=first)
        assert len(first.execute()) == 2, "though another one is still open"
        with pytest.raises(redis.ResponseError, match="GENERATION"):
            second.execute()
        seq.append(2, "g", pipeline=second)
        assert len(second.execute()) == 1
        assert len(looks) == 2
        seq.append(3, "g", pipeline=own.pipeline())  # which is never sent
        seq.append(3, "g", pipeline=first)
        assert len(looks) == 3


def test_the_callers_client_gets_the_answers_of_its_own_scripts(admin: Link) -> None:
    with redis.Redis.from_url(str(admin.endpoint.url)) as own, client(admin) as seq, own.pipeline() as pipeline:
        seq.append(1, "g", pipeline=pipeline)
        pipeline.eval("return 7", 0)
        assert pipeline.execute()[1:] == [7]
        assert own.execute_command(b"EVAL", "return 8", 0) == 8

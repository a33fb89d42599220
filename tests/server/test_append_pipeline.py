"""Appends on a caller's pipeline, whose errors only the caller hears."""

from __future__ import annotations

import pytest
import redis

from sequencer import Sequencer
from sequencer.errors import DataError
from sequencer.net.link import Link

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

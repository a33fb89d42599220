"""004: a hash and a sorted set for each group; groups that are due; one group is drained in order, up to an error."""

from __future__ import annotations

from typing import Any

import pytest

from sequencer import Message
from sequencer.net.link import Link
from sequencer.store.keys import shard_keys

from .conftest import Load

ORDER, OTHER = ("1002", "2302393013"), ("1002", "7")


@pytest.fixture
def jobs(load: Load) -> Any:
    return load("job_sequencer", backoff=0.01)


def event(req_id: str, ts: float, order_id: int = 2302393013) -> dict[str, Any]:
    return {"user_id": 1002, "order_id": order_id, "req_id": req_id, "ts": ts}


def test_a_group_is_a_hash_and_a_sorted_set_by_score(jobs: Any, link: Link) -> None:
    """The answer has the size of the group, as ZCARD told it."""
    assert jobs.splice(event("e2", 1700000002.5)) == (True, "e2", 1)
    assert jobs.splice(event("e1", 1700000001.5)) == (True, "e1", 2)
    assert jobs.splice(event("e1", 1700000001.5)) == (False, "e1", 2)
    prefix = shard_keys(jobs.seq.options.namespace, "order_job", 0).prefix
    order, body = (f"{prefix}{name}:{':'.join(ORDER)}" for name in ("order", "body"))
    assert [link.command("TYPE", key) for key in (order, body)] == [b"zset", b"hash"]
    members = link.command("ZRANGE", order, 0, -1, "WITHSCORES")
    assert [(member[16:], float(score)) for member, score in zip(members[::2], members[1::2], strict=True)] == [
        (b"e1", 1700000001.5),
        (b"e2", 1700000002.5),
    ]
    assert sorted(link.command("HKEYS", body)) == [b"e1", b"e2"]


def test_a_group_that_is_locked_is_not_due_and_nobody_else_gets_it(jobs: Any) -> None:
    jobs.splice(event("e1", 1))
    jobs.splice(event("e2", 1, order_id=7))
    assert sorted(jobs.due_groups()) == [ORDER, OTHER]
    locked = []

    def handle(message: Message) -> None:
        assert jobs.due_groups() == [OTHER]
        assert jobs.drain(handle, ORDER) == 0
        locked.extend(jobs.seq.groups("leased"))

    assert jobs.drain(handle, ORDER) == 1
    (info,) = locked
    assert info.group == ORDER
    assert info.due_in_s == pytest.approx(3600, abs=60)
    assert jobs.due_groups() == [OTHER]


def test_the_named_group_is_drained_in_the_order_of_its_times(jobs: Any) -> None:
    jobs.splice(event("e0", 0, order_id=7))
    for req_id, ts in (("e3", 3), ("e1", 1), ("e2", 2)):
        jobs.splice(event(req_id, ts))
    seen: list[str] = []
    assert jobs.drain(lambda message: seen.append(message.id), ORDER) == 3
    assert seen == ["e1", "e2", "e3"]
    assert jobs.due_groups() == [OTHER]
    assert jobs.drain(seen.append, ORDER) == 0


def test_the_first_error_stops_the_drain_and_the_rest_stays(jobs: Any) -> None:
    for number in (1, 2, 3):
        jobs.splice(event(f"e{number}", number))
    seen: list[str] = []

    def handle(message: Message) -> None:
        seen.append(message.id)
        if seen == ["e1", "e2"]:
            raise ValueError("no stock")

    with pytest.raises(ValueError, match="no stock"):
        jobs.drain(handle, ORDER)
    assert [message.id for message in jobs.seq.peek(ORDER)] == ["e2", "e3"]
    jobs.seq.resume(ORDER)
    assert jobs.drain(handle, ORDER) == 2
    assert seen == ["e1", "e2", "e2", "e3"]

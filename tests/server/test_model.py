"""The scripts on the real server and the model answer the same calls alike, reply for reply and key for key."""

from __future__ import annotations

import math
import uuid
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sequencer import EmbeddedServer
from sequencer.auditor import audit
from sequencer.calls import Ack, Call, Claimed, Item, Nack, ack, append, claim, nack, renew, resume
from sequencer.connection import Endpoint
from sequencer.keys import LaneKeys, lane_keys
from sequencer.options import ClaimLimits
from sequencer.scripts import Link

from ..unit.model import ModelLane

GROUPS = ("a", "b", "c:1")
STEP = st.one_of(
    st.tuples(
        st.just("append"),
        st.lists(
            st.tuples(
                st.sampled_from(GROUPS),
                st.sampled_from("123456"),
                st.sampled_from(["", "1.0", "2.5"]),
                st.sampled_from("xy"),
            ),
            min_size=1,
            max_size=5,
            unique_by=lambda item: item[:2],
        ),
        st.sampled_from(["none", "others"]),
    ),
    st.tuples(st.just("claim"), st.integers(1, 3), st.integers(1, 20), st.sampled_from([1, 60, 10_000])),
    st.tuples(st.just("ack"), st.integers(0, 3), st.integers(0, 3), st.booleans(), st.booleans()),
    st.tuples(st.just("nack"), st.integers(0, 3), st.sampled_from([None, 0.5, 0.0])),
    st.tuples(st.just("renew"), st.integers(0, 3)),
    st.tuples(st.just("advance"), st.sampled_from([1, 500, 2000])),
)


class Both:
    """Runs each call on the server and on the model, with the same time, and compares."""

    def __init__(self, link: Link, keys: LaneKeys) -> None:
        self.link, self.keys, self.model = link, keys, ModelLane()
        self.leases: list[Any] = []

    def run(self, make: Any) -> Any:
        call: Call[Any] = make(self.model.now_us)
        real, modelled = self.link.run_one(call), self.model.run(call)
        assert plain(real) == plain(modelled), call
        return real

    def compare_state(self) -> None:
        command, keys, model = self.link.command, self.keys, self.model
        schedule = command("ZRANGE", keys.schedule, 0, -1, "WITHSCORES")
        found = {group.decode(): float(at) for group, at in zip(schedule[::2], schedule[1::2], strict=True)}
        assert found == model.schedule
        leases = command("HGETALL", keys.leases)
        assert dict(zip(leases[::2], leases[1::2], strict=True)) == {
            group.encode(): holder.encode() for group, holder in model.leases.items()
        }
        assert {group.decode() for group in command("HKEYS", keys.failures)} == set(model.failures)
        for group in GROUPS:
            assert [m.decode() for m in command("ZRANGE", keys.order(group), 0, -1)] == model.members(group)
            body = command("HGETALL", keys.body(group))
            assert {k.decode(): v.decode() for k, v in zip(body[::2], body[1::2], strict=True)} == model.bodies.get(
                group, {}
            )
        assert not audit(self.link, [keys])


def plain(value: Any) -> Any:
    """A reply without what may differ: groups of a claim as tuples."""
    if isinstance(value, Claimed):
        wait = None if value.next_due_s is None else round(value.next_due_s, 5)
        groups = [(g.key, g.token, g.expired_owner, g.messages, g.members) for g in value.groups]
        return (groups, wait, value.is_empty)
    return value


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=st.lists(STEP, max_size=25))
def test_scripts_and_model_agree(server: EmbeddedServer, steps: list[Any]) -> None:
    link, keys = Link(Endpoint.from_url(server.url)), lane_keys(f"m{uuid.uuid4().hex[:8]}", "q", 0)
    both = Both(link, keys)
    try:
        for kind, *args in steps:
            do(both, kind, args)
            both.compare_state()
    finally:
        names = link.command("KEYS", keys.prefix + "*")
        if names:
            link.command("DEL", *names)
        link.close()


def do(both: Both, kind: str, args: list[Any]) -> None:
    keys = both.keys
    if kind == "append":
        items = [Item(group, message_id, score, f'["{body}"]'.encode()) for group, message_id, score, body in args[0]]
        both.run(lambda now: append(keys, items, on_conflict=args[1], now_us=now))
    elif kind == "claim":
        limits = ClaimLimits(args[0], args[1], args[2])
        claimed = both.run(lambda now: claim(keys, "q", "me", 1.0, limits, now_us=now))
        both.leases += claimed.groups
    elif kind == "advance":
        both.model.now_us += args[0] * 1000
    elif both.leases:
        lease = both.leases[-1 - args[0] % len(both.leases)]
        if kind == "ack":
            token = "0" * 16 if args[3] and args[2] else lease.token
            entry = Ack(lease.key, token, lease.members[: args[1]], args[2])
            both.run(lambda now: ack(keys, [entry], now_us=now))
        elif kind == "nack":
            entry_n = Nack(lease.key, lease.token, lease.members[0], lease.messages[0].attempt, args[1], b"{}")
            both.run(lambda now: nack(keys, entry_n, now_us=now))
        else:
            both.run(lambda now: renew(keys, [(lease.key, lease.token)], 1.0, now_us=now))


def test_a_repeated_call_changes_nothing_more(link: Link, namespace: str) -> None:
    """The network may repeat any call: append by id, ack, nack and renew by token (invariant 7)."""
    keys = lane_keys(namespace, "q", 0)
    link.command("HSET", f"{namespace}:queues", "q", 1)
    items = [Item("g", str(i), "", b"[1]") for i in range(3)]
    first = link.run_one(append(keys, items))
    assert [mark.outcome for mark in link.run_one(append(keys, items))] == ["duplicate"] * 3
    assert [mark.stamp for mark in link.run_one(append(keys, items))] == [mark.stamp for mark in first]
    (held,) = link.run_one(claim(keys, "q", "me", 5.0, ClaimLimits())).groups
    one = ack(keys, [Ack("g", held.token, held.members[:1], False)])
    assert link.run_one(one) == []
    assert link.run_one(one) == []
    failed = nack(keys, Nack("g", held.token, held.members[1], 1, None, b"{}"))
    assert link.run_one(failed) is True
    before = link.command("ZRANGE", keys.schedule, 0, -1, "WITHSCORES")
    assert link.run_one(failed) is False
    assert link.run_one(one) != []
    assert link.command("ZRANGE", keys.schedule, 0, -1, "WITHSCORES") == before
    assert link.run_one(resume(keys, "g", b"{}", held.members[1])).status == "resumed"
    assert link.run_one(resume(keys, "g", b"{}", held.members[1])).status == "changed"
    assert link.command("ZCARD", keys.order("g")) == 2
    assert math.isfinite(float(link.command("ZSCORE", keys.schedule, "g")))

"""What changes nothing: a note after the lease of its consumer, and any script of a client of another protocol."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sequencer import calls
from sequencer.calls.alerts import AlertTimes, Condition, Grant
from sequencer.calls.call import Call
from sequencer.calls.examine import repair
from sequencer.calls.register import sync_shard, unregister
from sequencer.calls.settle import Ack, Nack, SaveStep, save_step
from sequencer.doctor.rights import SCRATCH
from sequencer.errors import Park, SequencerError
from sequencer.net.link import Link
from sequencer.settings.options import ClaimLimits
from sequencer.settings.policy import Policy
from sequencer.store.item import Item
from sequencer.store.keys import ShardKeys, shard_keys
from sequencer.store.ledger import Written
from sequencer.store.record import decode_head
from sequencer.store.registration import PROTOCOL, Registration, plain_tags
from sequencer.testing import wait_until
from tests.support.handling import Make
from tests.support.proxy.fault_proxy import FaultProxy

from ..support.background import Background
from ..support.changed_script import changed_script


def run_every_script(run: Callable[[Call[Any]], Any], keys: ShardKeys) -> None:
    """`run` gives None for one that failed."""
    run(calls.append(keys, [Item(SCRATCH, str(n), f"{n}.0", b"[1]") for n in range(3)]))
    claimed = run(calls.claim(keys, SCRATCH, SCRATCH, 60.0, ClaimLimits(1, 1)))
    leased = claimed.groups[0] if claimed and claimed.groups else None
    token, member = (leased.token, leased.members[0]) if leased else ("0" * 16, f"{'0' * 16}0")
    letter = f"{member[:16]}{SCRATCH}\n0"
    one = Registration(1, 0, plain_tags(1), Policy().stored())
    for call in (
        calls.register(keys.memory, None, one),  # on the scratch shard too: any hash will do
        unregister(keys.memory, one),
        sync_shard(keys, one),
        sync_shard(keys, one, "confirm", pending="none"),
        calls.renew(keys, [(SCRATCH, token)], 60.0),
        save_step(keys, SaveStep(SCRATCH, token, member, "", Written(b"{}", 1, False), False)),
        calls.ack(keys, [Ack(SCRATCH, token, [], False)]),
        calls.nack(keys, Nack(SCRATCH, token, member, 1, None, b'{"type": "Doctor"}', "dead", "0.0")),
        calls.outage(keys, "probe"),
        calls.redrive(keys, [letter]),
        calls.purge(keys, [letter]),
        calls.rerun(keys, SCRATCH, "0", "0" * 16, ("0", 2), b"[1]"),
        calls.update(keys, SCRATCH, "2", "", ""),
        calls.skip_gap(keys, SCRATCH, f"{'0' * 16}1", "", "#1"),
        calls.pause(keys, SCRATCH, True),
        calls.pause(keys, SCRATCH, False),
        calls.wake(keys, SCRATCH),
        calls.resume(keys, SCRATCH, b"", "", ending="drop"),
        calls.resume_many(keys, [calls.ParkedGroup(SCRATCH, "", "", "")]),
        calls.inspect(keys, SCRATCH, "1"),
        calls.find(keys, "1"),
        calls.sweep(keys),
        calls.alert(keys, [Condition(SCRATCH, "open", "1", "1", "")], [SCRATCH], AlertTimes(1.0)),
        calls.alert_sent(keys, Grant(SCRATCH, "open", SCRATCH, 0, 0, "", "", "", False, 0)),
        calls.pending_news(keys, SCRATCH),
        calls.mark_notified(keys, SCRATCH, cursor="0"),
        repair(keys, SCRATCH, dry_run=False),
    ):
        run(call)


CHECK = "if not held or sub(held, 1, 16) ~= token then return 0 end"


def ran_beside_a_late_note(
    make: Make, proxy: FaultProxy, link: Link, *, once: bool
) -> tuple[list[tuple[str, str]], list[bytes]]:
    """The first note of an old consumer is held until its successor is in its own first step, and comes then. Who ran
    which step, and the record before it came and after.
    """
    old, new = make(redis=proxy.url), make()
    body = shard_keys(old.options.namespace, "jobs", 0).body("g")
    ran, records = list[tuple[str, str]](), list[bytes]()
    proxy.add("request delayed", on=("save_step",), seconds=60.0)
    new.append(1, "g", id="m")

    def run_old(message: Any, step: Any) -> None:
        ran.append(("old", step.name))

    def run_new(message: Any, step: Any) -> None:
        ran.append(("new", step.name))
        if step.name != "a":
            return
        records.append(link.command("HGET", body, "m"))
        proxy.clear()
        wait_until(lambda: beside.consumer.counts["lost"], what="the old one's note is answered")
        records.append(link.command("HGET", body, "m"))

    for name in "ab":
        old.step(name=name, once=once)(run_old)
        new.step(name=name, once=once)(run_new)
    with Background(old, None, lease=0.5, until_empty=True) as beside:
        wait_until(lambda: [one.state for one in new.groups()] == ["leased"], what="the old one has the group")
        new.consume(until_empty=True)
    assert proxy.effects["request delayed"] == 1
    assert new.info().backlog == 0
    return ran, records


@pytest.mark.parametrize("once", [False, True])
def test_a_note_that_comes_after_its_lease_changes_nothing(
    make: Make, proxy: FaultProxy, link: Link, once: bool
) -> None:
    ran, (before, after) = ran_beside_a_late_note(make, proxy, link, once=once)
    assert ran == [*([] if once else [("old", "a")]), ("new", "a"), ("new", "b")]
    assert after == before


def test_a_note_without_its_token_is_found(make: Make, proxy: FaultProxy, link: Link) -> None:
    """Of an automatic step: nothing else keeps it out, as its successor has written nothing yet."""
    with changed_script("save_step", CHECK, ""):
        _, (before, after) = ran_beside_a_late_note(make, proxy, link, once=False)
    assert (decode_head(before).written, decode_head(after).written is None) == (None, False)


LUA = Path(calls.__file__).parents[1] / "lua"
WITHOUT_GENERATION = {"sync_shard", "register", "repair"}
"""Two change the generation, and `repair` works on any. A client of another protocol ends at the registry, before
them.
"""
BY_TOKEN = {"renew"}
"""Of groups that a claim leased, which was refused."""


def dump(link: Link, namespace: str) -> dict[bytes, Any]:
    return {name: link.command("DUMP", name) for name in sorted(link.command("KEYS", f"*{namespace}:*"))}


def refused(make: Make, link: Link, namespace: str) -> set[str]:
    """Which scripts refuse a program of another protocol; nothing is written.

    There are a parked message and a dead letter, each with a step that is done.
    """
    seq = make("jobs")
    seq.step(name="charge", once=True)(lambda message: "paid")

    @seq.step(order=2)
    def points(message: Any) -> None:
        raise Park("no points")

    seq.append_many({"body": 1, "group": group, "id": "m"} for group in "ab")
    seq.consume(until_empty=True)
    seq.skip("b", dead_letter=True)
    (letter,) = seq.dead()
    keys = shard_keys(namespace, "jobs", 0)
    generation = link.command("HGET", keys.policy, "generation").decode()
    other = generation.replace(f"{PROTOCOL}.", f"{PROTOCOL - 1}.", 1)
    assert other != generation
    before = dump(link, namespace)
    found = set()

    def run(call: Call[Any]) -> None:
        if call.script in WITHOUT_GENERATION | BY_TOKEN:
            return
        try:
            said = link.command(*call.eval_command(other))
        except SequencerError as error:
            said = str(error)
        assert f"GENERATION {generation}" in str(said), f"{call.script} answers {said!r}"
        found.add(call.script)

    run_every_script(run, keys)
    run(calls.redrive(keys, [f"{letter.message.stamp:016}b\nm"]))
    assert dump(link, namespace) == before, "nothing was written"
    return found


def test_a_client_of_another_protocol_is_refused_in_every_script(make: Make, link: Link, namespace: str) -> None:
    everything = {path.stem for path in LUA.glob("*.lua")}
    assert refused(make, link, namespace) == everything - WITHOUT_GENERATION - BY_TOKEN


def test_a_redrive_that_does_not_compare_it_is_found(make: Make, link: Link, namespace: str) -> None:
    with (
        changed_script("redrive", "if there ~= generation then", "if false then"),
        pytest.raises(AssertionError, match="redrive answers"),
    ):
        refused(make, link, namespace)

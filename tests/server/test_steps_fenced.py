"""A note that comes after the lease of its consumer changes nothing, whatever its consumer knows."""

from __future__ import annotations

from typing import Any

import pytest

from sequencer.net.link import Link
from sequencer.store.keys import shard_keys
from sequencer.store.record import decode_head
from sequencer.testing import wait_until
from tests.support.handling import Make
from tests.support.proxy.fault_proxy import FaultProxy

from ..support.background import Background
from ..support.changed_script import changed_script

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
    proxy.add("request delayed", on=("note",), seconds=60.0)
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
    with changed_script("note", CHECK, ""):
        _, (before, after) = ran_beside_a_late_note(make, proxy, link, once=False)
    assert (decode_head(before).written, decode_head(after).written is None) == (None, False)

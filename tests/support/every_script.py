"""Runs each script once, on a scratch group."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sequencer import calls
from sequencer.calls.call import Call
from sequencer.calls.settle import Ack, Nack, SaveStep
from sequencer.doctor.rights import SCRATCH
from sequencer.settings.options import ClaimLimits
from sequencer.settings.policy import Policy
from sequencer.store.item import Item
from sequencer.store.keys import ShardKeys
from sequencer.store.ledger import Written
from sequencer.store.registration import Registration, plain_tags


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
        calls.unregister(keys.memory, one),
        calls.sync_shard(keys, one),
        calls.sync_shard(keys, one, "confirm", pending="none"),
        calls.renew(keys, [(SCRATCH, token)], 60.0),
        calls.save_step(keys, SaveStep(SCRATCH, token, member, "", Written(b"{}", 1, False), False)),
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
        calls.alert(keys, [calls.Condition(SCRATCH, "open", "1", "1", "")], [SCRATCH], calls.AlertTimes(1.0)),
        calls.alert_sent(keys, calls.Grant(SCRATCH, "open", SCRATCH, 0, 0, "", "", "", False, 0)),
        calls.pending_news(keys, SCRATCH),
        calls.mark_notified(keys, SCRATCH, cursor="0"),
        calls.repair(keys, SCRATCH, dry_run=False),
    ):
        run(call)

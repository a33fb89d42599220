"""Kinds of writes: each prepares a scene, and gives what makes its last write."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sequencer.calls.claim import claim
from sequencer.calls.settle import ack, save_step
from sequencer.client import Sequencer
from sequencer.drain.held_group import HeldGroup
from sequencer.lease import Lease
from sequencer.net.link import Link
from sequencer.settings.options import ClaimLimits
from sequencer.store.keys import ShardKeys
from sequencer.store.ledger import Entry, Ledger, Written, encode_ledger
from sequencer.store.record import STAMP_DIGITS
from sequencer.values.message import Message

from .load import QUEUE

LEASE_S, PATIENT_S = 0.1, 1.0  # a lease that has to run out, and one whose head is looked at while it holds


@dataclass(frozen=True)
class Scene:
    """What a last write works on."""

    seq: Sequencer
    link: Link
    keys: list[ShardKeys]

    def fill(self) -> None:
        """Three groups with three messages each."""
        self.seq.append_many(item(group, number) for number in range(3) for group in "abc")

    def held(self) -> list[HeldGroup]:
        """All of it claimed."""
        call = claim(self.keys[0], QUEUE, "cut", LEASE_S, ClaimLimits())
        return [HeldGroup(group) for group in self.link.run_one(call).groups]


def item(group: str, number: float) -> dict[str, Any]:
    return {"group": group, "id": f"{group}{number}", "score": number, "body": {"n": number}}


Write = Callable[[Scene], Callable[[], Any]]
"""Prepares, and gives what makes the last write."""


def _append(scene: Scene) -> Callable[[], Any]:
    scene.fill()
    return lambda: scene.seq.append_many([item(group, 9 + n) for n in range(2) for group in "abd"], on_refused="skip")


def _claim(scene: Scene) -> Callable[[], Any]:
    scene.fill()
    return scene.held


def _ack(scene: Scene) -> Callable[[], Any]:
    scene.fill()
    done = dict(zip("abc", (1, 2, 3), strict=True))
    entries = [held.entry(done[held.leased.key], release=True) for held in scene.held()]
    return lambda: scene.link.run_one(ack(scene.keys[0], entries))


def _save_step(scene: Scene) -> Callable[[], Any]:
    scene.fill()
    held = scene.held()[0]
    ledger = Ledger(int(held.leased.members[0][:STAMP_DIGITS]), (Entry("charge", state="done", result={"n": 1}),))
    written = Written(b"", 0, has_effects=False).next(encode_ledger(ledger), has_effects=True)
    entry = held.save_step(written, has_progressed=True)
    return lambda: scene.link.run_one(save_step(scene.keys[0], entry))


def _failing(how: str) -> Write:
    def prepare(scene: Scene) -> Callable[[], Any]:
        scene.fill()
        lease = scene.seq.claim(groups=1, lease=PATIENT_S)
        head = next(iter(lease))
        ways: dict[str, Callable[[], Any]] = {
            "nack": lambda: lease.nack(head, "no", after=0.05),
            "park": lambda: lease.park(head, "no"),
            "park all": lambda: _park_all(scene, lease, head),
            "dead letter": lambda: lease.dead_letter(head, "no"),
            "renew": lease.renew,
            "release": lease.release,
        }
        return ways[how]

    return prepare


def _park_all(scene: Scene, lease: Lease, head: Message) -> None:
    """The group in progress, then the others."""
    lease.park(head, "no")
    while other := scene.seq.claim(groups=1, lease=PATIENT_S):
        other.park(next(iter(other)), "no")


def _fixed(failure: str, how: str) -> Write:
    def prepare(scene: Scene) -> Callable[[], Any]:
        _failing(failure)(scene)()
        group = next((one.group for one in scene.seq.parked()), ("a",))
        ways: dict[str, Callable[[], Any]] = {
            "redrive": lambda: scene.seq.redrive(everything=True),
            "purge": lambda: scene.seq.purge(everything=True),
            "resume": lambda: scene.seq.resume(group),
            "skip": lambda: scene.seq.skip(group),
            "resume many": lambda: scene.seq.resume_many(everything=True),
            "skip many": lambda: scene.seq.skip_many(everything=True),
        }
        return ways[how]

    return prepare


def _rerun(scene: Scene) -> Callable[[], Any]:
    own: dict[str, Any] = {"namespace": scene.seq.options.namespace, "history_window": 3600, "history_bodies": True}
    with Sequencer(QUEUE, scene.link.endpoint.url, **own) as seq:
        scene.fill()
        seq.append({}, "a", id="ended")
        seq.cancel("a", "ended")
    return lambda: scene.seq.rerun("a", "ended")


def _by_hand(how: str) -> Write:
    def prepare(scene: Scene) -> Callable[[], Any]:
        scene.fill()
        ways: dict[str, Callable[[], Any]] = {
            "cancel": lambda: scene.seq.cancel("a", "a0"),
            "reschedule": lambda: scene.seq.reschedule("a", "a0", delay=0.05),
            "replace": lambda: scene.seq.append({"n": 7}, "a", id="a0", score=0, replace=True),
            "pause a group": lambda: scene.seq.pause("a"),
            "pause": scene.seq.pause,
        }
        return ways[how]

    return prepare


def _half(scene: Scene) -> Callable[[], Any]:
    scene.fill()
    key, member = scene.keys[0], "1600000000000000x"
    commands = [("HSET", key.body("a"), "x", "160000000000000000000[1]"), ("ZADD", key.order("a"), 5, member)]
    return lambda: scene.link.commands(commands)


HALF: Write = _half
"""Two commands where one script is needed."""
WRITES: dict[str, Write] = {
    "append": _append,
    "claim": _claim,
    "ack and release": _ack,
    "save step": _save_step,
    **{how: _failing(how) for how in ("nack", "park", "dead letter", "renew", "release")},
    "redrive": _fixed("dead letter", "redrive"),
    "rerun": _rerun,
    "purge": _fixed("dead letter", "purge"),
    "resume": _fixed("park", "resume"),
    "skip": _fixed("park", "skip"),
    **{how: _fixed("park all", how) for how in ("resume many", "skip many")},
    **{how: _by_hand(how) for how in ("cancel", "reschedule", "replace", "pause a group", "pause")},
}

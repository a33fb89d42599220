"""The work in which a process breaks at every step: what a producer, a consumer and an operator do, and the messages.

Small, and the same each time. Two variants: `default`, and `sequence` with two shards, numbered messages and a gap. Of
groups a, b and c with six messages each, a-2 fails once and is retried, a-4 is slow enough to need a renewal, b-3 parks
its group until somebody fixed the cause, c-4 becomes a dead letter and is redriven. k-1 is skipped, p-1 purged, d-1
delayed; in `default`, e-1 is cancelled, e-2 moved; in `sequence`, s-3 never comes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sequencer import Message, Park, Sequencer, SetAside
from sequencer.errors import (
    GroupBusy,
    GroupNotFound,
    MessageBusy,
    MessageNotFound,
    NotParked,
    OutcomeUnknown,
    ServerUnavailable,
)
from sequencer.net.endpoint import Endpoint
from sequencer.net.link import Link
from sequencer.store.group import encode_group
from sequencer.testing import wait_until

from ...support.judge.history import Recorder

QUEUE = "work"
LEASE_S = 0.4
SLOW_S, SLUGGISH_S = 0.17, 0.03
"""Longer than a third of a lease: it is renewed. Longer than 20 ms: groups not begun are released."""
GAP_S = 0.1
DELAY_S = 1.0
"""Longer than the rest of the work takes, also on a busy machine: the consumer waits for it."""
ATTEMPTS = 20
VARIANTS = ("default", "sequence")
REMOVED = {(encode_group([group]), message_id) for group, message_id in (("k", "k-1"), ("p", "p-1"), ("e", "e-1"))}
"""Messages that somebody took out: not handled, and not lost."""


@dataclass(frozen=True, slots=True)
class Site:
    """Where a process works: the queue on its own wires, its record, and a directory that all share."""

    seq: Sequencer
    recorder: Recorder
    directory: Path
    variant: str
    at: Callable[[str], object]
    """Passes a point of this process."""

    @property
    def is_sequence(self) -> bool:
        return self.variant == "sequence"


def options(variant: str) -> dict[str, Any]:
    """The options of the queue, the same for all its clients."""
    some: dict[str, Any] = {"max_attempts": 5, "backoff": 0.02, "backoff_cap": 0.1}
    if variant == "sequence":
        some |= {"sequence": True, "gap_timeout": GAP_S, "shards": 2}
    return some


def messages(variant: str) -> list[dict[str, Any]]:
    """What the producer appends, as items of `append_many`."""
    sizes = {"a": (1, 2, 3, 4, 5, 6), "b": (1, 2, 3, 4, 5, 6), "c": (1, 2, 3, 4, 5, 6), "k": (1, 2, 3), "p": (1, 2)}
    if variant == "sequence":
        sizes["s"] = (1, 2, 4, 5)
    items = [
        {"body": {"n": n}, "group": [group], "id": f"{group}-{n}", "score": n}
        for group, numbers in sizes.items()
        for n in numbers
    ]
    return [*items, {"body": {}, "group": ["d"], "id": "d-1", "score": 1, "delay": DELAY_S}]


def produce(site: Site) -> None:
    """Append everything: some one by one, the rest in chunks. Whoever was told nothing repeats it."""
    items = messages(site.variant)
    for item in items[:6]:
        append(site, **item)
    rest = items[6:]
    for start in range(0, len(rest), 9):
        chunk = rest[start : start + 9]
        for item in chunk:
            _note(site, "appending", item)
        persist(lambda chunk=chunk: site.seq.append_many(chunk))  # type: ignore[misc]
        for item in chunk:
            _note(site, "appended", item, kind="stored")


def append(site: Site, **item: Any) -> None:
    """Append one message, recorded before and after."""
    _note(site, "appending", item)
    receipt = persist(lambda: site.seq.append(**item))
    _note(site, "appended", item, kind="duplicate" if receipt.duplicate else "stored")


def _note(site: Site, what: str, item: dict[str, Any], **more: Any) -> None:
    site.recorder.note(what, group=encode_group(item["group"]), id=item["id"], score=item["score"], **more)


def persist(action: Callable[[], Any]) -> Any:
    """Do it as an application would that has ids: again, when the server could not be reached."""
    for left in reversed(range(ATTEMPTS)):
        try:
            return action()
        except (ServerUnavailable, OutcomeUnknown):
            if not left:
                raise
            time.sleep(0.01)
    return None


def handle(site: Site) -> Callable[[Message], None]:
    """The handler: what a message does is in its name."""

    def work(message: Message) -> None:
        if message.id == "a-4":
            time.sleep(SLOW_S)
        elif message.id == "c-1":
            time.sleep(SLUGGISH_S)
        elif message.id == "a-2" and message.attempt == 1:
            raise ValueError("not today")
        elif message.id == "k-1" or (message.id == "b-3" and not (site.directory / "fixed").exists()):
            raise Park("somebody has to look at it")
        elif message.id == "p-1" or (message.id == "c-4" and not message.redriven):
            raise SetAside("not now")
        if isinstance(message.body, dict) and "gate" in message.body:
            wait_until((site.directory / str(message.body["gate"])).exists, what="the gate")

    def pointed(message: Message) -> None:
        site.at("handler:before")
        work(message)
        site.at("handler:after")

    recorded = site.recorder.run(pointed)

    def handler(message: Message) -> None:
        recorded(message)
        site.at("handler:recorded")

    return handler


def consume(site: Site) -> None:
    """Consume until only parked groups are left."""
    handler = handle(site)
    persist(site.seq.connect)
    site.seq.consume(handler, lease=LEASE_S, until_empty=True)


def operate(site: Site) -> None:
    """What a person does about stuck groups, dead letters and timers. Doing it twice does it once."""
    seq = site.seq
    (site.directory / "fixed").touch()
    for step in _steps(site):
        # Gone, or going on: done before, by this operator whose answer was lost, or by another.
        persist(lambda step=step: _tolerant(step))  # type: ignore[misc]
    # Invalidates are resolved by looking: what is to go on goes on.
    persist(lambda: seq.unpause(["k"]))


def _tolerant(step: Callable[[], Any]) -> None:
    try:
        step()
    except (GroupNotFound, MessageNotFound, NotParked):
        return
    except (GroupBusy, MessageBusy):
        # What was decided by an old look is not done: after a stop, others have gone on. The end of the trial shows
        # whether something was left.
        return


def _steps(site: Site) -> Iterator[Callable[[], Any]]:
    seq = site.seq
    yield lambda: seq.resume(["b"])
    yield lambda: seq.pause(["k"])
    yield lambda: seq.skip(["k"])
    yield lambda: seq.unpause(["k"])
    yield lambda: seq.redrive(["c"], id="c-4")
    yield lambda: seq.purge(["p"], id="p-1")
    if site.is_sequence:
        yield lambda: seq.skip(["s"])
        return
    yield lambda: append(site, body={}, group=["e"], id="e-1", score=1, delay=60)
    yield lambda: append(site, body={}, group=["e"], id="e-2", score=2, delay=60, replace=True)
    yield lambda: seq.cancel(["e"], "e-1")
    yield lambda: seq.reschedule(["e"], "e-2", delay=0.05)


ROLES: dict[str, Callable[[Site], None]] = {"producer": produce, "consumer": consume, "operator": operate}


def clean(endpoint: Endpoint, namespace: str) -> None:
    """Delete a trial's keys, so that the next one's look at the server stays small."""
    link = Link(endpoint)
    keys = [*link.command("KEYS", f"{namespace}:*"), *link.command("KEYS", f"{{{namespace}:*")]
    if keys:
        link.command("DEL", *keys)
    link.close()

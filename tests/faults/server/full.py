"""A server at its `maxmemory`, filled and drained over and over: producers are refused, consumers go on.

In each round the server is filled until it refuses, everything a consumer or an operator may need is then done at full
memory, what needs memory must be refused with nothing changed, and consumers drain it to empty.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sequencer.client import Sequencer
from sequencer.errors import QueueFull, SequencerError
from sequencer.net.link import Link
from sequencer.store.keys import shard_keys
from sequencer.values.message import Message

from .cut import state_of
from .found import Found
from .host import Host, binaries, running, workplace
from .load import NAMESPACE, QUEUE

SPACE = 1_000_000
"""Bytes for messages, beside what an empty server takes."""
GROUPS = 40
LEASE_S = 0.2


@dataclass
class Rounds:
    """What came of all rounds on one server."""

    stored: int = 0
    handled: int = 0
    refusals: int = 0
    done_full: Counter[str] = field(default_factory=Counter)
    refused_full: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


class Filling:
    """A server, a queue, and who knows what was stored in it."""

    def __init__(self, host: Host, link: Link) -> None:
        self.host, self.link, self.keys = host, link, shard_keys(NAMESPACE, QUEUE, 0)
        self.seq = Sequencer(QUEUE, host.url, namespace=NAMESPACE, max_attempts=3, backoff=0.0, dedup_window=0)
        self.stored: dict[str, tuple[str, int]] = {}
        self.said = Rounds()
        self._number = 0
        self.seq.connect()
        used = int(host.info("memory")["used_memory"])
        link.command("CONFIG", "SET", "maxmemory", used + SPACE)

    def fill(self) -> None:
        """Append until refused: first large chunks, then single messages, so that it is really full."""
        for size in (200, 20, 1):
            for _ in range(10_000):
                items = [self._item() for _ in range(size)]
                try:
                    receipt = self.seq.append_many(items)
                except QueueFull:
                    self.said.refusals += 1
                    break
                self.said.stored += receipt.appended
                self.stored.update((one["id"], (one["group"], one["score"])) for one in items)

    def _item(self) -> dict[str, Any]:
        self._number += 1
        number = self._number
        return {"group": f"g{number % GROUPS}", "id": f"m{number}", "score": number, "body": "x" * 300}

    def work_while_full(self) -> None:
        """What must go on, and what must be refused."""
        seq, said = self.seq, self.said
        for how in ("nack", "park", "dead letter", "renew", "ack", "release"):
            self._try(how, lambda how=how: self._with_claim(how))  # type: ignore[misc]
        for one in seq.parked():
            self._try("resume", lambda group=one.group: seq.resume(group))  # type: ignore[misc]
        self._try("pause", lambda: seq.pause("g1"))
        self._try("unpause", lambda: seq.unpause("g1"))
        id = next(id for id in reversed(self.stored) if seq.get(self.stored[id][0], id))
        self._refused("reschedule", lambda: seq.reschedule(self.stored[id][0], id, delay=0))
        self._refused("redrive", lambda: seq.redrive(everything=True))
        self._refused("append", lambda: seq.append("y" * 300, "g0", id="never"))
        self._try("cancel", lambda: seq.cancel(self.stored[id][0], id))
        if said.done_full["cancel"]:
            self.stored.pop(id, None)

    def _with_claim(self, how: str) -> None:
        lease = self.seq.claim(groups=1, messages=2, lease=LEASE_S)
        head = next(iter(lease))
        if how == "renew":
            lease.renew()
        elif how == "nack":
            lease.nack(head, "no", after=0)
        elif how == "park":
            lease.park(head, "no")
        elif how == "dead letter":
            lease.dead_letter(head, "no")
        elif how == "ack":
            lease.ack(head)
            self.stored.pop(head.id)
            self.said.handled += 1
        lease.release()

    def _try(self, what: str, do: Callable[[], Any]) -> None:
        self.top_up()
        try:
            do()
            self.said.done_full[what] += 1
        except SequencerError as error:
            self.said.wrong.append(f"{what} at full memory: {error}")

    def _refused(self, what: str, do: Callable[[], Any]) -> None:
        before = state_of(self.link)
        self.top_up()
        try:
            do()
        except QueueFull:
            self.said.refused_full[what] += 1
        else:
            self.said.wrong.append(f"{what} was not refused at full memory")
        if state_of(self.link) != before:
            self.said.wrong.append(f"{what} was refused, and changed something")

    def top_up(self) -> None:
        """Less memory for the server where something made room: it stays full.

        Half of what is used, as a long reply counts as used until the server gives its buffer back, some time later.
        """
        used = int(self.host.info("memory")["used_memory"])
        self.link.command("CONFIG", "SET", "maxmemory", used // 2)

    def drain(self) -> None:
        """Consume everything at full memory as it comes, then redrive what was set aside."""
        seen: dict[str, list[int]] = {}

        def handle(message: Message) -> None:
            self.said.handled += 1
            if self.stored.pop(message.id, None) is None:
                self.said.wrong.append(f"{message.id} was handled, and was not there")
            if not message.redriven:
                seen.setdefault(message.group[0], []).append(int(message.score))

        self.seq.consume(handle, until_empty=True, lease=LEASE_S)
        self.link.command("CONFIG", "SET", "maxmemory", 0)
        self.seq.redrive(everything=True)
        self.seq.consume(handle, until_empty=True, lease=LEASE_S)
        for group, scores in seen.items():
            if scores != sorted(set(scores)):
                self.said.wrong.append(f"group {group} out of order: {scores[:10]}")
        if self.stored:
            self.said.wrong.append(f"{len(self.stored)} messages were lost, among them {next(iter(self.stored))}")
            self.stored.clear()
        used = int(self.host.info("memory")["used_memory"])
        self.link.command("CONFIG", "SET", "maxmemory", used + SPACE)


def fill_and_drain(directory: Path, rounds: int, found: Found, binary: str) -> Rounds:
    """So many rounds on one server; audited when full, after the work at full memory, and when empty."""
    host = Host(directory, "--maxmemory-policy", "noeviction", binary=binary)
    with running(host), host.link() as link:
        filling = Filling(host, link)
        for number in range(rounds):
            for step in (filling.fill, filling.work_while_full, filling.drain):
                step()
                found.check(link, [filling.keys], f"round {number}, {step.__name__}")
            left = [key for key in link.command("KEYS", "*") if b":order:" in key or b":body:" in key]
            if left:
                filling.said.wrong.append(f"round {number}: {left[0]!r} is left behind")
        filling.seq.close()
    return filling.said


def full(found: Found) -> None:
    """All rounds, on each server there is."""
    rounds = {"smoke": 1, "ci": 10, "nightly": 100}[found.scale]
    for version, binary in binaries().items():
        with workplace() as directory:
            said = fill_and_drain(directory, rounds, found, binary)
        found.runs += rounds
        found.messages += said.stored
        found.faults["refused at full memory"] += said.refusals + sum(said.refused_full.values())
        for text in said.wrong[:5]:
            found.problem(f"{version}: {text}")
        found.figures[f"filled and drained, {version}"] = (
            f"{rounds} times, {said.stored} messages, {said.handled} handled, {said.refusals} batches refused; "
            f"done at full memory: {dict(said.done_full)}; refused with nothing changed: {dict(said.refused_full)}"
        )

"""One trial: the whole work with one fault at one passage of one point, brought to its end by others, and judged.

A producer appends, a consumer drains, an operator fixes what is stuck, a consumer drains the rest: one process after
the other, so that a passage means the same in each trial. The victim's successor does the victim's part again. One that
was stopped goes on after two leases, beside a successor that is in the middle of a message of the very group that the
victim held: an acknowledgement of the victim's that was accepted would give that group to two at once.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from sequencer.client import Sequencer
from sequencer.net.endpoint import Endpoint
from sequencer.net.link import Link
from sequencer.store.group import decode_group, encode_group
from sequencer.store.keys import shard_keys
from sequencer.testing import wait_until
from sequencer.testing.wire import wired

from ...support.invariants import check_invariants
from ...support.judge.history import Event, Recorder
from .child import Child, start, write_counts
from .points import Case, Points, PointWire
from .verdict import Outcome, events_of, outcome_of
from .work import LEASE_S, QUEUE, ROLES, Site, clean, options

REFUSAL_S = 1.0
"""How long to wait for the refusal of a stale token after the victim goes on; it comes within milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """Parts to replace by broken ones, to see the checks turn red. In the product's place nothing is replaced."""

    prepare: Callable[[], None] = lambda: None
    """Called first in every process."""
    roles: dict[str, Callable[[Site], None]] = field(default_factory=lambda: dict(ROLES))


class Trial:
    """Runs one case, or with None the work without a fault, on the server at `url` in an empty `directory`."""

    def __init__(
        self, url: str, directory: Path, variant: str, case: Case | None, control: Control | None = None
    ) -> None:
        self._url, self._directory, self._variant, self._case = url, directory, variant, case
        self._control = control or Control()
        self._namespace = f"c{os.getpid()}x{time.monotonic_ns()}"
        self._children: list[Child] = []
        self._victim: Child | None = None
        self._recorder = Recorder(directory / "harness.ndjson", "harness")
        self._endpoint = Endpoint.from_url(url)
        self._drained_at = 0.0
        self._held: list[str] = []

    def run(self) -> Outcome:
        """The whole trial. Never raises for what it finds."""
        problems: list[str] = []
        try:
            for role in ("producer", "consumer", "operator", "consumer"):
                self._phase(role)
            problems += self._end_state()
        except AssertionError as error:
            problems.append(f"stuck: {error}")
        finally:
            for child in self._children:
                child.end()
            self._recorder.close()
        try:
            return outcome_of(self._case, self._variant, self._children, self._victim, problems, self._drained_at)
        finally:
            clean(self._endpoint, self._namespace)

    # -- processes --------------------------------------------------------------------------------------------

    def _start(self, role: str, case: Case | None = None) -> Child:
        name = f"{role}-{len(self._children)}"
        child = start(name, self._directory, lambda: self._body(name, role, case))
        self._children.append(child)
        return child

    def _body(self, name: str, role: str, case: Case | None) -> None:
        """A process of the trial."""
        self._control.prepare()
        recorder = Recorder(self._directory / f"{name}.ndjson")
        points = Points(role, recorder, case)
        endpoint = wired(self._endpoint, lambda connection: PointWire(connection, points))
        seq = Sequencer(QUEUE, endpoint, namespace=self._namespace, **options(self._variant))
        self._control.roles[role](Site(seq, recorder, self._directory, self._variant, points.at))
        seq.close()
        write_counts(self._directory / f"{name}.json", points.passages)

    def _run(self, role: str) -> None:
        """A process without a fault, from start to end."""
        child = self._start(role)
        child.wait()
        assert child.is_fine, f"{child.name} ended with wait status {child.status}: {child.said[-600:]}"

    def _phase(self, role: str) -> None:
        case = self._case
        if case is None or case.role != role or self._victim is not None:
            return self._run(role)
        victim = self._victim = self._start(role, case)
        victim.wait()
        if victim.stopped_at is not None and case.kind == "stop":
            self._outlive(role, victim)
        elif victim.signal is not None and case.kind == "kill":
            self._run(role)
        else:
            assert victim.is_fine, f"{victim.name} ended with wait status {victim.status}: {victim.said[-600:]}"
        self._drained_at = self._drained_at or time.monotonic()
        return None

    def _outlive(self, role: str, victim: Child) -> None:
        """Others do the part of a stopped process; then it goes on, beside one that is at work in its group."""
        assert victim.stopped_at is not None
        self._held = self._held_by(victim)
        self._run(role)
        if role != "consumer":
            self._run("consumer")
        self._drained_at = time.monotonic()
        until = victim.stopped_at + 2 * LEASE_S
        wait_until(lambda: time.monotonic() >= until, what="two leases")
        beside = self._begin_beside() if self._held else None
        victim.resume()
        wait_until(
            lambda: victim.poll() or "lease lost" in victim.said or time.monotonic() > victim.healed_at + REFUSAL_S
        )
        if beside:
            (self._directory / "gate").touch()
            beside.wait()
            assert beside.is_fine, f"{beside.name} ended with wait status {beside.status}: {beside.said[-600:]}"
        victim.wait()
        assert victim.is_fine, f"{victim.name} ended with wait status {victim.status}: {victim.said[-600:]}"

    def _held_by(self, victim: Child) -> list[str]:
        """The groups that the process has leased, as the server sees it."""
        link = Link(self._endpoint)
        found = []
        for shard in range(int(options(self._variant).get("shards", 1))):
            words = link.command("HGETALL", shard_keys(self._namespace, QUEUE, shard).leases)
            found += [
                g.decode() for g, owner in zip(words[::2], words[1::2], strict=True) if b":%d:" % victim.pid in owner
            ]
        link.close()
        return sorted(found)

    def _begin_beside(self) -> Child | None:
        """A consumer that is in the middle of a message in one of the victim's groups, until the gate opens."""
        with self._client() as seq:
            busy = {encode_group(info.group) for info in seq.groups()}
            free = [group for group in self._held if group not in busy]
            if not free:
                return None
            last = max((event.score for event in self._events() if event.group == free[0]), default=0.0)
            for number, body in ((1, {"gate": "gate"}), (2, {})):
                name = {"group": free[0], "id": f"late-{number}", "score": last + number}
                self._recorder.note("appending", **name)
                seq.append(body, decode_group(free[0]), id=f"late-{number}", score=int(last) + number)
                self._recorder.note("appended", kind="stored", **name)
        child = self._start("consumer")
        wait_until(
            lambda: child.poll() or any(e.id == "late-1" and e.what == "begun" for e in self._events()),
            what="a message in the victim's group",
        )
        return child

    # -- judging ----------------------------------------------------------------------------------------------

    def _client(self) -> Sequencer:
        return Sequencer(QUEUE, self._url, namespace=self._namespace, **options(self._variant))

    def _events(self) -> list[Event]:
        return events_of(self._directory)

    def _end_state(self) -> list[str]:
        """What is left, where nothing should be."""
        found: list[str] = []
        with self._client() as seq:
            info = seq.info()
            left = {name: getattr(info, name) for name in ("backlog", "groups", "dead", "parked", "paused")}
            found += [f"{count} {name} left at the end" for name, count in left.items() if count]
            link = Link(self._endpoint)
            found += check_invariants(link, [shard_keys(self._namespace, QUEUE, shard) for shard in range(info.shards)])
            link.close()
        return found

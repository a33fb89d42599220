"""Keys of a wrong type in the middle of a run.

While a key is spoilt, everybody who needs it must be told so by an error of ours before anything is written; once it
is deleted and `doctor --repair` has run, all goes on, and what is lost is what the key held.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from sequencer.client import Sequencer
from sequencer.doctor.diagnose import diagnose
from sequencer.errors import GroupBusy, GroupNotFound
from sequencer.net.endpoint import Endpoint
from sequencer.net.link import Link
from sequencer.store.keys import ShardKeys
from sequencer.testing.judge.judgement import Judgement, judge

from .found import Found
from .host import Host, running, workplace
from .load import NAMESPACE, QUEUE, Load, Spec, wait

RECOVER_S = 10.0
LEASE_S = 0.5
GROUP = "g0"
KINDS = (
    *("schedule", "leases", "failures", "clock", "dispatch", "stats", "policy", "paused", "marks", "numbers"),
    *("seen", "memory", "dead", "letters", "order", "body"),
)
EXPECTED = {"DataError", "ServerNotUsable"}


class Run:
    """Load on a server of its own, with faults made one after the other."""

    def __init__(self, host: Host, load: Load, link: Link) -> None:
        self.host, self.load, self.link = host, load, link
        self.keys: ShardKeys = load.keys
        self.remaining: set[tuple[str, str]] = set()

    def goes_on(self) -> bool:
        """Whether producers and consumers both got further."""
        before = self.load.count("appended"), self.load.count("ended")

        def is_further() -> bool:
            now = self.load.count("appended"), self.load.count("ended")
            return now[0] > before[0] + 3 and now[1] > before[1] + 3

        return wait(is_further, RECOVER_S, 0.03)

    def errors(self) -> int:
        return self.load.count("refused") + self.load.count("unknown") + self.load.count("seen")

    def fix(self) -> None:
        """What an operator does: repair, and let go on what was parked meanwhile."""
        diagnose(Endpoint.from_url(self.host.url), NAMESPACE, QUEUE, repair=True)
        with Sequencer(QUEUE, self.host.url, namespace=NAMESPACE) as seq:
            for one in seq.parked():
                with suppress(GroupBusy, GroupNotFound):  # taken or gone between the two
                    seq.resume(one.group)

    def parked(self) -> set[tuple[str, str]]:
        """Group and id of messages in parked groups."""
        groups = [group.decode() for group in self.link.command("ZRANGEBYSCORE", self.keys.schedule, "inf", "inf")]
        members = {group: self.link.command("ZRANGE", self.keys.order(group), 0, -1) for group in groups}
        return {(group, member.decode()[16:]) for group in groups for member in members[group]}

    def was_told(self, before: int) -> bool:
        return wait(lambda: self.errors() > before, 1.0, 0.02)


@contextmanager
def loaded(found: Found) -> Iterator[Run]:
    """A server under load; at the end drained, audited and judged."""
    with workplace() as directory:
        host = Host(directory / "d")
        with running(host), host.link() as link:
            load = Load(
                directory / "load", Spec(url=host.url, seed=found.seed, lease_s=LEASE_S, rate=600.0, work_s=0.004)
            )
            run = Run(host, load, link)
            try:
                load.start()
                if not run.goes_on():
                    found.problem("the load did not begin")
                yield run
                load.recorder.note("healed")
                for text in load.crashes():
                    found.problem(text)
                if not load.drain(link):
                    found.problem("it was not drained")
                found.check(link, [load.keys], "after the drain")
                if parked := run.parked():
                    found.problem(f"{len(parked)} messages are parked at the end")
                    run.remaining |= parked
            finally:
                load.stop()
        judged: Judgement = judge(load.events(), recover_s=RECOVER_S, remaining=run.remaining)
        found.add(judged)
        kinds = {event.kind for event in load.events() if event.what in ("refused", "unknown", "seen")}
        if kinds - EXPECTED - {"OutcomeUnknown"}:
            found.problem(f"errors that do not say what is wrong: {sorted(kinds - EXPECTED)}")


def spoil(found: Found) -> None:
    """Each kind of key of a shard, replaced by another type and deleted, under load."""
    kinds = KINDS if found.scale != "smoke" else ("schedule", "order")
    destroyed = told = 0
    with loaded(found) as run:
        for kind in kinds * (10 if found.scale == "nightly" else 1):
            key = getattr(run.keys, kind)(GROUP) if kind in ("order", "body") else getattr(run.keys, kind)
            before, errors = time.monotonic(), run.errors()
            wrong = ("RPUSH", key, "x") if kind == "clock" else ("SET", key, "x")
            run.link.commands([("MULTI",), ("COPY", key, "spoilt", "REPLACE"), ("DEL", key), wrong, ("EXEC",)])
            told += run.was_told(errors)
            time.sleep(0.1)
            if kind == "body":
                lost = run.link.command("HKEYS", "spoilt") if run.link.command("EXISTS", "spoilt") else []
                destroyed += len(lost)
                run.remaining |= {(GROUP, id.decode()) for id in lost}
            elif kind == "letters":  # those that an earlier round set aside
                run.remaining |= _letters(run.link, "spoilt")
            run.link.command("DEL", key, "spoilt")
            run.fix()
            until = time.monotonic() + LEASE_S
            run.load.recorder.note("fault", who="", kind=f"wrong type: {kind}", at=before, until=until)
            if not run.goes_on():
                found.problem(f"it did not go on after {kind} was deleted and repaired")
            found.runs += 1
        run.load.stop("produce")
        dead = _letters(run.link, run.keys.letters)
        run.remaining |= dead
    if not told:
        found.problem("nobody was told of a key of a wrong type: these faults never took effect")
    found.figures["keys of a wrong type under load"] = (
        f"{len(kinds)} kinds, {told} times somebody was told; {destroyed} messages destroyed with a body,"
        f" {len(dead)} set aside because their order was"
    )


def _letters(link: Link, key: str) -> set[tuple[str, str]]:
    """Group and id of the dead letters in this hash."""
    names = link.command("HKEYS", key) if link.command("TYPE", key) == b"hash" else []
    return {(group, id) for group, _, id in (name.decode()[16:].partition("\n") for name in names)}

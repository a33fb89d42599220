"""Every right that a script needs, taken away just before it runs: what is then written, and whether it is sound.

Redis looks at rights command by command, and Lua does not roll back: a script that comes to a command which its user
lacks keeps what it wrote until then. Clients therefore ask before their first message (`doctor/rights.py`); this is
about a right that goes away later. Each kind of write in `cut.py` is made without each command that its script calls.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from sequencer.client import Sequencer
from sequencer.doctor.rights import commands_of
from sequencer.errors import SequencerError, ServerNotUsable
from sequencer.net.endpoint import Endpoint
from sequencer.net.link import Link
from sequencer.store.keys import shard_keys

from ...support.invariants import check_invariants
from .cut import State, state_of
from .found import Found
from .host import Host, binaries, running, workplace
from .load import NAMESPACE, QUEUE
from .writes import WRITES, Scene, Write

SCRIPTS = {
    "append": "append",
    "replace": "append",
    "claim": "claim",
    "renew": "renew",
    "save step": "save_step",
    "purge": "purge",
    **dict.fromkeys(("ack and release", "release"), "ack"),
    **dict.fromkeys(("nack", "park", "dead letter"), "nack"),
    **dict.fromkeys(("resume", "skip", "resume many", "skip many"), "resume"),
    **dict.fromkeys(("cancel", "reschedule"), "update"),
    **dict.fromkeys(("pause a group", "pause"), "pause"),
    "redrive": "redrive",
    "rerun": "rerun",
}
"""Kind of write -> its script."""
SHOWN = 20


@dataclass
class Denials:
    """What came of all trials on one server."""

    tried: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    broken: list[str] = field(default_factory=list)
    """Write, right, and the first invariant that does not hold."""
    unclear: list[str] = field(default_factory=list)


class Denier:
    """One server with a user whose rights come and go."""

    def __init__(self, host: Host, link: Link) -> None:
        self.host, self.link, self.said = host, link, Denials()
        self.keys = [shard_keys(NAMESPACE, QUEUE, 0)]
        self.link.command("ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all")

    def deny(self, name: str, write: Write, right: str) -> None:
        """One trial: the write without the right."""
        self.link.command("FLUSHALL")
        url = f"unix://app:secret@{self.host.socket}"
        user = Link(Endpoint.from_url(url))
        with Sequencer(QUEUE, url, namespace=NAMESPACE) as seq:
            last = write(Scene(seq, user, self.keys))
            before = state_of(self.link)
            self.link.command("ACL", "SETUSER", "app", f"-{right.lower()}")
            try:
                self._judge(name, right.lower(), _error_of(last), before)
            finally:
                self.link.command("ACL", "SETUSER", "app", f"+{right.lower()}")
                user.close()

    def _judge(self, name: str, right: str, error: SequencerError | None, before: State) -> None:
        said = f"{name} without {right}"
        self.said.tried += 1
        is_same, wrong = state_of(self.link) == before, check_invariants(self.link, self.keys)
        if wrong:
            outcome = "broken" if error else "broken without an error"
            self.said.broken.append(f"{said}, {outcome}: {wrong[0]}")
        elif error is None:
            outcome = "not needed this time"
        else:
            outcome = "refused, nothing written" if is_same else "refused after a part that is sound"
        if error and not isinstance(error, ServerNotUsable):
            self.said.unclear.append(f"{said}: {type(error).__name__}: {error}")
        self.said.counts[outcome] += 1


def _error_of(last: Any) -> SequencerError | None:
    try:
        last()
    except SequencerError as error:
        return error
    return None


def deny_all(host: Host, link: Link, writes: dict[str, Write]) -> Denials:
    """Every write without every command of its script."""
    denier = Denier(host, link)
    for name, write in writes.items():
        for right in sorted(commands_of(SCRIPTS[name])):
            denier.deny(name, write, right)
    return denier.said


def denied(found: Found) -> None:
    """On each server there is; in a part of CI on one of them, by the seed."""
    servers = list(binaries().items())
    chosen = {name: write for name, write in WRITES.items() if name in SCRIPTS}
    for version, binary in servers if found.scale == "nightly" else [servers[found.seed % len(servers)]]:
        with workplace() as directory, running(Host(directory / "d", binary=binary)) as host, host.link() as link:
            said = deny_all(host, link, chosen)
        found.runs += said.tried
        found.faults["right removed before a script"] += said.tried - said.counts["not needed this time"]
        for what, cases in (("half written", said.broken), ("unclear errors", said.unclear)):
            if cases:
                found.problem(f"{version}: {what} in {len(cases)} of {said.tried}: {' / '.join(cases[:SHOWN])}")
        found.figures[f"scripts without one of their rights, {version}"] = f"{said.tried} tried: {dict(said.counts)}"

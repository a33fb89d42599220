"""What a consumer sends about its leased groups: ack, nack, save_step, renew. A release is an ack of no members."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from ..store.keys import ShardKeys
from ..store.ledger import Written
from .call import Call, ms_text, on_shard
from .outage import ShardOutage, Waits

Ending = Literal["park", "dead", "drop"]  # what becomes of a message that is not tried any more


EndingSaid = str | tuple[str, str]
"""What history says of a message; of one with steps also its last ledger, where contents are kept."""


class Ack(NamedTuple):
    """Members of one leased group that were handled, and whether the group is released. No members: release only."""

    group: str
    token: str
    members: list[str]
    release: bool
    mark: str = ""  # the group's watermark with these members handled; "" leaves it
    late: int = 0  # how many of them were late
    next: str = ""  # of a group that is kept: the member that its consumer handles next, or ""
    endings: Sequence[EndingSaid] = ()  # what history says of each of its members, where one is kept


class Acked(NamedTuple):
    """The entries refused for their token, and whether groups are due, or the head of a kept group is another."""

    refused: list[Ack]
    is_more_due: bool


class Nack(NamedTuple):
    """A failed head, and what becomes of it; `failure` is kept."""

    group: str
    token: str
    member: str
    attempts: int
    delay_s: float | None  # until its group may be claimed again; None for the end of trying, by `ending`
    failure: bytes
    ending: Ending = "park"
    mark: str = ""  # the group's watermark if the message is passed ("dead", "drop"); "" leaves it
    is_late: bool = False
    outage: Waits | None = None
    """Of an outage: how long the group waits, if that is not counted as an attempt."""
    is_timeout: bool = False
    """Whether its handler took too long: as a probe it failed so, else that is a failure like others."""
    before: str = ""
    """The member whose ack was sent in front of it, in the same flight: it must be gone by then."""
    written: Written | None = None
    """The ledger, of a message that has one: then `attempts` is not used, as unanswered leases are counted there."""
    has_progressed: bool = False
    """Whether a step became done since the ledger was written last: so they begin again too."""
    is_missing: bool = False
    """Whether this version lacks what the message needs: it is released, and nothing is counted but how often."""
    ended: str = ""  # what history says of one that is dropped after an attempt, where one is kept

    @property
    def verdict(self) -> str:
        return "outage" if self.outage else "missing" if self.is_missing else "timeout" if self.is_timeout else ""

    @property
    def kept_attempts(self) -> str:
        """As the record keeps them from now on; "" leaves them."""
        if self.written is None:
            return "" if self.is_missing else str(self.attempts)
        return "0" if self.has_progressed or self.delay_s is None else ""


class SaveStep(NamedTuple):
    """The ledger of a message in progress, as it is before its next step begins."""

    group: str
    token: str
    member: str
    before: str  # the member whose ack was sent in front of it, in the same flight, or ""
    written: Written
    has_progressed: bool  # whether a step became done since the ledger was written last: attempts begin again


StepSaved = Literal[1, 0, -1, -2]
"""1: written; 0: the lease is over; -1: the message is gone; -2: what goes in front is still there, both go again."""


class Nacked(NamedTuple):
    """What became of a nack."""

    is_valid: bool  # whether its token was; else nothing was changed
    is_uncounted: bool = False  # whether it was an outage that counts no attempt
    wait_s: float | None = None  # how long the group waits then
    held: ShardOutage | None = None  # the outage that holds the shard back now
    is_behind: bool = False
    """Whether what was to be acknowledged before it is still there: nothing was changed, and both are sent again."""


def _parse_nacked(reply: Any) -> Nacked:
    if isinstance(reply, int):
        return Nacked(reply == 1, is_behind=reply == -2)
    uncounted, wait_ms, now_us, since_us, probe_us, is_new = reply
    wait_s = float(wait_ms) / 1000 if wait_ms else None
    held = ShardOutage(int(now_us), int(since_us or now_us), int(probe_us), is_new == b"1") if probe_us else None
    return Nacked(True, uncounted == b"1", wait_s, held)


def ack(keys: ShardKeys, acks: Sequence[Ack], *, hint: bool = True) -> Call[Acked]:
    """Remove handled messages and release groups."""
    rows = [(a.group, a.token, "1" if a.release else a.next or "0", a.mark, a.late, len(a.members)) for a in acks]
    words = [*zip(*rows, strict=True), [member for a in acks for member in a.members]]
    endings = [one.endings for one in acks]

    def parse(reply: list[int]) -> Acked:
        return Acked([acks[position - 1] for position in reply[1:]], reply[0] > 0)

    return on_shard(keys, "ack", words, hint, endings if any(endings) else "", parse=parse)


def nack(keys: ShardKeys, entry: Nack) -> Call[Nacked]:
    """Record a failure of a leased group's head."""
    ends = ("", entry.ending) if entry.delay_s is None else (ms_text(entry.delay_s), "")
    waits = [("" if seconds is None else round(seconds * 1000)) for seconds in entry.outage] if entry.outage else None
    words = (*entry[:3], entry.kept_attempts, *ends, entry.failure, entry.mark, entry.is_late, entry.verdict, waits)
    return on_shard(keys, "nack", *words, entry.before, entry.written, entry.ended, parse=_parse_nacked)


def save_step(keys: ShardKeys, entry: SaveStep) -> Call[StepSaved]:
    """Write the ledger of the message in progress. A repeat is harmless, also one that comes late."""
    return on_shard(keys, "save_step", *entry, parse=int)  # type: ignore[arg-type]


def renew(
    keys: ShardKeys, leases: Sequence[tuple[str, str]], lease_s: float, *, alone: bool = False
) -> Call[list[tuple[str, str]]]:
    """Prolong (group, token) leases; returns those that are no longer valid. `alone`: their end is an attempt."""

    def parse(reply: list[int]) -> list[tuple[str, str]]:
        return [leases[position - 1] for position in reply]

    return on_shard(keys, "renew", leases, ms_text(lease_s), alone, parse=parse)

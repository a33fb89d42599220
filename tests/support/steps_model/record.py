"""What a shard holds: records with their ledgers, groups with their leases and failures. Plain data."""

from __future__ import annotations

from dataclasses import dataclass, field

from .actions import Failure
from .ledger import Ledger


@dataclass(frozen=True)
class Record:
    """One message in the server."""

    id: str
    group: str
    kind: str
    stamp: int
    score: int
    uid: int = 0
    """Which message it is; for the judge alone. It stays over reschedule, set aside and redrive."""
    due: int = 0
    unanswered: int = 0
    ledger: Ledger | None = None
    serial: int = 0
    fate: str = ""
    """late, expired, undecodable: why the next pass gives it up."""

    @property
    def member(self) -> tuple[int, str]:
        return self.stamp, self.id

    @property
    def has_effects(self) -> bool:
        return self.ledger is not None and self.ledger.has_effects


@dataclass(frozen=True)
class Told:
    """The failure of a group or of a dead letter, as it is kept. `at` makes each one different."""

    failure: Failure
    at: int
    member: tuple[int, str]
    outages: int = 0
    missing: int = 0


@dataclass
class Group:
    records: dict[str, Record] = field(default_factory=dict)
    visible: float = 0
    token: int = 0
    """Of the lease, 0 for none. It stays when the lease ran out, until the next claim."""
    told: Told | None = None

    def ordered(self) -> list[Record]:
        return sorted(self.records.values(), key=lambda record: (record.score, record.stamp))


@dataclass(frozen=True)
class Claim:
    """What a consumer gets."""

    token: int
    records: tuple[Record, ...]
    told: Told | None

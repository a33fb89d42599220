"""The policy of a queue: what its producers and consumers must agree on, kept in the server. Pure.

A policy given to a Sequencer is set for the queue; clients that give none use what is there. The scripts read it
at every call, so that a change takes effect at the next one. `sequence` decides what scores mean, and can't change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

from ..errors import ConfigurationError
from ..values.durations import Duration
from .option import FLAG, DefaultT, Kind, choice, declared, option, read_options, seconds, whole

OnLate = Literal["handle", "dead_letter", "drop", "refuse"]
OnGap = Literal["park", "skip"]
HistoryKept = Literal["", "ends", "bodies"]
"""What a queue keeps of an ended message: nothing, its outcome, or its content too."""
DAY_S = 86_400.0


class PolicySettings(TypedDict, total=False):
    """A policy as callers write it; None uses the queue's own."""

    dedup_window: Duration | None
    dedup_cap: int | None
    on_late: OnLate | None
    watermark_window: Duration | None
    watermark_cap: int | None
    reorder_window: Duration | None
    sequence: bool | None
    gap_timeout: Duration | None
    on_gap: OnGap | None
    history_window: Duration | None
    history_cap: int | None
    history_bodies: bool | None
    dead_window: Duration | None
    dead_cap: int | None


def _kept(key: str, kind: Kind, default: DefaultT, help: str) -> DefaultT:
    return option(kind, default, help, ("configure", "run"), key=key)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """A queue's policy; times are in seconds. Raises ConfigurationError for values out of range or at odds."""

    dedup_window: float = _kept(
        "dedup_us",
        seconds(0, 7 * DAY_S),
        300.0,  # as with the FIFO queues of SQS
        "How long, at least, an id is remembered after its message was handled; at most twice that. 0: only while it "
        "is pending.",
    )
    dedup_cap: int = _kept(
        "dedup_cap",
        whole(1, 10**8),
        1_000_000,
        "Ids per shard above which the older half is forgotten early; 44 to 76 bytes each.",
    )
    on_late: OnLate = _kept(
        "on_late",
        choice(OnLate),
        "handle",
        "What happens to a message whose score is below one already handled in its group.",
    )
    watermark_window: float = _kept(
        "mark_us",
        seconds(0, 366 * DAY_S),
        3600.0,
        "How long, at least, the watermark of a group is remembered after its last message; at most twice that. For a "
        "sequence the default is 30 days: a forgotten group starts again at 1.",
    )
    watermark_cap: int = _kept(
        "mark_cap",
        whole(1, 10**8),
        100_000,
        "Groups per shard above which the older half of the watermarks is forgotten early; about 50 bytes each.",
    )
    reorder_window: float = _kept(
        "window_us",
        seconds(0, DAY_S),
        0.0,
        "How long a message waits after its arrival, so that stragglers can take their place before it. 0: not at all.",
    )
    sequence: bool = _kept(
        "sequence",
        FLAG,
        False,
        "Scores are consecutive numbers in each group, from 1 (or 0), set by the producer. Fixed at first use.",
    )
    gap_timeout: float = _kept(
        "gap_us",
        seconds(0, 366 * DAY_S),
        60.0,
        "How long a message waits, from its arrival, for missing numbers before it.",
    )
    on_gap: OnGap = _kept(
        "on_gap", choice(OnGap), "park", "What happens to a group whose missing number does not arrive in time."
    )
    history_window: float = _kept(
        "history_us",
        seconds(0, 366 * DAY_S),
        0.0,
        "How long the outcome of each ended message is kept; at most 1/24 longer. 0: not at all.",
    )
    history_cap: int = _kept(
        "history_cap",
        whole(24, 10**8),
        1_000_000,
        "Messages in the history of a shard above which its oldest part, 1/24 or more, is dropped early.",
    )
    history_bodies: bool = _kept(
        "history_bodies",
        FLAG,
        False,
        "Keep body, headers, steps and last error in the history too, for `rerun`; takes the size of the body plus "
        "about 200 bytes per message.",
    )
    dead_window: float = _kept(
        "dead_us",
        seconds(0, 10 * 366 * DAY_S),
        0.0,
        "How long a dead letter is kept before `sweep` deletes it. 0: forever.",
    )
    dead_cap: int = _kept(
        "dead_cap", whole(0, 10**8), 0, "Dead letters per shard above which `sweep` deletes the oldest. 0: no limit."
    )

    def __post_init__(self) -> None:
        read_options(self)
        is_ordered = self.on_late != "handle"
        for name, is_given in (("reorder_window", self.reorder_window), ("on_late", is_ordered)):
            if self.sequence and is_given:
                raise ConfigurationError("not_with_sequence", name=name, value=getattr(self, name))
        if not self.watermark_window and (self.sequence or is_ordered):
            name = "sequence" if self.sequence else "on_late"
            raise ConfigurationError("window_needed", name=name, needed="watermark_window")
        if self.history_bodies and not self.history_window:
            raise ConfigurationError("window_needed", name="history_bodies", needed="history_window")

    def stored(self) -> dict[str, str]:
        """Key -> text, as the server keeps it: times in us."""
        return {one.key: _written(one.kind, getattr(self, name)) for name, one in declared(Policy).items()}


def _written(kind: Kind, value: Any) -> str:
    return str(round(value * 1e6) if kind.type is float else int(value) if kind is FLAG else value)


def _read(kind: Kind, stored: str) -> Any:
    if kind.type is float:
        return int(stored) / 1e6
    return stored == "1" if kind is FLAG else int(stored) if kind.type is int else stored


KEYS = tuple(one.key for one in declared(Policy).values())
"""What the server keeps of a policy."""
NUMBERS = tuple(one.key for one in declared(Policy).values() if one.kind.type in (int, float))
"""Those whose text is a whole number."""


def read_policy(stored: Mapping[str, str]) -> dict[str, Any]:
    """What the server keeps, as arguments of Policy; what is missing is left out."""
    return {name: _read(one.kind, stored[one.key]) for name, one in declared(Policy).items() if one.key in stored}


def merge_policy(queue: str, stored: Mapping[str, str], asked: Mapping[str, Any]) -> Policy:
    """The policy when these fields are in the server and those are asked for. Raises ConfigurationError."""
    known = read_policy(stored)
    before = known.get("sequence", False)
    if known and (value := asked.get("sequence", before)) != before:
        raise ConfigurationError("option_fixed", queue=queue, name="sequence", before=before, value=value)
    merged = {**known, **asked}
    if merged.get("sequence") and "watermark_window" not in merged:
        merged["watermark_window"] = 30 * DAY_S
    return Policy(**merged)

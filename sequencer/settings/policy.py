"""The policy of a queue: what its producers and consumers must agree on, kept in the server, and the watermark. Pure.

Whoever names a policy when making a Sequencer sets it for the queue; the others take what is there. The scripts read it
at every call, so that a change takes effect at the next one. `sequence` decides what scores mean, and can't change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

from ..errors import ConfigurationError, shown
from ..values.checks import check_choice, check_integer, check_number

OnLate = Literal["handle", "dead_letter", "drop", "refuse"]
OnGap = Literal["park", "skip"]
DAY_S = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """A queue's policy. Seconds. Raises ConfigurationError for a value out of range and for two that exclude each
    other.
    """

    dedup_window: float = 60.0
    """How long an id stays known after its message was handled; at most twice that. 0: only while it is pending."""
    dedup_cap: int = 1_000_000
    """Ids after which the older half is forgotten early: at most twice as many, and a batch, are kept in a lane,
    about 50 bytes each.
    """
    on_late: OnLate = "handle"
    """What becomes of a message whose score lies below one already handled in its group."""
    watermark_window: float = 3600.0
    """How long a group's watermark is known after its last message was handled; at most twice that. For a sequence the
    default is 30 days: a group that was forgotten begins again at 1."""
    watermark_cap: int = 100_000
    """Groups after which the older half is forgotten early: at most twice as many in a lane, about 50 bytes each."""
    reorder_window: float = 0.0
    """A message is handled no earlier than this after its arrival, so that stragglers take their place before it."""
    sequence: bool = False
    """Scores are the producer's own consecutive numbers in each group, from 1 (or 0)."""
    gap_timeout: float = 60.0
    """How long a message waits, from its arrival, for the numbers missing before it."""
    on_gap: OnGap = "park"

    def __post_init__(self) -> None:
        check_number("dedup_window", self.dedup_window, 0, 7 * DAY_S, " of seconds")
        check_integer("dedup_cap", self.dedup_cap, 1, 10**8)
        check_choice("on_late", self.on_late, ("handle", "dead_letter", "drop", "refuse"))
        check_number("watermark_window", self.watermark_window, 0, 366 * DAY_S, " of seconds")
        check_integer("watermark_cap", self.watermark_cap, 1, 10**8)
        check_number("reorder_window", self.reorder_window, 0, DAY_S, " of seconds")
        if not isinstance(self.sequence, bool):
            raise ConfigurationError(f"sequence={shown(self.sequence)} must be True or False")
        check_number("gap_timeout", self.gap_timeout, 0, 366 * DAY_S, " of seconds")
        check_choice("on_gap", self.on_gap, ("park", "skip"))
        if self.sequence and self.reorder_window:
            raise ConfigurationError(
                f"reorder_window={self.reorder_window!r} with sequence=True: a sequence waits for the "
                "missing number itself and needs no window; use one of the two"
            )
        if self.sequence and self.on_late != "handle":
            raise ConfigurationError(
                f"on_late={self.on_late!r} with sequence=True: a number already handled is a duplicate there, and one "
                "that was skipped is handled when it comes; leave on_late out"
            )
        if self.sequence and not self.watermark_window:
            raise ConfigurationError("watermark_window=0 with sequence=True: a sequence needs to know its last number")
        if self.on_late != "handle" and not self.watermark_window:
            raise ConfigurationError(f"on_late={self.on_late!r} needs a watermark_window above 0")

    def stored(self) -> dict[str, str]:
        """Field -> text, as the server keeps it: times in us."""
        return {
            "dedup_us": _us(self.dedup_window),
            "dedup_cap": str(self.dedup_cap),
            "on_late": self.on_late,
            "mark_us": _us(self.watermark_window),
            "mark_cap": str(self.watermark_cap),
            "window_us": _us(self.reorder_window),
            "sequence": "1" if self.sequence else "0",
            "gap_us": _us(self.gap_timeout),
            "on_gap": self.on_gap,
        }


FIELDS = {
    "dedup_window": "dedup_us",
    "dedup_cap": "dedup_cap",
    "on_late": "on_late",
    "watermark_window": "mark_us",
    "watermark_cap": "mark_cap",
    "reorder_window": "window_us",
    "sequence": "sequence",
    "gap_timeout": "gap_us",
    "on_gap": "on_gap",
}
"""Option -> its field in the server."""
NAMES = tuple(field.name for field in fields(Policy))


def _us(seconds: float) -> str:
    return str(round(seconds * 1e6))


def read_policy(stored: Mapping[str, str]) -> dict[str, Any]:
    """What the server keeps, as arguments of Policy; fields that are missing are left out."""
    found: dict[str, Any] = {}
    for name, key in FIELDS.items():
        if key in stored:
            text = stored[key]
            found[name] = int(text) / 1e6 if key.endswith("_us") else int(text) if key.endswith("_cap") else text
    if "sequence" in stored:
        found["sequence"] = stored["sequence"] == "1"
    return found


def merge_policy(queue: str, stored: Mapping[str, str], asked: Mapping[str, Any]) -> Policy:
    """The policy when these fields are in the server and those are asked for. Raises ConfigurationError."""
    known = read_policy(stored)
    if known and asked.get("sequence", known.get("sequence")) != known.get("sequence"):
        raise ConfigurationError(
            f"queue {queue!r} has sequence={known.get('sequence', False)} since its first use, which can't change; "
            "leave sequence out, or use another queue name"
        )
    merged = {**known, **asked}
    if merged.get("sequence") and "watermark_window" not in merged:
        merged["watermark_window"] = 30 * DAY_S
    return Policy(**merged)


# -- the watermark ----------------------------------------------------------------------------------------------

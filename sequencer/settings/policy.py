"""The policy of a queue: what its producers and consumers must agree on, kept in the server. Pure.

Whoever names a policy when making a Sequencer sets it for the queue; the others take what is there. The scripts read it
at every call, so that a change takes effect at the next one. `sequence` decides what scores mean, and can't change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any, Literal

from ..errors import ConfigurationError, shown
from ..values.checks import check_choice, check_integer, seconds_of

OnLate = Literal["handle", "dead_letter", "drop", "refuse"]
OnGap = Literal["park", "skip"]
HistoryKept = Literal["", "ends", "bodies"]
"""What a queue keeps of a message that ended: nothing, how it ended, or its content too."""
DAY_S = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """A queue's policy. Seconds. Raises ConfigurationError for a value out of range and for two that exclude each
    other.
    """

    dedup_window: float = 300.0
    """How long an id stays known after its message was handled; at most twice that. 0: only while it is pending.
    As with the FIFO queues of SQS, five minutes.
    """
    dedup_cap: int = 1_000_000
    """Ids after which the older half is forgotten early: at most twice as many, and a batch, are kept in a shard,
    44 to 76 bytes each (benchmark `memory`).
    """
    on_late: OnLate = "handle"
    """What becomes of a message whose score lies below one already handled in its group."""
    watermark_window: float = 3600.0
    """How long a group's watermark is known after its last message was handled; at most twice that. For a sequence the
    default is 30 days: a group that was forgotten begins again at 1."""
    watermark_cap: int = 100_000
    """Groups after which the older half is forgotten early: at most twice as many in a shard, about 50 bytes each."""
    reorder_window: float = 0.0
    """A message is handled no earlier than this after its arrival, so that stragglers take their place before it."""
    sequence: bool = False
    """Scores are the producer's own consecutive numbers in each group, from 1 (or 0)."""
    gap_timeout: float = 60.0
    """How long a message waits, from its arrival, for the numbers missing before it."""
    on_gap: OnGap = "park"
    history_window: float = 0.0
    """How long it is kept what became of a message that ended; 0: not at all. At most a 24th longer."""
    history_cap: int = 1_000_000
    """Messages in the history of a shard after which its oldest part, a 24th or more, is dropped early."""
    history_bodies: bool = False
    """Whether the history keeps body, headers, steps and last error of each message too, so that `rerun` can append it
    again: the size of the body and about 200 bytes a message."""
    dead_window: float = 0.0
    """How long a dead letter is kept before `sweep` deletes it; 0: for ever."""
    dead_cap: int = 0
    """Dead letters of a shard above which `sweep` deletes the oldest; 0: no limit."""

    def __post_init__(self) -> None:
        seconds_of("dedup_window", self.dedup_window, 0, 7 * DAY_S)
        check_integer("dedup_cap", self.dedup_cap, 1, 10**8)
        check_choice("on_late", self.on_late, ("handle", "dead_letter", "drop", "refuse"))
        seconds_of("watermark_window", self.watermark_window, 0, 366 * DAY_S)
        check_integer("watermark_cap", self.watermark_cap, 1, 10**8)
        seconds_of("reorder_window", self.reorder_window, 0, DAY_S)
        for option in ("sequence", "history_bodies"):
            if not isinstance(getattr(self, option), bool):
                raise ConfigurationError(f"{option}={shown(getattr(self, option))} must be True or False")
        seconds_of("gap_timeout", self.gap_timeout, 0, 366 * DAY_S)
        check_choice("on_gap", self.on_gap, ("park", "skip"))
        seconds_of("history_window", self.history_window, 0, 366 * DAY_S)
        check_integer("history_cap", self.history_cap, 24, 10**8)
        seconds_of("dead_window", self.dead_window, 0, 10 * 366 * DAY_S)
        check_integer("dead_cap", self.dead_cap, 0, 10**8)
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
        if self.history_bodies and not self.history_window:
            raise ConfigurationError("history_bodies=True needs a history_window above 0")

    def stored(self, before: Mapping[str, str] = MappingProxyType({})) -> dict[str, str]:
        """Field -> text, as the server keeps it: times in us. A field that most queues never set is left out while it
        has its default, unless it was there `before`.
        """
        texts = {name: field.dump(getattr(self, name)) for name, field in FIELDS.items()}
        return {
            field.key: texts[name]
            for name, field in FIELDS.items()
            if not field.is_rare or field.key in before or getattr(self, name) != _DEFAULTS[name]
        }


@dataclass(frozen=True, slots=True)
class StoredField:
    """How the server keeps an option: the name of its field, and its text from the value and back."""

    key: str
    dump: Callable[[Any], str]
    load: Callable[[str], Any]
    is_number: bool = False
    """Whether the text is a whole number."""
    is_rare: bool = False
    """Whether the server has it only where it was set once: the others pay nothing for it."""


def _time(key: str, *, is_rare: bool = False) -> StoredField:
    """Seconds, kept in us."""
    return StoredField(key, lambda seconds: str(round(seconds * 1e6)), lambda text: int(text) / 1e6, True, is_rare)


def _count(key: str, *, is_rare: bool = False) -> StoredField:
    return StoredField(key, str, int, True, is_rare)


def _flag(key: str, *, is_rare: bool = False) -> StoredField:
    return StoredField(key, lambda is_set: "1" if is_set else "0", lambda text: text == "1", is_rare=is_rare)


def _choice(key: str) -> StoredField:
    return StoredField(key, str, str)


FIELDS: Mapping[str, StoredField] = {
    "dedup_window": _time("dedup_us"),
    "dedup_cap": _count("dedup_cap"),
    "on_late": _choice("on_late"),
    "watermark_window": _time("mark_us"),
    "watermark_cap": _count("mark_cap"),
    "reorder_window": _time("window_us"),
    "sequence": _flag("sequence"),
    "gap_timeout": _time("gap_us"),
    "on_gap": _choice("on_gap"),
    "history_window": _time("history_us", is_rare=True),
    "history_cap": _count("history_cap", is_rare=True),
    "history_bodies": _flag("history_bodies", is_rare=True),
    "dead_window": _time("dead_us", is_rare=True),
    "dead_cap": _count("dead_cap", is_rare=True),
}
"""Option -> its field in the server."""
NAMES = tuple(FIELDS)
_DEFAULTS = {one.name: one.default for one in fields(Policy)}


def read_policy(stored: Mapping[str, str]) -> dict[str, Any]:
    """What the server keeps, as arguments of Policy; fields that are missing are left out."""
    return {name: field.load(stored[field.key]) for name, field in FIELDS.items() if field.key in stored}


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

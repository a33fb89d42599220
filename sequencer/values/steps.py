"""What a step gets beside its message, and what is seen of the steps of a message."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

StepState = Literal["open", "started", "done", "failed", "left"]


class StepCall(NamedTuple):
    """One call of a step, or of its check: the second argument of their functions."""

    name: str
    key: str
    """Stable over all tries and consumers, and never that of another message: hand it to a provider, so that it knows a
    repeat as one. At most 200 characters of ASCII.
    """
    token: int
    """The fencing token of the lease."""
    attempt: int
    """1 for the first call."""
    result: Any
    """Of the step that this one comes after; None where it names none."""
    results: Mapping[str, Any]
    """What the steps that are done returned, as JSON has it, by their names."""


@dataclass(frozen=True, slots=True)
class StepInfo:
    """What became of one step of a message."""

    name: str
    state: StepState
    """`started`: it runs, or nobody knows how it ended; `left`: an optional one that was given up."""
    once: bool
    optional: bool
    tries: int
    """Since the message was last resumed or redriven."""
    turn: int
    """1, and one more each time that somebody said `again`."""
    at: float | None
    """When it last moved, in seconds since 1970."""
    took_s: float
    who: str
    """The person who said that it is done, or ""."""
    result: Any
    error: str
    """Of its last failure; of a step that is done: why its result could not be kept."""
    key: str
    """What it hands to a provider."""


@dataclass(frozen=True, slots=True)
class StepFailure:
    """A failure of the past."""

    attempt: int
    at: float
    """In seconds since 1970."""
    error: str


@dataclass(frozen=True, slots=True)
class MessageSteps:
    """What became of the steps of a message: of those that began, or that a pass left open."""

    id: str
    group: tuple[str, ...]
    is_dead: bool
    """Whether the message is a dead letter."""
    steps: tuple[StepInfo, ...]
    failures: tuple[StepFailure, ...]
    """The last five, the oldest first."""
    questions: tuple[str, ...]
    """Required `once` steps that began or failed, and whose end a person must tell."""
    unreadable: str = ""
    """Why the ledger can't be read, or ""."""

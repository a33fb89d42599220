"""Options of a queue and of a consumer, checked when they are made. Seconds here; `calls.py` makes integers of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from .backoff import Backoff
from .errors import ConfigurationError
from .keys import check_name

MAX_LANES = 1024


def _number(name: str, value: Any, low: float, high: float, unit: str = "") -> None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or not low <= value <= high:
        raise ConfigurationError(f"{name}={value!r} must be a number{unit} from {low:g} to {high:g}")


def _integer(name: str, value: Any, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ConfigurationError(f"{name}={value!r} must be a whole number from {low} to {high}")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueOptions:
    """What a client knows about its queue. Raises ConfigurationError for a value out of range."""

    queue: str
    namespace: str = "sequencer"
    group_by: tuple[str, ...] | None = None
    """Names of body fields that make the group when `append` gets none."""
    id_by: str | None = None
    score_by: str | None = None
    lanes: int | None = None
    """Shards of the queue, kept in the server at first use; None takes what is there, else 1."""
    max_attempts: int = 5
    """Tries of one message, the first included, before its group is parked."""
    backoff_s: float = 0.5
    backoff_cap_s: float = 60.0
    max_body_bytes: int = 1024 * 1024
    """Largest body and headers together, as JSON."""

    def __post_init__(self) -> None:
        check_name("queue", self.queue)
        check_name("namespace", self.namespace)
        if isinstance(self.group_by, str) or (
            self.group_by is not None and not (self.group_by and all(isinstance(f, str) and f for f in self.group_by))
        ):
            raise ConfigurationError(
                f"group_by={self.group_by!r} must be a sequence of field names, for example ('user_id', 'order_id')"
            )
        for name in ("id_by", "score_by"):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, str) and value):
                raise ConfigurationError(f"{name}={value!r} must be the name of a body field")
        if self.lanes is not None:
            _integer("lanes", self.lanes, 1, MAX_LANES)
        _integer("max_attempts", self.max_attempts, 1, 9999)
        _number("backoff_s", self.backoff_s, 0, 86_400, " of seconds")
        _number("backoff_cap_s", self.backoff_cap_s, self.backoff_s, 7 * 86_400, " of seconds")
        _integer("max_body_bytes", self.max_body_bytes, 1, 512 * 1024 * 1024)

    @property
    def backoff(self) -> Backoff:
        return Backoff(self.backoff_s, self.backoff_cap_s)


def field_names(names: Sequence[str] | None) -> tuple[str, ...] | None:
    """`group_by` as a tuple; a plain string stays one, so that QueueOptions can refuse it with its reason."""
    return names if names is None or isinstance(names, str | tuple) else tuple(names)  # type: ignore[return-value]


@dataclass(frozen=True, slots=True)
class ClaimLimits:
    """The most that one claim takes: groups, messages, and bytes of bodies (one message always fits)."""

    groups: int = 100
    messages: int = 1000
    bytes: int = 1024 * 1024

    def __post_init__(self) -> None:
        _integer("groups", self.groups, 1, 1000)
        _integer("messages", self.messages, 1, 1000)
        _integer("bytes", self.bytes, 1, 2**31)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerOptions:
    """How one consumer works. Raises ConfigurationError for a value out of range."""

    lease_s: float = 15.0
    """A consumer that dies delays its groups by this long; renewed at a third of it while a handler runs."""
    until_empty: bool = False
    """End when nothing is left but parked groups."""
    max_messages: int | None = None
    """End, to be replaced, after this many messages."""
    max_age_s: float | None = None
    limits: ClaimLimits = field(default_factory=ClaimLimits)

    def __post_init__(self) -> None:
        _number("lease", self.lease_s, 0.1, 86_400, " of seconds")
        if self.max_messages is not None:
            _integer("max_messages", self.max_messages, 1, 2**53)
        if self.max_age_s is not None:
            _number("max_age", self.max_age_s, 0.1, 366 * 86_400, " of seconds")
